//go:build race || asan

package dlpack_test

const raceEnabled = true
