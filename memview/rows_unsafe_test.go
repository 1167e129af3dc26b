package memview

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestShortRows copies rows of every length that is copied in line, and of some
// longer ones, between pitches that keep no alignment. Nothing beside the rows
// may be written.
func TestShortRows(t *testing.T) {
	for run := int64(1); run <= shortRow+2; run++ {
		for _, n := range []int64{1, 2, 3, 4, 5, 9} {
			for _, gap := range []int64{0, 1, 7} {
				ds, ss := run+gap, run+2*gap+1
				src, dst := make([]byte, n*ss*2), make([]byte, n*ds*2)
				for i := range src {
					src[i] = byte(i*7 + i/251)
				}
				for i := range dst {
					dst[i] = 0xee
				}
				want := bytes.Clone(dst)
				p := copyPlan{item: 1, n: 3}
				p.shape = [MaxDims]int64{2, n, run}
				p.dst = [MaxDims]int64{n * ds, ds, 1}
				p.src = [MaxDims]int64{n * ss, ss, 1}
				for i := range 2 * n {
					copy(want[i*ds:i*ds+run], src[i*ss:])
				}
				p.run(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]))
				require.Equal(t, want, dst, fmt.Sprint(run, n, gap))
			}
		}
	}
}
