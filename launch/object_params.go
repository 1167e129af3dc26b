package launch

// paramTables are the parameters of all kernels in a piece of code, as the
// code declares them.
type paramTables struct {
	kernels map[string][]ParamInfo
	err     error
}

func (t *paramTables) lookup(name string) ([]ParamInfo, error) { return t.kernels[name], t.err }

func readTables(f Format, code []byte) *paramTables {
	return &paramTables{err: ErrNotSupported}
}
