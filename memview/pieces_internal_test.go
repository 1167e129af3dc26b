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
	})
}

// TestTiled checks what kernels that work by tiles are given: the same bytes,
// dense axes where they expect them, aligned for the words they move, and as many
// tiles as there are.
func TestTiled(t *testing.T) {
	tiles := 0
	rapid.Check(t, func(t *rapid.T) {
		p := copyPlan{n: rapid.IntRange(2, 4).Draw(t, "axes"), item: rapid.SampledFrom([]int64{1, 2, 4, 8, 16}).Draw(t, "item")}
		k := rapid.IntRange(0, p.n-2).Draw(t, "dense in src")
		for i := range p.n {
			p.shape[i] = rapid.Int64Range(1, 3).Draw(t, "extent")
			if i == k || i == p.n-1 {
				p.shape[i] = rapid.SampledFrom([]int64{3, 15, 16, 31, 32, 33, 64, 65, 100, 128}).Draw(t, "long extent")
			}
		}
		p.denseSteps(&p.dst)
		pitch := rapid.Int64Range(0, 3).Draw(t, "gap") * p.item
		step := p.item * p.shape[k]
		for i := p.n - 1; i >= 0; i-- {
			p.src[i] = p.item
			if i != k {
				p.src[i] = step + pitch
				step = p.src[i] * p.shape[i]
			}
		}
		if rapid.Bool().Draw(t, "backwards") {
			p.srcBase, p.src[k] = (p.shape[k]-1)*p.item, -p.item
		}
		dst, src := uint64(rapid.Int64Range(0, 8).Draw(t, "to")*p.item), uint64(rapid.Int64Range(0, 8).Draw(t, "from")*p.item)
		bytesOf := func(p *copyPlan) map[int64]int64 {
			m := map[int64]int64{}
			p.walk(func(do, so int64) { m[do] = so })
			return m
		}
		q := p
		tile, n := q.tiled(dst, src)
		if tile == nil {
			require.True(t, p.shape[k] < minTile || p.shape[p.n-1] < minTile)
			return
		}
		tiles++
		require.Equal(t, bytesOf(&p), bytesOf(&q))
		require.Equal(t, q.item, q.dst[q.n-1])
		require.Equal(t, q.item, q.src[q.n-2])
		require.Equal(t, q.item, tile.Width)
		count := (q.shape[q.n-2] + tile.Rows - 1) / tile.Rows * ((q.shape[q.n-1] + tile.Lead + tile.Cols - 1) / tile.Cols)
		for i := range q.n - 2 {
			count *= q.shape[i]
			require.Zero(t, (q.dst[i]|q.src[i])%tile.Word)
		}
		require.Equal(t, count, n)
		require.Zero(t, (q.dst[q.n-2]|q.src[q.n-1])%tile.Word)
		require.Zero(t, (int64(dst)+q.dstBase)%tile.Word)
		require.Zero(t, (int64(src)+q.srcBase)%tile.Word)
	})
	require.Positive(t, tiles)
}

func TestReadsThrough(t *testing.T) {
	plan := func(item int64, axes ...int64) *copyPlan { // extent and step in src, from the outermost axis
		p := &copyPlan{item: item, n: len(axes) / 2}
		for i := range p.n {
			p.shape[i], p.src[i] = axes[2*i], axes[2*i+1]
		}
		p.denseSteps(&p.dst)
		return p
	}
	require.True(t, plan(4, 1000, 8).readsThrough(), "every other element")
	require.True(t, plan(16, 1000, 64, 2, 16).readsThrough(), "half of the columns")
	require.True(t, plan(4, 10, 400, 100, 4).readsThrough(), "all of it")
	require.False(t, plan(4, 1000, 16).readsThrough(), "a quarter comes for nothing")
	require.False(t, plan(4, 100, 4, 100, 400).readsThrough(), "across the rows")
	require.False(t, plan(4, 1000, -4).readsThrough(), "backwards")
	require.False(t, plan(4, 1000, 0).readsThrough(), "one element many times")
}
