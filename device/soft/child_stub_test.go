//go:build !cgo || !linux

package soft_test

func child(string) int { return 2 }
