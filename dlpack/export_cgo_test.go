//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/dlpack/minifloat"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// balanced checks that a test leaves no export and no pin behind.
func balanced(t *testing.T) {
	t.Helper()
	before := dlpack.ReadStats()
	t.Cleanup(func() {
		after := dlpack.ReadStats()
		require.Equal(t, before.Exports, after.Exports, "exports left")
		require.Equal(t, before.Pinned, after.Pinned, "B359: pins left")
	})
}

func TestExportSlice(t *testing.T) {
	t.Run("R001 R003 R006 R007 R013 R039 R048 R049 B004 B105 fields", func(t *testing.T) {
		balanced(t)
		s := []float32{1, 2, 3, 4, 5, 6}
		e, err := dlpack.ExportSlice(s, []int64{2, 3}, nil, nil)
		require.NoError(t, err)
		defer e.Close()
		for _, versioned := range []bool{true, false} {
			p, err := e.Export(versioned)
			require.NoError(t, err)
			got := dlpacktest.Read(p, versioned)
			want := dlpacktest.Spec{
				Versioned: versioned, Data: addrOf(s), DeviceType: 1, NDim: 2, Code: 2, Bits: 32, Lanes: 1,
				Shape: []int64{2, 3}, Strides: []int64{3, 1},
			}
			if versioned {
				want.Major, want.Minor = 1, 3
			}
			require.Equal(t, want, got)
			dlpacktest.Release(p, versioned)
		}
	})
	t.Run("writes show on both sides", func(t *testing.T) {
		balanced(t)
		s := []int32{1, 2, 3}
		e, err := dlpack.ExportSlice(s, nil, nil, nil)
		require.NoError(t, err)
		defer e.Close()
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		defer m.Release()
		require.Equal(t, []int64{3}, m.Shape(nil))
		foreign := cptr.Slice[int32](m.Addr(), 3)
		foreign[1] = 20
		s[2] = 30
		require.Equal(t, []int32{1, 20, 30}, s)
		require.Equal(t, []int32{1, 20, 30}, foreign)
	})
	t.Run("R069 R056 B346 B355 B357 memory lives until the last consumer", func(t *testing.T) {
		leak.Pause(t)
		balanced(t)
		var freed atomic.Bool
		p := func() uintptr {
			s := make([]float64, 1000)
			runtime.AddCleanup(&s[0], func(*atomic.Bool) { freed.Store(true) }, &freed)
			for i := range s {
				s[i] = float64(i)
			}
			e, err := dlpack.ExportSlice(s, nil, nil, nil)
			require.NoError(t, err)
			p, err := e.Export(true)
			require.NoError(t, err)
			require.NoError(t, e.Close())
			return p
		}()
		for range 3 {
			runtime.GC()
		}
		require.False(t, freed.Load())
		d := dlpacktest.Read(p, true)
		for i, v := range cptr.Slice[float64](d.Data, 1000) {
			require.Equal(t, float64(i), v)
		}
		dlpacktest.ReleaseOnThread(p, true) // R063: a thread that Go has never seen
		deadline := time.Now().Add(20 * time.Second)
		for !freed.Load() {
			require.True(t, time.Now().Before(deadline), "the memory stays pinned")
			runtime.GC()
		}
	})
	t.Run("R070 B074 exports are independent", func(t *testing.T) {
		balanced(t)
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			e, err := dlpack.ExportSlice([]uint8{1, 2}, nil, nil, nil)
			require.NoError(t, err)
			a, err := e.Export(true)
			require.NoError(t, err)
			b, err := e.Export(true)
			require.NoError(t, err)
			require.NotEqual(t, a, b)
			pinned := dlpack.ReadStats().Pinned
			drop := []func(){func() { dlpacktest.Release(a, true) }, func() { dlpacktest.Release(b, true) }, func() { e.Close(); e.Close() }}
			for i, k := range order {
				require.Equal(t, pinned, dlpack.ReadStats().Pinned, "still shared")
				drop[k]()
				if i == 2 {
					require.Equal(t, pinned-1, dlpack.ReadStats().Pinned)
				}
			}
			_, err = e.Export(true)
			require.ErrorIs(t, err, dlpack.ErrClosed)
		}
	})
	t.Run("B010 strides and offset stay inside the slice", func(t *testing.T) {
		balanced(t)
		s := make([]int16, 10)
		for _, c := range []struct {
			shape, strides []int64
			offset         int
			ok             bool
		}{
			{[]int64{10}, nil, 0, true},
			{[]int64{11}, nil, 0, false},
			{[]int64{10}, nil, 1, false},
			{[]int64{10}, []int64{-1}, 9, true}, // B053
			{[]int64{10}, []int64{-1}, 8, false},
			{[]int64{5}, []int64{2}, 1, true},
			{[]int64{5}, []int64{2}, 2, false},
			{[]int64{2, 5}, []int64{0, 2}, 0, true},
			{[]int64{3, 4}, []int64{2, 1}, 2, true},
			{[]int64{1}, nil, -1, false},
			{[]int64{0}, nil, 11, true},
			{[]int64{-1}, nil, 0, false},
			{[]int64{math.MaxInt64}, []int64{math.MaxInt64}, 0, false},
			{[]int64{2}, []int64{math.MinInt64}, 0, false},
			{[]int64{2}, []int64{1, 1}, 0, false},
		} {
			e, err := dlpack.ExportSlice(s, c.shape, c.strides, &dlpack.ExportOptions{Offset: c.offset})
			require.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
			if err != nil {
				require.True(t, errors.Is(err, dlpack.ErrLayout) || errors.Is(err, dlpack.ErrOverflow), err)
				continue
			}
			if c.shape[0] > 0 {
				require.Equal(t, addrOf(s)+2*uintptr(c.offset), e.Desc().Data)
			}
			e.Close()
		}
	})
	t.Run("R043 R044 empty", func(t *testing.T) {
		balanced(t)
		for _, s := range [][]float32{nil, {}, {1}} {
			e, err := dlpack.ExportSlice(s, []int64{0, 3}, nil, nil)
			require.NoError(t, err)
			p, err := e.Export(true)
			require.NoError(t, err)
			d := dlpacktest.Read(p, true)
			require.Zero(t, d.Data)
			require.Equal(t, []int64{3, 1}, d.Strides)
			dlpacktest.Release(p, true)
			e.Close()
		}
	})
	t.Run("R046 scalar", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice([]float64{7}, []int64{}, nil, nil)
		require.NoError(t, err)
		defer e.Close()
		p, err := e.Export(true)
		require.NoError(t, err)
		d := dlpacktest.Read(p, true)
		require.True(t, d.NullShape && d.NullStrides)
		require.Zero(t, d.NDim)
		dlpacktest.Release(p, true)
	})
	t.Run("more axes than a block of the free list has", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice([]uint8{7}, ones(64), nil, nil)
		require.NoError(t, err)
		defer e.Close()
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		require.Equal(t, ones(64), m.Shape(nil))
		require.Equal(t, ones(64), m.Strides(nil))
		m.Release()
	})
	t.Run("R014 R057 B069 read-only", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice([]uint8{7}, nil, nil, &dlpack.ExportOptions{Flags: dlpack.FlagReadOnly})
		require.NoError(t, err)
		defer e.Close()
		_, err = e.Export(false)
		requireRule(t, err, dlpack.ErrReadOnly, "R057")
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		require.True(t, m.ReadOnly())
		_, err = m.Export(false)
		requireRule(t, err, dlpack.ErrReadOnly, "R057")
		n, err := dlpack.From(m, nil)
		require.NoError(t, err)
		require.True(t, n.ReadOnly())
		n.Release()
		m.Release()
	})
	t.Run("R020 R021 padded minifloats", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice(make([]minifloat.Float4E2M1FN, 3), nil, nil, nil)
		require.NoError(t, err)
		defer e.Close()
		_, err = e.Export(false)
		requireRule(t, err, dlpack.ErrLayout, "R021")
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		require.Equal(t, dlpack.Float4E2M1FN, m.DType())
		require.True(t, m.Flags().Has(dlpack.FlagSubbyteTypePadded))
		m.Release()
	})
	t.Run("another dtype of the size", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice(make([]uint8, 3), nil, nil, &dlpack.ExportOptions{DType: dlpack.Float8E5M2})
		require.NoError(t, err)
		require.Equal(t, dlpack.Float8E5M2, e.Desc().DType)
		e.Close()
		_, err = dlpack.ExportSlice(make([]uint8, 3), nil, nil, &dlpack.ExportOptions{DType: dlpack.Float16})
		require.ErrorIs(t, err, dlpack.ErrDType)
		_, err = dlpack.ExportSlice(make([]uint8, 3), nil, nil, &dlpack.ExportOptions{DType: dlpack.DataType{Code: 99, Bits: 8, Lanes: 1}})
		require.ErrorIs(t, err, dlpack.ErrDType)
	})
	t.Run("B335 B336 B348 part of an object that has pointers", func(t *testing.T) {
		balanced(t)
		type object struct {
			next *object
			buf  [64]byte
			name string
		}
		o := &object{next: new(object), name: "x"}
		e, err := dlpack.ExportSlice(o.buf[8:16], nil, nil, nil)
		require.NoError(t, err)
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		e.Close()
		o = nil
		runtime.GC()
		s := cptr.Slice[byte](m.Addr(), 8)
		require.Equal(t, make([]byte, 8), s)
		s[7] = 1
		m.Release()
	})
	t.Run("memory that is not Go's", func(t *testing.T) {
		balanced(t)
		panics := dlpack.ReadStats().ReleasePanics
		b, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		require.NoError(t, err)
		e, err := dlpack.ExportDesc(dlpack.Desc{Data: addrOf(b), Device: dlpack.CPU, DType: dlpack.UInt8, Shape: []int64{4096}}, func() {
			if err := syscall.Munmap(b); err != nil {
				panic(err)
			}
		})
		require.NoError(t, err)
		e.Close()
		require.Equal(t, panics, dlpack.ReadStats().ReleasePanics)
	})
}

