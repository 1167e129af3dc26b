//go:build cgo && linux

package driver

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

type leaf struct{ offset, size uintptr }

// leaves lists the fields of a type that are not structures, in order. Padding
// that cgo makes up is left out, arrays count as one field.
func leaves(t reflect.Type, base uintptr) (out []leaf) {
	if t.Kind() != reflect.Struct {
		return []leaf{{base, t.Size()}}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" {
			continue
		}
		out = append(out, leaves(f.Type, base+f.Offset)...)
	}
	return out
}

func TestGoStructsMirrorC(t *testing.T) {
	for _, m := range mirrors() {
		goType, cType := reflect.TypeOf(m[0]), reflect.TypeOf(m[1])
		t.Run(goType.Name(), func(t *testing.T) {
			require.Equal(t, cType.Size(), goType.Size())
			require.Equal(t, leaves(cType, 0), leaves(goType, 0))
		})
	}
	for i, s := range sizes() {
		require.Equalf(t, s[1], s[0], "structure %d", i)
	}
}

// TestHostFuncTable looks at what a caller cannot see: that nothing is left.
func TestHostFuncTable(t *testing.T) {
	count := func() int {
		hostFuncs.Lock()
		defer hostFuncs.Unlock()
		return len(hostFuncs.fns)
	}
	before := count()
	ran := 0
	fn, user, release := NewHostFunc(func() { ran++ })
	require.Equal(t, before+1, count())
	runHost(fn, user)
	runHost(fn, user)
	require.Equal(t, 2, ran)
	release()
	release()
	require.Equal(t, before, count())
	runHost(fn, user)
	require.Equal(t, 2, ran, "a released function ran")
}
