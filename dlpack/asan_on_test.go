//go:build asan

package dlpack_test

const asanEnabled = true
