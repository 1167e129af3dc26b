//go:build !cgo || !linux

package soft

import "io"

// StartHunt returns [ErrNotSupported] in this build.
func StartHunt() error { return ErrNotSupported }

// Races is empty in this build.
func Races() []Race { return nil }

// ForgetRaces is empty in this build.
func ForgetRaces() []Race { return nil }

// Hunted is empty in this build.
func Hunted() HuntStats { return HuntStats{} }

func forgetRaces(uint64) {}

// StartTrace returns [ErrNotSupported] in this build.
func StartTrace(io.Writer) error { return ErrNotSupported }

// OmitEdges does nothing in this build.
func OmitEdges(checked, func(Edge) bool) {}

// HostTouch does nothing in this build.
func HostTouch(_, _ uintptr, _ bool) {}

func huntMark() uint64         { return 0 }
func racesSince(uint64) []Race { return nil }
func seedText() string         { return "no software device" }