func TestExportDesc(t *testing.T) {
	t.Run("release runs once, after the last", func(t *testing.T) {
		balanced(t)
		var n atomic.Int64
		e, err := dlpack.ExportDesc(tensor(func(*dlpack.Desc) {}), func() { n.Add(1) })
		require.NoError(t, err)
		v, err := e.View(dlpack.Desc{Data: 4096, Device: dlpack.CPU, DType: dlpack.Float32, Shape: []int64{3}})
		require.NoError(t, err)
		p, err := v.Export(true)
		require.NoError(t, err)
		e.Close()
		v.Close()
		require.Zero(t, n.Load())
		m, err := dlpack.ImportVersioned(p)
		require.NoError(t, err)
		require.Equal(t, []int64{3}, m.Shape(nil))
		m.Release()
		require.EqualValues(t, 1, n.Load())
		_, err = e.View(tensor(func(*dlpack.Desc) {}))
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})
	t.Run("R002 R042 B057 the offset is folded", func(t *testing.T) {
		balanced(t)
		for _, versioned := range []bool{true, false} {
			e, err := dlpack.ExportDesc(tensor(func(d *dlpack.Desc) { d.ByteOffset = 64 }), nil)
			require.NoError(t, err)
			p, err := e.Export(versioned)
			require.NoError(t, err)
			d := dlpacktest.Read(p, versioned)
			require.EqualValues(t, 4160, d.Data)
			require.Zero(t, d.ByteOffset)
			dlpacktest.Release(p, versioned)
			e.Close()
		}
	})
	t.Run("R038 but not for an opaque handle", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportDesc(tensor(func(d *dlpack.Desc) { d.ByteOffset, d.Data, d.Device.Type = 64, 3, dlpack.DeviceOpenCL }), nil)
		require.NoError(t, err)
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		require.EqualValues(t, 3, m.Addr())
		require.EqualValues(t, 64, m.ByteOffset())
		m.Release()
		e.Close()
	})
	t.Run("invalid ones are refused", func(t *testing.T) {
		balanced(t)
		released := false
		for _, c := range checkCases {
			if c.kind == nil {
				continue
			}
			_, err := dlpack.ExportDesc(c.d, func() { released = true })
			requireRule(t, err, c.kind, c.rule)
		}
		require.False(t, released)
	})
	t.Run("B179 B181 a panic in release stays there", func(t *testing.T) {
		balanced(t)
		before := dlpack.ReadStats().ReleasePanics
		e, err := dlpack.ExportDesc(tensor(func(*dlpack.Desc) {}), func() { panic("in release") })
		require.NoError(t, err)
		p, err := e.Export(true)
		require.NoError(t, err)
		e.Close()
		dlpacktest.ReleaseOnThread(p, true)
		require.Equal(t, before+1, dlpack.ReadStats().ReleasePanics)
	})
	t.Run("forgotten", func(t *testing.T) {
		leak.Pause(t)
		balanced(t)
		var released atomic.Bool
		_, err := dlpack.ExportDesc(tensor(func(*dlpack.Desc) {}), func() { released.Store(true) })
		require.NoError(t, err)
		deadline := time.Now().Add(20 * time.Second)
		for !released.Load() {
			require.True(t, time.Now().Before(deadline))
			runtime.GC()
		}
	})
	t.Run("R036 the ID of host and managed memory", func(t *testing.T) {
		for _, typ := range []dlpack.DeviceType{dlpack.DeviceCPU, dlpack.DeviceCUDAHost, dlpack.DeviceCUDAManaged, dlpack.DeviceROCMHost} {
			d := tensor(func(d *dlpack.Desc) { d.Device = dlpack.Device{Type: typ, ID: 1} })
			_, err := dlpack.ExportDesc(d, nil)
			requireRule(t, err, dlpack.ErrDevice, "R036")
			_, err = dlpack.ExportOwner(8, d) // refused before it is looked at
			requireRule(t, err, dlpack.ErrDevice, "R036")
		}
	})
	t.Run("the description is copied", func(t *testing.T) {
		balanced(t)
		d := tensor(func(*dlpack.Desc) {})
		e, err := dlpack.ExportDesc(d, nil)
		require.NoError(t, err)
		defer e.Close()
		d.Shape[0] = 99
		got := e.Desc()
		require.EqualValues(t, 2, got.Shape[0])
		got.Shape[0] = 98
		require.EqualValues(t, 2, e.Desc().Shape[0])
	})
}

