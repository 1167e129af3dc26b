//go:build cgo && linux

// Package probe asks a driver for its answers in many situations, so that those of the
// software device can be compared with those of a real one. Only tests import it.
package probe

// #cgo CFLAGS: -I${SRCDIR}/../../../driver/include -std=gnu11
// #cgo LDFLAGS: -ldl
// #include "probe.h"
import "C"

import "unsafe"

// Run prints the answers of the driver behind a table, an ho_cuda_table, to standard output.
func Run(table unsafe.Pointer) { C.ho_soft_probe((*C.ho_cuda_table)(table)) }

// SetForked does what fork does in a child process: it sets the mark that package soft's guard
// looks at.
func SetForked() { C.ho_soft_forked = 1 }
