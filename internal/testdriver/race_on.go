//go:build race

package testdriver

// race says that the race detector runs, under which walks are short.
const race = true
