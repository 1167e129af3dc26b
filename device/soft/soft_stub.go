//go:build !cgo || !linux

package soft

// Available says whether this build has the software device.
const Available = false

func enable(*Options) error { return ErrNotSupported }

func live() Live { return Live{} }

func idle() bool { return true }