func TestExportOwner(t *testing.T) {
	balanced(t)
	deleted := counters(t)
	m, err := importSpec(foreign(nil))
	require.NoError(t, err)
	o, err := m.Owner()
	require.NoError(t, err)
	m.Release()
	_, err = dlpack.ExportOwner(o, dlpack.Desc{})
	require.Error(t, err)
	_, err = dlpack.ExportOwner(0, tensor(func(*dlpack.Desc) {}))
	require.ErrorIs(t, err, dlpack.ErrNull)
	e, err := dlpack.ExportOwner(o, tensor(func(*dlpack.Desc) {}))
	require.NoError(t, err)
	o2, err := e.Owner()
	require.NoError(t, err)
	dlpack.RetainOwner(o2)
	dlpack.ReleaseOwner(o2)
	e.Close()
	require.Zero(t, deleted())
	dlpack.ReleaseOwner(o2)
	require.EqualValues(t, 1, deleted())
	dlpack.ReleaseOwner(0)
	dlpack.RetainOwner(0)
}

func TestAlloc(t *testing.T) {
	t.Run("R040 256 bytes, cleared", func(t *testing.T) {
		balanced(t)
		for _, n := range []int64{1, 3, 255, 256, 257, 100000} {
			e, err := dlpack.Alloc(dlpack.Int8, []int64{n}, nil)
			require.NoError(t, err)
			require.Zero(t, e.Desc().Data%256)
			b := e.Bytes()
			require.Len(t, b, int(n))
			for i, v := range b {
				require.Zero(t, v)
				b[i] = 0xff
			}
			e.Close()
			require.Nil(t, e.Bytes())
		}
	})
	t.Run("B088 packed and padded sizes", func(t *testing.T) {
		balanced(t)
		for _, c := range []struct {
			flags dlpack.Flags
			want  int
		}{{0, 4}, {dlpack.FlagSubbyteTypePadded, 7}} {
			e, err := dlpack.Alloc(dlpack.Float4E2M1FN, []int64{7}, &dlpack.ExportOptions{Flags: c.flags})
			require.NoError(t, err)
			require.Len(t, e.Bytes(), c.want)
			e.Close()
		}
	})
	t.Run("B047 scalar and empty", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.Alloc(dlpack.Float64, nil, nil)
		require.NoError(t, err)
		require.Len(t, e.Bytes(), 8)
		e.Close()
		e, err = dlpack.Alloc(dlpack.Float64, []int64{3, 0}, nil)
		require.NoError(t, err)
		require.Empty(t, e.Bytes())
		m, err := dlpack.From(e, nil)
		require.NoError(t, err)
		require.Zero(t, m.Addr())
		m.Release()
		e.Close()
	})
	t.Run("too much", func(t *testing.T) {
		balanced(t)
		if !asanEnabled { // its allocator ends the process
			_, err := dlpack.Alloc(dlpack.Float64, []int64{1 << 59}, nil)
			require.ErrorIs(t, err, dlpack.ErrNoMemory)
		}
		_, err := dlpack.Alloc(dlpack.Float64, []int64{1 << 60}, nil)
		requireRule(t, err, dlpack.ErrOverflow, "R034")
		_, err = dlpack.Alloc(dlpack.DataType{}, []int64{1}, nil)
		requireRule(t, err, dlpack.ErrDType, "R029")
	})
	t.Run("the bytes of other memory are not known", func(t *testing.T) {
		balanced(t)
		e, err := dlpack.ExportSlice([]byte{1}, nil, nil, nil)
		require.NoError(t, err)
		require.Nil(t, e.Bytes())
		e.Close()
	})
}

