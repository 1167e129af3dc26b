//go:build !cgo || !linux

// Command libcuda is built with cgo on Linux only.
package main

func main() {}
