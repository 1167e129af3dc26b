//go:build cgo && linux

package testdriver

const softBuilt = true
