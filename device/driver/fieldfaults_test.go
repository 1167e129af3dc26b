package driver_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

// TestHandlesAreNumbers is B350: a handle is an integer, whatever the driver
// uses its bits for, so that no collector, printer or copy by reflection takes
// it for an address. The small numbers that name default streams are handles too.
func TestHandlesAreNumbers(t *testing.T) {
	handles, seen := map[reflect.Type]bool{}, map[reflect.Type]bool{}
	m := reflect.TypeFor[*driver.Driver]()
	for i := range m.NumMethod() {
		f := m.Method(i).Type
		for j := range f.NumIn() {
			collect(handles, seen, f.In(j))
		}
		for j := range f.NumOut() {
			collect(handles, seen, f.Out(j))
		}
	}
	require.Greater(t, len(handles), 12)
	for h := range handles {
		require.Contains(t, []reflect.Kind{reflect.Uintptr, reflect.Uint64, reflect.Array}, h.Kind(), "%v", h)
		if h.Kind() == reflect.Array { // bytes for another process
			require.Equal(t, reflect.Uint8, h.Elem().Kind(), "%v", h)
			continue
		}
		for _, bits := range []uint64{0, 1, 2, 0x5f00_0000_0040, 1<<63 - 1} {
			v := reflect.New(h).Elem()
			v.SetUint(bits)
			require.Equal(t, fmt.Sprintf("%#x", bits), fmt.Sprintf("%#x", v.Interface()))
			w := reflect.New(h).Elem()
			w.Set(v)
			require.Equal(t, bits, w.Uint())
		}
	}
}

func collect(handles, seen map[reflect.Type]bool, x reflect.Type) {
	if seen[x] {
		return
	}
	seen[x] = true
	switch x.Kind() {
	case reflect.Pointer, reflect.Slice:
		collect(handles, seen, x.Elem())
	case reflect.Struct:
		for i := range x.NumField() {
			collect(handles, seen, x.Field(i).Type)
		}
	default:
		if strings.HasSuffix(x.Name(), "Handle") {
			handles[x] = true
		}
	}
}
