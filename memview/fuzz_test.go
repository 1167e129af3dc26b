package memview_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// numbers cuts fuzz input into int64s, short ones first: many inputs then make
// small arrays.
func numbers(b []byte, most int) []int64 {
	var out []int64
	for len(b) > 0 && len(out) < most {
		switch k := b[0]; {
		case k < 200:
			out, b = append(out, int64(int8(k-100))), b[1:]
		case len(b) >= 9:
			out, b = append(out, int64(binary.LittleEndian.Uint64(b[1:]))), b[9:]
		default:
			return out
		}
	}
	return out
}

// FuzzLayout feeds any shape and strides to every operation: no panic, errors
// of the promised kinds, and results that keep the promise of Layout.
func FuzzLayout(f *testing.F) {
	f.Add([]byte{103, 104}, []byte{104, 101}, uint32(4), int64(1), int64(-1))
	f.Add([]byte{100, 103}, []byte{}, uint32(8), int64(0), int64(5))
	f.Add([]byte{102, 102, 102, 102, 102, 102, 102, 102, 102, 102}, []byte{}, uint32(1), int64(2), int64(1<<62))
	f.Add([]byte{200, 255, 255, 255, 255, 255, 255, 255, 127, 102}, []byte{99, 98}, uint32(16), int64(-9), int64(-1<<63))
	f.Fuzz(func(t *testing.T, s, st []byte, item uint32, p, q int64) {
		shape, strides := numbers(s, 70), numbers(st, 70)
		if len(strides) != len(shape) {
			strides = nil
		}
		l, err := memview.NewLayout(shape, strides, int(item%64))
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			return
		}
		checkLayout(t, l)
		keep := func(m memview.Layout, err error) {
			if err != nil {
				require.True(t, isTyped(err), "%v", err)
				return
			}
			checkLayout(t, m)
		}
		keep(l.Slice(memview.Range(p, q)))
		keep(l.Slice(memview.From(q).By(p)))
		keep(l.Slice(memview.Ellipsis(), memview.To(p).By(q)))
		keep(l.Slice(memview.Pick(p), memview.NewAxis()))
		keep(l.Reshape(-1))
		keep(l.Reshape(p, -1))
		keep(l.Reshape(p, q))
		keep(l.Broadcast(append([]int64{p}, shape...)...))
		keep(l.Flatten(0, l.NDim(), l.FlattenMask()))
		keep(l.Flatten(int(p), int(q), uint64(p)))
		keep(l.Squeeze())
		keep(l.Unsqueeze(int(p % 70)))
		keep(l.Dense(memview.Order(p % 4)))
		keep(l.Repack(int(q%64), uintptr(p), int(p%3)))
		keep(l.Transpose(), nil)
		_, err = l.MaxItemSize(int(q%64), uintptr(p), int(p%3))
		require.True(t, err == nil || isTyped(err))
		_, _ = l.OffsetOf(p, q)
		_ = l.String()
		_, _ = l.ByteStrides()
	})
}

func isTyped(err error) bool {
	for _, k := range []error{
		dlpack.ErrLayout, dlpack.ErrOverflow, dlpack.ErrCopy, dlpack.ErrAlign, dlpack.ErrDType,
		dlpack.ErrNull, dlpack.ErrNotSupported, dlpack.ErrDevice, dlpack.ErrReadOnly, memview.ErrIndex,
	} {
		if errors.Is(err, k) {
			return true
		}
	}
	return false
}

// checkLayout tests the promise: offsets lie within the bounds, which fit.
func checkLayout(t *testing.T, l memview.Layout) {
	t.Helper()
	lo, hi := l.OffsetBounds()
	span := l.ByteSpan()
	require.GreaterOrEqual(t, l.NumBytes(), int64(0))
	if l.Empty() {
		require.Zero(t, span)
		require.Zero(t, l.Size())
		return
	}
	require.LessOrEqual(t, lo, l.Offset())
	require.LessOrEqual(t, l.Offset(), hi)
	require.Positive(t, l.Size())
	require.Equal(t, (hi-lo+1)*int64(l.ItemSize()), span)
	n := 0
	for off := range l.Offsets() {
		require.True(t, lo <= off && off <= hi)
		if n++; n > 100 {
			break
		}
	}
	if l.ContiguousC() {
		require.Equal(t, l.Size(), hi-lo+1)
		require.True(t, l.ContiguousAny())
	}
	_ = l.IsUnique()
}

// FuzzBuffer feeds any PEP 3118 description to FromBuffer. What is accepted
// must lie in the memory that it describes; if that is ours, it is read.
func FuzzBuffer(f *testing.F) {
	f.Add(int64(96), int64(8), 2, "d", []byte{103, 104}, []byte{132, 108}, []byte{}, int64(0), true)
	f.Add(int64(48), int64(8), 1, "d", []byte{106}, []byte{92}, []byte{}, int64(40), true)
	f.Add(int64(8), int64(8), 0, "<q", []byte{}, []byte{}, []byte{}, int64(8), false)
	f.Add(int64(12), int64(4), 1, "T{f:a:}", []byte{103}, []byte{}, []byte{100}, int64(0), true)
	f.Add(int64(6), int64(2), 1, "Ze", []byte{103}, []byte{}, []byte{}, int64(1), true)
	mem := seq[uint8](4096)
	base := foreign(f, mem)
	f.Fuzz(func(t *testing.T, length, item int64, ndim int, format string, s, st, sub []byte, off int64, has bool) {
		b := cai.Buffer{
			Addr: base + 1024 + uintptr(off), Len: length, ItemSize: item, NDim: ndim, Format: format, HasFormat: has,
			Shape: numbers(s, 70), Strides: numbers(st, 70), Suboffsets: numbers(sub, 70),
		}
		v, err := memview.FromBuffer(&b, memview.Unowned())
		if err != nil {
			require.True(t, isTyped(err), "%v", err)
			require.NotEmpty(t, ruleOf(err), "%v names no rule", err)
			return
		}
		checkLayout(t, v.Layout())
		lo, _ := v.Layout().OffsetBounds()
		start := int64(v.Addr()) + lo*int64(v.ItemSize())
		if v.Layout().Empty() || start < int64(base) || start+v.Layout().ByteSpan() > int64(base)+int64(len(mem)) {
			return // somebody else's memory
		}
		_ = v.String()
		if v.Size() < 1000 {
			c, err := v.Clone(memview.OrderF)
			require.NoError(t, err)
			require.Equal(t, v.Size(), c.Size())
		}
	})
}

// FuzzIndex feeds chains of slices to a view, and reads it through the model.
func FuzzIndex(f *testing.F) {
	f.Add([]byte{101, 99, 100, 104, 98, 100})
	f.Add([]byte{200, 0, 0, 0, 0, 0, 0, 0, 128, 99, 101})
	data := seq[int32](60)
	f.Fuzz(func(t *testing.T, b []byte) {
		v := must(memview.FromSlice(data, 3, 4, 5))
		n := numbers(b, 30)
		for ; len(n) >= 3; n = n[3:] {
			w, err := v.Slice(memview.Range(n[0], n[1]).By(n[2]))
			if err != nil {
				require.ErrorIs(t, err, dlpack.ErrLayout)
				continue
			}
			v = w.Transpose()
		}
		got, err := memview.Values[int32](v)
		require.NoError(t, err)
		count := int64(0)
		for x := range got {
			require.True(t, x >= 0 && x < 60)
			count++
		}
		require.Equal(t, v.Size(), count)
	})
}
