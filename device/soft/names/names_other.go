//go:build !cgo || !linux

// Package names exports the CUDA driver's own names over the software device; it is for
// cgo on Linux only.
package names
