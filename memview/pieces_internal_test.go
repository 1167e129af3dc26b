package memview

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestPieces cuts random plans: the pieces have to cover every element of the
// plan once, on both sides at one pace, and stay below the limit.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := copyPlan{n: rapid.IntRange(0, 4).Draw(t, "axes"), item: rapid.SampledFrom([]int64{1, 4, 12, 16}).Draw(t, "item")}
		p.dstBase, p.srcBase = 100, 200
		for i := range p.n {
			p.shape[i] = rapid.Int64Range(1, 9).Draw(t, "extent")
			p.src[i] = rapid.Int64Range(-50, 50).Draw(t, "src")
		}
		p.denseSteps(&p.dst)
		limit := rapid.Int64Range(p.item, 2000).Draw(t, "limit")
		want := map[int64]int64{}
		p.walk(func(do, so int64) { want[do] = so })
		got := map[int64]int64{}
		require.NoError(t, p.pieces(limit, func(q *copyPlan) error {
			require.LessOrEqual(t, q.bytes(), limit)
			q.walk(func(do, so int64) {
				require.NotContains(t, got, do)
				got[do] = so
			})
			return nil
		}))
		require.Equal(t, want, got)
	})
}

// walk yields the offsets of every item.
func (p *copyPlan) walk(f func(do, so int64)) {
	p.outer(-1, -1, f)
}

// TestFit checks the widths that kernels are given: aligned, and the same
// bytes.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := copyPlan{n: rapid.IntRange(0, 4).Draw(t, "axes"), item: rapid.SampledFrom([]int64{1, 2, 4, 8, 12, 16, 5}).Draw(t, "item")}
		for i := range p.n {
			p.shape[i] = rapid.Int64Range(1, 9).Draw(t, "extent")
			p.src[i] = p.item * rapid.Int64Range(-9, 9).Draw(t, "src")
		}
		p.denseSteps(&p.dst)
		if p.n > 0 && rapid.Bool().Draw(t, "rows") {
			p.src[p.n-1] = p.item
		}
		dst, src := rapid.Uint64Range(0, 64).Draw(t, "to"), rapid.Uint64Range(0, 64).Draw(t, "from")
		bytesOf := func(p *copyPlan) map[int64]int64 {
			m := map[int64]int64{}
			p.walk(func(do, so int64) {
				for i := range p.item {
					m[do+i] = so + i
				}
			})
			return m
		}
		q := p
		q.fit(dst, src)
		require.Equal(t, bytesOf(&p), bytesOf(&q))
		require.Contains(t, []int64{1, 2, 4, 8, 16}, q.item)
		q.walk(func(do, so int64) {
			require.Zero(t, (int64(dst)+do)%q.item)
			require.Zero(t, (int64(src)+so)%q.item)
		})
		require.Positive(t, q.n)
		r := q
		if r.tiled() > 0 {
			require.Equal(t, bytesOf(&q), bytesOf(&r))
			require.Equal(t, r.item, r.dst[r.n-1])
			require.Equal(t, r.item, r.src[r.n-2])
		}
	})
}