func TestReexport(t *testing.T) {
	t.Run("R049 R057 R019 B072 an old tensor becomes a new one", func(t *testing.T) {
		balanced(t)
		deleted := counters(t)
		m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Minor, s.Strides, s.Flags, s.ByteOffset = 0, nil, 3, 16 }))
		require.NoError(t, err)
		p, err := m.Export(true)
		require.NoError(t, err)
		d := dlpacktest.Read(p, true)
		require.Equal(t, uint32(3), d.Minor)
		require.Equal(t, []int64{3, 1}, d.Strides)
		require.EqualValues(t, 1, d.Flags, "the copied flag is not passed on")
		require.EqualValues(t, 4112, d.Data)
		m.Release()
		require.Zero(t, deleted())
		dlpacktest.Release(p, true)
		require.EqualValues(t, 1, deleted())
	})
	t.Run("downgrade and upgrade", func(t *testing.T) {
		balanced(t)
		deleted := counters(t)
		m, err := importSpec(foreign(nil))
		require.NoError(t, err)
		p, err := m.Export(false)
		require.NoError(t, err)
		m.Release()
		l, err := dlpack.ImportLegacy(p)
		require.NoError(t, err)
		require.True(t, l.Legacy())
		p, err = l.Export(true)
		require.NoError(t, err)
		l.Release()
		v, err := dlpack.ImportVersioned(p)
		require.NoError(t, err)
		require.Equal(t, dlpack.ABIVersion, v.Version())
		require.Equal(t, []int64{2, 3}, v.Shape(nil))
		require.Zero(t, deleted())
		v.Release()
		require.EqualValues(t, 1, deleted())
	})
	t.Run("R290 a view of a view", func(t *testing.T) {
		balanced(t)
		deleted := counters(t)
		m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Flags = 1 }))
		require.NoError(t, err)
		d, err := m.Desc()
		require.NoError(t, err)
		d.Shape, d.Strides, d.Flags = []int64{2}, []int64{3}, 0
		p, err := m.ExportDesc(&d, true)
		require.NoError(t, err)
		_, err = m.ExportDesc(&d, false)
		requireRule(t, err, dlpack.ErrReadOnly, "R057")
		d.Shape = []int64{-1}
		_, err = m.ExportDesc(&d, true)
		requireRule(t, err, dlpack.ErrLayout, "R034")
		m.Release()
		v, err := dlpack.ImportVersioned(p)
		require.NoError(t, err)
		require.True(t, v.ReadOnly(), "the flag stays with the memory")
		require.Equal(t, []int64{3}, v.Strides(nil))
		require.Zero(t, deleted())
		v.Release()
		require.EqualValues(t, 1, deleted())
	})
	t.Run("no allocation", func(t *testing.T) {
		m, err := importSpec(foreign(nil))
		require.NoError(t, err)
		defer m.Release()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			p, err := m.Export(true)
			if err != nil {
				t.Error(err)
			}
			dlpacktest.Release(p, true)
		}))
		e, err := dlpack.Alloc(dlpack.Float32, []int64{2, 3}, nil)
		require.NoError(t, err)
		defer e.Close()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			p, err := e.Export(true)
			if err != nil {
				t.Error(err)
			}
			dlpacktest.Release(p, true)
		}))
	})
}

