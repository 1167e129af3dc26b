package memview

import "github.com/go-handoff/handoff/dlpack"

func formatDType(format string) (dlpack.DataType, error) { return dlpack.UInt8, nil }
