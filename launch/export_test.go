package launch

import "errors"

// EncodeEntry makes an entry for tests of caches.
func EncodeEntry(f Format, code []byte, symbols map[string]string) []byte {
	return encodeEntry(newObject(f, code, ObjectOptions{Symbols: symbols}))
}

// Pack returns the bytes that a parameter of size bytes gets for an argument.
func Pack(x any, size int) ([]byte, error) {
	b := newBlock(1, size)
	if b == nil {
		return nil, ErrNotSupported // no C memory in this build
	}
	b.aim(newParamTable([]ParamInfo{{Size: uintptr(size)}}))
	if _, m := b.set(0, x); m != nil {
		return nil, errors.Join(m, m.err)
	}
	return append([]byte(nil), b.vals[:size]...), nil
}
