//go:build cgo && linux && (amd64 || arm64)

package dlpack

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
)

// fuzzTables lie in memory that does not move and that the collector does not
// look into: what they point to is no Go pointer.
var fuzzTables [4]cExchange

// FuzzOpenTable opens chains of exchange tables of any content: with cycles,
// addresses that are none, versions and functions of all kinds. It ends with a
// table that can be used, or with an error that names the rule (R089 to R093).
func FuzzOpenTable(f *testing.F) {
	f.Add([]byte{1, 3, 0, 31})
	f.Add([]byte{2, 0, 2, 0, 1, 3, 0, 31})
	f.Add([]byte{2, 0, 1, 0})
	f.Add([]byte{9, 0, 7, 31, 1, 3, 0, 2})
	f.Fuzz(func(t *testing.T, b []byte) {
		g := gen{b}
		functions := dlpacktest.Functions()
		at := func(i int) uintptr { return uintptr(unsafe.Pointer(&fuzzTables[i%len(fuzzTables)])) }
		for i := range fuzzTables {
			x := &fuzzTables[i]
			x.header.version = Version{Major: uint32(g.byte()), Minor: uint32(g.byte())}
			switch link := g.below(8); {
			case link == 0:
				x.header.prevAPI = 0
			case link < 5:
				x.header.prevAPI = at(link - 1)
			case link == 5:
				x.header.prevAPI = at(i) + uintptr(1+g.below(7)) // no struct is there
			default:
				x.header.prevAPI = at(i + 1)
			}
			have := g.byte()
			for k, field := range []*uintptr{&x.allocator, &x.fromPyObject, &x.toPyObject, &x.borrowTensor, &x.currentStream} {
				*field = 0
				if have>>k&1 != 0 {
					*field = functions[k]
				}
			}
		}
		alive := dlpacktest.Alive()
		tab, err := OpenTable(at(g.below(4)))
		if err != nil {
			var rule *RuleError
			require.ErrorAs(t, err, &rule)
			require.NotEmpty(t, rule.Rule)
			require.Zero(t, tab)
			return
		}
		require.Equal(t, ABIVersion.Major, tab.Version().Major)
		usable := func(err error) {
			t.Helper()
			require.True(t, err == nil || errors.Is(err, ErrNotSupported), "%v", err)
		}
		m, err := tab.FromPyObject(dlpacktest.Object())
		require.NoError(t, err)
		m.Release()
		var d Desc
		err = tab.Borrow(dlpacktest.Object(), &d)
		usable(err)
		require.Equal(t, tab.CanBorrow(), err == nil)
		if err == nil {
			require.NoError(t, d.Check())
		}
		_, err = tab.CurrentStream(CPU)
		usable(err)
		m, err = tab.Allocate(&Desc{Data: 256, Device: CPU, DType: Float32, Shape: []int64{int64(g.byte())}})
		usable(err)
		if err == nil {
			m.Release()
		}
		require.Equal(t, alive, dlpacktest.Alive())
	})
}
