//go:build cgo && (race || asan)

package dlpack_test

const raceEnabled = true
