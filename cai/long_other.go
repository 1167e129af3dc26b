//go:build !windows

package cai

const isWindows = 0