func TestOutOfMemory(t *testing.T) {
	// B047: each allocation fails in turn; nothing is left behind and the
	// source stays usable.
	balanced(t)
	deleted := counters(t)
	defer dlpacktest.FailAlloc(0)
	d := tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = ones(9), nil }) // not from the free list
	released := 0
	e, err := dlpack.ExportDesc(d, func() { released++ })
	require.NoError(t, err)
	m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 9, ones(9), ones(9) }))
	require.NoError(t, err)
	for name, f := range map[string]func() error{
		"export":         func() error { _, err := e.Export(true); return err },
		"export legacy":  func() error { _, err := e.Export(false); return err },
		"export desc":    func() error { _, err := dlpack.ExportDesc(d, func() { released += 100 }); return err },
		"export slice":   func() error { _, err := dlpack.ExportSlice([]byte{1}, nil, nil, nil); return err },
		"empty slice":    func() error { _, err := dlpack.ExportSlice([]byte{}, nil, nil, nil); return err },
		"alloc":          func() error { _, err := dlpack.Alloc(dlpack.Int8, []int64{5}, nil); return err },
		"managed owner":  func() error { _, err := m.Owner(); return err },
		"managed retain": func() error { _, err := m.Retain(); return err },
		"managed export": func() error { _, err := m.Export(true); return err },
		"managed desc":   func() error { _, err := m.ExportDesc(&d, true); return err },
		"producer":       func() error { _, err := e.DLPack(dlpack.Request{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			dlpacktest.FailAlloc(1)
			require.ErrorIs(t, f(), dlpack.ErrNoMemory)
		})
	}
	t.Run("second allocation", func(t *testing.T) {
		dlpacktest.FailAlloc(2)
		_, err := dlpack.Alloc(dlpack.Int8, []int64{5}, nil)
		require.ErrorIs(t, err, dlpack.ErrNoMemory)
		dlpacktest.FailAlloc(2) // the owner is made, the block is not
		_, err = m.Export(true)
		require.ErrorIs(t, err, dlpack.ErrNoMemory)
		o, err := dlpack.ExportSlice([]byte{1}, ones(9), nil, nil)
		require.NoError(t, err)
		for n := 1; n <= 3; n++ { // data, owner, block
			dlpacktest.FailAlloc(n)
			_, err = o.DLPack(dlpack.Request{Copy: dlpack.CopyAlways})
			require.ErrorIs(t, err, dlpack.ErrNoMemory, "allocation %d", n)
		}
		o.Close()
		f := dlpacktest.Functions()
		tab, err := dlpack.NewTable(dlpack.TableFuncs{FromPyObject: f[1], ToPyObject: f[2], CurrentStream: f[4]})
		require.NoError(t, err)
		for n := 1; n <= 3; n++ {
			dlpacktest.FailAlloc(n)
			_, err = tab.Allocate(&dlpack.Desc{Device: dlpack.CPU, DType: dlpack.Int8, Shape: ones(9)})
			require.ErrorIs(t, err, dlpack.ErrNoMemory, "allocation %d", n)
		}
	})
	dlpacktest.FailAlloc(0)
	p, err := m.Export(true)
	require.NoError(t, err)
	m.Release()
	require.Zero(t, deleted())
	dlpacktest.Release(p, true)
	require.EqualValues(t, 1, deleted())
	require.Zero(t, released)
	e.Close()
	require.Equal(t, 1, released)
}

