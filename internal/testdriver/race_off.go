//go:build !race

package testdriver

const race = false
