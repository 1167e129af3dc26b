//go:build !asan

package ext

import "testing"

// A call by a fast path allocates nothing.
func TestFastPathAllocates(t *testing.T) {
	for _, c := range pathCases {
		if c.status != 0 {
			continue
		}
		fn := plan(t, c.signature, c.f)
		f := newFakeCall(fn, c.views, c.slices, c.scalars...)
		if n := testing.AllocsPerRun(100, func() { f.reset(); enter(&f.frame) }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
