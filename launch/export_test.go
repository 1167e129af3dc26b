package launch

// EncodeEntry makes an entry for tests of caches.
func EncodeEntry(f Format, code []byte, symbols map[string]string) []byte {
	return encodeEntry(newObject(f, code, ObjectOptions{Symbols: symbols}))
}