func TestExportOnManyThreads(t *testing.T) {
	balanced(t)
	e, err := dlpack.ExportSlice(make([]float32, 6), []int64{2, 3}, nil, nil)
	require.NoError(t, err)
	const n = 2000
	var all [n]uintptr
	done := make(chan error)
	for g := range 4 {
		go func() {
			for i := g * n / 4; i < (g+1)*n/4; i++ {
				p, err := e.Export(true)
				if err != nil {
					done <- err
					return
				}
				all[i] = p
			}
			done <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	require.NoError(t, e.Close())
	dlpacktest.ReleaseOnThreads(all[:], 4) // the last of them enters Go
}

func TestFork(t *testing.T) {
	balanced(t)
	// In the child of a fork there is no Go runtime: the last reference on Go
	// memory must not enter it.
	for _, versioned := range []bool{true, false} {
		e, err := dlpack.ExportSlice([]byte{1, 2}, nil, nil, nil)
		require.NoError(t, err)
		p, err := e.Export(versioned)
		require.NoError(t, err)
		require.NoError(t, e.Close())
		require.Zero(t, dlpacktest.ReleaseInChild(p, versioned), "the child crashed or hung")
		dlpacktest.Release(p, versioned)
	}
	a, err := dlpack.Alloc(dlpack.Int8, []int64{3}, nil)
	require.NoError(t, err)
	o, err := a.Owner()
	require.NoError(t, err)
	require.Zero(t, dlpacktest.ExportInChild(o, 1000))
	dlpack.ReleaseOwner(o)
	require.NoError(t, a.Close())
}

// drawDesc draws a valid description of memory that is never touched.
func drawDesc(t *rapid.T) dlpack.Desc {
	codes := []dlpack.DataType{
		dlpack.Int8, dlpack.Int64, dlpack.UInt16, dlpack.Float16, dlpack.Float64, dlpack.BFloat16, dlpack.Complex64,
		dlpack.Complex128, dlpack.Bool, dlpack.Float8E4M3FN, dlpack.Float6E2M3FN, dlpack.Float4E2M1FN, dlpack.Float4E2M1FNx2,
		dlpack.BComplex32, dlpack.OpaqueHandle64,
		{Code: dlpack.CodeFloat, Bits: 32, Lanes: 4},
	}
	d := dlpack.Desc{
		Data:   uintptr(rapid.Uint64Range(1<<20, 1<<40).Draw(t, "data")) * 16,
		DType:  rapid.SampledFrom(codes).Draw(t, "dtype"),
		Device: dlpack.Device{Type: rapid.SampledFrom([]dlpack.DeviceType{1, 2, 3, 4, 8, 10, 13, 18, 20}).Draw(t, "device"), ID: rapid.Int32Range(0, 3).Draw(t, "id")},
		Flags:  dlpack.Flags(rapid.SampledFrom([]uint64{0, 1, 4, 5}).Draw(t, "flags")),
		Shape:  []int64{},
	}
	if d.Device.Type.HostAccessible() {
		d.Device.ID = 0
	}
	if rapid.Bool().Draw(t, "has offset") {
		d.ByteOffset = 16 * rapid.Uint64Range(0, 100).Draw(t, "offset")
	}
	n := rapid.IntRange(0, 12).Draw(t, "ndim")
	for range n {
		d.Shape = append(d.Shape, rapid.Int64Range(0, 5).Draw(t, "extent"))
	}
	if n > 0 && rapid.Bool().Draw(t, "has strides") {
		for range n {
			d.Strides = append(d.Strides, rapid.Int64Range(-50, 50).Draw(t, "stride"))
		}
	}
	return d
}

func TestRoundTrip(t *testing.T) {
	// import(export(x)) is x, value by value and flag by flag; only the offset
	// is folded and empty data is NULL.
	balanced(t)
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesc(t)
		require.NoError(t, d.Check())
		e, err := dlpack.ExportDesc(d, nil)
		require.NoError(t, err)
		defer e.Close()
		versioned := rapid.Bool().Draw(t, "versioned")
		p, err := e.Export(versioned)
		if !versioned && d.Flags&dlpack.FlagReadOnly != 0 {
			require.ErrorIs(t, err, dlpack.ErrReadOnly)
			return
		}
		if !versioned && d.Flags&dlpack.FlagSubbyteTypePadded != 0 {
			if d.DType.SubByte() {
				require.ErrorIs(t, err, dlpack.ErrLayout)
				return
			}
			d.Flags = 0
		}
		require.NoError(t, err)
		m, err := dlpack.Capsule{Addr: p, Versioned: versioned}.Import()
		require.NoError(t, err)
		defer m.Release()
		got, err := m.Desc()
		require.NoError(t, err)
		want := d
		if versioned {
			want.Version = dlpack.ABIVersion
		}
		if d.Device.Type.HasAddresses() {
			want.Data, want.ByteOffset = d.Addr(), 0
			if d.Size() == 0 {
				want.Data = 0
			}
		}
		require.True(t, want.Equal(&got), "%v\n%v", &want, &got)
		require.Equal(t, len(d.Shape) > 0, m.HasStrides())
	})
}
