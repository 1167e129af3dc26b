//go:build cgo && linux

package soft

// Open is the table that package driver gets.
var Open = open
