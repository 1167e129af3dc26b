//go:build race || asan

package launch_test

const raceEnabled = true
