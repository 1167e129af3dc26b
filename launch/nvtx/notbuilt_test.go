//go:build !(cgo && linux)

package nvtx_test

const enabledBuild = false
