//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// foreign is a valid tensor of another library. The memory that Data names is
// never touched.
func foreign(change func(*dlpacktest.Spec)) dlpacktest.Spec {
	s := dlpacktest.Spec{
		Versioned: true, Major: 1, Minor: 3, Data: 4096, DeviceType: 1, NDim: 2, Code: 2, Bits: 32, Lanes: 1,
		Shape: []int64{2, 3}, Strides: []int64{3, 1},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func importSpec(s dlpacktest.Spec) (dlpack.Managed, error) {
	p := dlpacktest.New(s)
	if s.Versioned {
		return dlpack.ImportVersioned(p)
	}
	return dlpack.ImportLegacy(p)
}

// counters checks that a test gives back exactly the foreign tensors that it
// took, and returns how many deleters have run since.
func counters(t *testing.T) (deleted func() int64) {
	t.Helper()
	before, alive, wrong := dlpacktest.Deleted(), dlpacktest.Alive(), dlpacktest.Wrong()
	t.Cleanup(func() {
		require.Equal(t, alive, dlpacktest.Alive(), "foreign tensors left")
		require.Equal(t, wrong, dlpacktest.Wrong(), "R061: deleters got another address")
	})
	return func() int64 { return dlpacktest.Deleted() - before }
}

func TestImportRefuses(t *testing.T) {
	// R067 B140: whatever is wrong, the deleter runs exactly once.
	for _, c := range []struct {
		name string
		s    dlpacktest.Spec
		kind error
		rule string
	}{
		{"R008 major 2", foreign(func(s *dlpacktest.Spec) { s.Major = 2 }), dlpack.ErrVersion, "R008"},
		{"R008 major 0", foreign(func(s *dlpacktest.Spec) { s.Major = 0 }), dlpack.ErrVersion, "R008"},
		{"R012 flags", foreign(func(s *dlpacktest.Spec) { s.Flags = 8 }), dlpack.ErrFlags, "R012"},
		{"R012 flags 1<<63|1", foreign(func(s *dlpacktest.Spec) { s.Flags = 1<<63 | 1 }), dlpack.ErrFlags, "R012"},
		{"R047 B051 ndim -1", foreign(func(s *dlpacktest.Spec) { s.NDim = -1 }), dlpack.ErrLayout, "R047"},
		{"R047 B051 ndim 1000", foreign(func(s *dlpacktest.Spec) { s.NDim = 1000 }), dlpack.ErrLayout, "R047"},
		{"R047 ndim min", foreign(func(s *dlpacktest.Spec) { s.NDim = math.MinInt32 }), dlpack.ErrLayout, "R047"},
		{"R047 B051 shape NULL", foreign(func(s *dlpacktest.Spec) { s.NullShape = true }), dlpack.ErrLayout, "R047"},
		{"R022 fp6 with 8 bits", foreign(func(s *dlpacktest.Spec) { s.Code, s.Bits = 15, 8 }), dlpack.ErrDType, "R022"},
		{"R023 fp4 with 8 bits", foreign(func(s *dlpacktest.Spec) { s.Code, s.Bits = 17, 8 }), dlpack.ErrDType, "R023"},
		{"R027 B086 code 200", foreign(func(s *dlpacktest.Spec) { s.Code = 200 }), dlpack.ErrDType, "R027"},
		{"R026 B090 bfloat of 32 bits", foreign(func(s *dlpacktest.Spec) { s.Code, s.Bits = 4, 32 }), dlpack.ErrDType, "R026"},
		{"R029 no lanes", foreign(func(s *dlpacktest.Spec) { s.Lanes = 0 }), dlpack.ErrDType, "R029"},
		{"R034 negative extent", foreign(func(s *dlpacktest.Spec) { s.Shape = []int64{-2, 3} }), dlpack.ErrLayout, "R034"},
		{"R034 B097 product wraps", foreign(func(s *dlpacktest.Spec) {
			s.NDim, s.Shape, s.Strides = 3, []int64{1 << 32, 1 << 32, 16}, []int64{0, 0, 0}
		}), dlpack.ErrOverflow, "R034"},
		{"R034 B098 NULL strides wrap", foreign(func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 3, []int64{2, 1 << 62, 4}, nil }), dlpack.ErrOverflow, "R034"},
		{"R035 device 6", foreign(func(s *dlpacktest.Spec) { s.DeviceType = 6 }), dlpack.ErrDevice, "R035"},
		{"R035 device -7", foreign(func(s *dlpacktest.Spec) { s.DeviceType = -7 }), dlpack.ErrDevice, "R035"},
		{"R041 B067 odd data", foreign(func(s *dlpacktest.Spec) { s.Data = 4097 }), dlpack.ErrAlign, "R041"},
		{"R041 B067 odd offset", foreign(func(s *dlpacktest.Spec) { s.ByteOffset = 2 }), dlpack.ErrAlign, "R041"},
		{"R042 offset wraps", foreign(func(s *dlpacktest.Spec) { s.ByteOffset = math.MaxUint64 - 3 }), dlpack.ErrOverflow, "R042"},
		{"R045 B067 NULL data", foreign(func(s *dlpacktest.Spec) { s.Data = 0 }), dlpack.ErrNull, "R045"},
		{"R039 strides lead below 0", foreign(func(s *dlpacktest.Spec) { s.Strides = []int64{-5000, 1} }), dlpack.ErrOverflow, "R039"},
	} {
		for _, versioned := range []bool{true, false} {
			if !versioned && (c.rule == "R008" || c.rule == "R012") {
				continue // the legacy struct has neither version nor flags
			}
			t.Run(fmt.Sprintf("%s versioned=%v", c.name, versioned), func(t *testing.T) {
				deleted := counters(t)
				s := c.s
				s.Versioned = versioned
				m, err := importSpec(s)
				requireRule(t, err, c.kind, c.rule)
				require.Zero(t, m)
				require.EqualValues(t, 1, deleted())

				// R059 B132 B138 B140: the same with nothing to call.
				s.NullDeleter = true
				p := dlpacktest.New(s)
				_, err = dlpack.Capsule{Addr: p, Versioned: versioned}.Import()
				requireRule(t, err, c.kind, c.rule)
				require.EqualValues(t, 1, deleted())
				dlpacktest.Free(p)
			})
		}
	}

	t.Run("NULL struct", func(t *testing.T) {
		_, err := dlpack.ImportVersioned(0)
		require.ErrorIs(t, err, dlpack.ErrNull)
		_, err = dlpack.ImportLegacy(0)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
	t.Run("odd struct is left alone", func(t *testing.T) {
		_, err := dlpack.ImportVersioned(1)
		require.ErrorIs(t, err, dlpack.ErrAlign)
		_, err = dlpack.ImportLegacy(0x7fff_ffff_fff1)
		require.ErrorIs(t, err, dlpack.ErrAlign)
	})
}

func TestImportUnknownMajorReadsOnlyTheHeader(t *testing.T) {
	// R008 R009 B114: behind the first 32 bytes lies a page without access.
	for _, major := range []uint32{0, 2, 3, math.MaxUint32} {
		t.Run(fmt.Sprint("major ", major), func(t *testing.T) {
			deleted := counters(t)
			_, err := dlpack.ImportVersioned(dlpacktest.Guarded(major, 0, false))
			requireRule(t, err, dlpack.ErrVersion, "R008")
			require.EqualValues(t, 1, deleted())
		})
	}
	t.Run("R059 without a deleter", func(t *testing.T) {
		p := dlpacktest.Guarded(2, 0, true)
		_, err := dlpack.ImportVersioned(p)
		requireRule(t, err, dlpack.ErrVersion, "R008")
		dlpacktest.Unguard(p)
	})
}

func TestImportAccepts(t *testing.T) {
	for _, minor := range []uint32{0, 1, 2, 3, 4, 1000} {
		t.Run(fmt.Sprintf("R010 R050 R051 B001 B004 B114 version 1.%d with NULL strides", minor), func(t *testing.T) {
			deleted := counters(t)
			m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Minor, s.Strides = minor, nil }))
			require.NoError(t, err)
			require.Equal(t, dlpack.Version{Major: 1, Minor: minor}, m.Version())
			require.False(t, m.HasStrides())
			require.Equal(t, []int64{3, 1}, m.Strides(nil))
			require.EqualValues(t, 3, m.Stride(0))
			require.EqualValues(t, 1, m.Stride(1))
			require.Zero(t, deleted())
			m.Release()
			require.EqualValues(t, 1, deleted())
		})
	}
	for _, versioned := range []bool{true, false} {
		name := func(s string) string { return fmt.Sprintf("%s versioned=%v", s, versioned) }
		get := func(t *testing.T, change func(*dlpacktest.Spec)) dlpack.Managed {
			t.Helper()
			counters(t)
			m, err := importSpec(foreign(func(s *dlpacktest.Spec) {
				s.Versioned = versioned
				change(s)
			}))
			require.NoError(t, err)
			t.Cleanup(m.Release)
			return m
		}
		t.Run(name("B113 the fields of the right struct"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.DeviceType, s.DeviceID = 2, 3 })
			require.EqualValues(t, 4096, m.Addr())
			require.Equal(t, dlpack.Device{Type: dlpack.DeviceCUDA, ID: 3}, m.Device())
			require.Equal(t, dlpack.Float32, m.DType())
			require.Equal(t, []int64{9, 2, 3}, m.Shape([]int64{9}))
			require.Equal(t, []int64{9, 3, 1}, m.Strides([]int64{9}))
			require.EqualValues(t, 3, m.Dim(1))
			require.EqualValues(t, 6, m.Size())
			require.Equal(t, 2, m.NDim())
			require.Equal(t, !versioned, m.Legacy())
			require.NotZero(t, m.Struct())
			require.True(t, m.IsLive())
			require.Panics(t, func() { m.Dim(2) })
			require.Panics(t, func() { m.Stride(-1) })
		})
		t.Run(name("R046 B049 scalar with NULL arrays and an offset"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides, s.NullShape, s.ByteOffset = 0, nil, nil, true, 8 })
			require.EqualValues(t, 4104, m.Addr())
			require.EqualValues(t, 1, m.Size())
			require.Empty(t, m.Shape(nil))
			require.Empty(t, m.Strides(nil))
		})
		t.Run(name("R042 B057 B058 B060 byte offset"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.ByteOffset = 32 })
			require.EqualValues(t, 4128, m.Addr())
			require.Zero(t, m.ByteOffset())
			require.Equal(t, 32, m.Alignment(), "B065")
		})
		t.Run(name("R038 opaque handle keeps its offset"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.DeviceType, s.Data, s.ByteOffset = 4, 3, 8 })
			require.EqualValues(t, 3, m.Addr())
			require.EqualValues(t, 8, m.ByteOffset())
		})
		t.Run(name("R044 B033 B035 NULL without elements"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.Data, s.Shape = 0, []int64{0, 3} })
			require.Zero(t, m.Size())
			require.Zero(t, m.Addr())
		})
		t.Run(name("R044 B002 not NULL without elements, NULL strides"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 3, []int64{2, 0, 3}, nil })
			require.Zero(t, m.Size())
			require.Equal(t, []int64{3, 3, 1}, m.Strides(nil))
			require.EqualValues(t, 3, m.Stride(0))
		})
		t.Run(name("R053 B053 negative stride"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 1, []int64{8}, []int64{-1} })
			require.EqualValues(t, -1, m.Stride(0))
		})
		t.Run(name("R052 broadcast"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.Strides = []int64{0, 1} })
			require.EqualValues(t, 0, m.Stride(0))
		})
		t.Run(name("R054 odd stride of one index"), func(t *testing.T) {
			get(t, func(s *dlpacktest.Spec) { s.Shape, s.Strides = []int64{1, 3}, []int64{math.MinInt64, 1} })
		})
		t.Run(name("64 axes"), func(t *testing.T) {
			m := get(t, func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 64, ones(64), ones(64) })
			require.Equal(t, ones(64), m.Shape(nil))
		})
		for at := uintptr(0); at < 64; at += 4 {
			t.Run(name(fmt.Sprintf("R041 B063 address offset %d", at)), func(t *testing.T) {
				m := get(t, func(s *dlpacktest.Spec) { s.Data += at })
				require.Zero(t, m.Addr()%uintptr(m.Alignment()))
				require.GreaterOrEqual(t, m.Alignment(), 4)
			})
		}
	}
	t.Run("R015 R018 flags", func(t *testing.T) {
		counters(t)
		m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Flags = 7 }))
		require.NoError(t, err)
		require.True(t, m.ReadOnly())
		require.EqualValues(t, 7, m.Flags())
		m.Release()
		require.False(t, m.ReadOnly())
	})
}

func TestImportPlainTypes(t *testing.T) {
	// R081 B079 B081 B083: what is exported is imported, type by type, with
	// bool and uint8 apart. The limits of the short cut are crossed too.
	deleted := counters(t)
	n := int64(0)
	for code := range 20 {
		for bits := range 256 {
			for _, lanes := range []uint16{1, 2} {
				d := dlpack.DataType{Code: dlpack.TypeCode(code), Bits: uint8(bits), Lanes: lanes}
				m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Code, s.Bits, s.Lanes = uint8(code), uint8(bits), lanes }))
				n++
				if d.Check() != nil {
					require.ErrorIs(t, err, dlpack.ErrDType, d.String())
					continue
				}
				require.NoError(t, err, d.String())
				require.Equal(t, d, m.DType())
				m.Release()
			}
		}
	}
	require.Equal(t, n, deleted())
}

func TestReleaseOnce(t *testing.T) {
	t.Run("R060 B126 B136 every import runs one deleter", func(t *testing.T) {
		deleted := counters(t)
		for range 1000 {
			m, err := importSpec(foreign(nil))
			require.NoError(t, err)
			m.Release()
			m.Release()
			require.NoError(t, m.Close())
		}
		require.EqualValues(t, 1000, deleted())
	})
	t.Run("copies", func(t *testing.T) {
		deleted := counters(t)
		m, err := importSpec(foreign(nil))
		require.NoError(t, err)
		c := m
		c.Release()
		m.Release()
		require.EqualValues(t, 1, deleted())
		require.False(t, m.IsLive())
		// The state is used again by the next import: the old copies must
		// not reach it.
		next, err := importSpec(foreign(nil))
		require.NoError(t, err)
		m.Release()
		c.Release()
		require.True(t, next.IsLive())
		require.EqualValues(t, 1, deleted())
		require.Zero(t, m.Addr())
		_, err = m.Desc()
		require.ErrorIs(t, err, dlpack.ErrClosed)
		next.Release()
	})
	t.Run("R059 NULL deleter", func(t *testing.T) {
		for _, versioned := range []bool{true, false} {
			s := foreign(func(s *dlpacktest.Spec) { s.NullDeleter, s.Versioned = true, versioned })
			p := dlpacktest.New(s)
			m, err := dlpack.Capsule{Addr: p, Versioned: versioned}.Import()
			require.NoError(t, err)
			m.Release()
			dlpacktest.Free(p)
		}
	})
	t.Run("zero value", func(t *testing.T) {
		var m dlpack.Managed
		m.Release()
		require.Zero(t, m.Addr())
		require.Zero(t, m.NDim())
		require.Zero(t, m.Size())
		require.Zero(t, m.Device())
		require.Zero(t, m.DType())
		require.Zero(t, m.Version())
		require.Zero(t, m.Dim(5))
		require.Zero(t, m.Stride(5))
		require.Zero(t, m.Struct())
		require.Zero(t, m.ByteOffset())
		require.False(t, m.Legacy())
		require.False(t, m.HasStrides())
		require.Nil(t, m.Shape(nil))
		require.Nil(t, m.Strides(nil))
		for _, f := range []func() error{
			func() error { _, err := m.Desc(); return err },
			func() error { _, err := m.Export(true); return err },
			func() error { _, err := m.ExportDesc(&dlpack.Desc{}, true); return err },
			func() error { _, err := m.Retain(); return err },
			func() error { _, err := m.Owner(); return err },
			func() error { _, err := m.DLPack(dlpack.Request{}); return err },
			func() error { _, err := m.DLPackDevice(); return err },
		} {
			require.ErrorIs(t, f(), dlpack.ErrClosed)
		}
	})
}

func TestReleaseAll(t *testing.T) {
	balanced(t)
	deleted := counters(t)
	// All kinds at once, more than one batch, with stale and repeated ones.
	var ms []dlpack.Managed
	for i := range 150 {
		m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Versioned = i%3 != 0 }))
		require.NoError(t, err)
		ms = append(ms, m, m)
		if i%5 == 0 {
			n, err := m.Retain()
			require.NoError(t, err)
			ms = append(ms, n)
		}
	}
	stale, err := importSpec(foreign(nil))
	require.NoError(t, err)
	stale.Release()
	ms = append(ms, stale, dlpack.Managed{})
	released := 0
	e, err := dlpack.ExportDesc(tensor(func(*dlpack.Desc) {}), func() {
		released++
		runtime.GC() // a deleter that enters Go and stays a while
	})
	require.NoError(t, err)
	m, err := dlpack.From(e, nil)
	require.NoError(t, err)
	e.Close()
	ms = append(ms, m)
	dlpack.ReleaseAll(ms)
	require.EqualValues(t, 151, deleted())
	require.Equal(t, 1, released)
	for _, m := range ms {
		require.False(t, m.IsLive())
	}
	dlpack.ReleaseAll(ms)
	dlpack.ReleaseAll(nil)
	require.EqualValues(t, 151, deleted())
}

func TestReleaseConcurrently(t *testing.T) {
	deleted := counters(t)
	const rounds, goroutines = 200, 8
	for range rounds {
		m, err := importSpec(foreign(nil))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Add(1)
			go func() {
				defer wg.Done()
				switch i % 4 {
				case 0:
					if p, err := m.Export(true); err == nil {
						dlpacktest.Release(p, true)
					}
				case 1:
					if n, err := m.Retain(); err == nil {
						_ = n.Shape(nil)
						n.Release()
					}
				case 2:
					if d, err := m.Desc(); err == nil && d.Shape[0] != 2 {
						panic("read after release")
					}
				}
				m.Release()
			}()
		}
		wg.Wait()
	}
	require.EqualValues(t, rounds, deleted())
}

func TestForgottenManagedIsReleased(t *testing.T) {
	// The safety net. Leak-check mode would report it, so it is off here.
	leak.Pause(t)
	deleted := counters(t)
	for _, retained := range []bool{false, true} {
		before := deleted()
		func() {
			m, err := importSpec(foreign(nil))
			require.NoError(t, err)
			if retained { // moved into a C owner
				n, err := m.Retain()
				require.NoError(t, err)
				n.Release()
			}
		}()
		deadline := time.Now().Add(20 * time.Second)
		for deleted() == before {
			require.True(t, time.Now().Before(deadline), "never released")
			runtime.GC()
			runtime.Gosched()
		}
		require.EqualValues(t, before+1, deleted())
	}
}

func TestAccessorsKeepTheTensor(t *testing.T) {
	// B353: the accessor is the last use of the Managed. The collector must
	// not let the deleter run while it reads the producer's arrays. Sanitizer
	// runs see the read of freed memory; here the values would be wrong.
	leak.Pause(t)
	deleted := counters(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	const n = 500
	var buf [64]int64
	for range n {
		m, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.NDim, s.Shape, s.Strides = 64, ones(64), ones(64) }))
		require.NoError(t, err)
		require.Equal(t, ones(64), m.Shape(buf[:0]))
	}
	close(stop)
	wg.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for deleted() < n {
		require.True(t, time.Now().Before(deadline), "%d of %d released", deleted(), n)
		runtime.GC()
		runtime.Gosched()
	}
}

func TestLeakIsReported(t *testing.T) {
	counters(t)
	m, err := importSpec(foreign(nil))
	require.NoError(t, err)
	live := leak.Live()
	require.True(t, slices.ContainsFunc(live, func(r leak.Record) bool { return r.Kind == "dlpack.Managed" }))
	m.Release()
	require.False(t, slices.ContainsFunc(leak.Live(), func(r leak.Record) bool { return r.Kind == "dlpack.Managed" }))
}

func TestImportAllocatesNothing(t *testing.T) {
	leak.Pause(t)
	specs := []dlpacktest.Spec{
		foreign(nil),
		foreign(func(s *dlpacktest.Spec) { s.Versioned = false }),
		foreign(func(s *dlpacktest.Spec) { s.Code, s.Bits, s.Flags = 17, 4, 4 }), // not by the short cut
	}
	for _, s := range specs {
		addrs := make([]uintptr, 0, 300)
		for range cap(addrs) {
			addrs = append(addrs, dlpacktest.New(s))
		}
		runtime.GC() // empties the pool now rather than in between
		i := 0
		allocs := testing.AllocsPerRun(200, func() {
			m, err := dlpack.Capsule{Addr: addrs[i], Versioned: s.Versioned}.Import()
			if err != nil {
				t.Error(err)
			}
			_ = m.Addr() + uintptr(m.Dim(0)+m.Stride(0))
			m.Release()
			i++
		})
		for ; i < len(addrs); i++ {
			dlpacktest.Release(addrs[i], s.Versioned)
		}
		if !raceEnabled { // the detectors allocate, or make the pool drop values
			require.Zero(t, allocs)
		}
	}
}

// TestManagedCounterModel compares sequences of retain, export, release and
// foreign deleters with a plain counter.
func TestManagedCounterModel(t *testing.T) {
	counters(t)
	rapid.Check(t, func(t *rapid.T) {
		before := dlpacktest.Deleted()
		exports := dlpack.ReadStats().Exports
		versioned := rapid.Bool().Draw(t, "versioned")
		first, err := importSpec(foreign(func(s *dlpacktest.Spec) { s.Versioned = versioned }))
		require.NoError(t, err)
		handles := []dlpack.Managed{first} // live
		stale := []dlpack.Managed{}
		type export struct {
			p uintptr
			v bool
		}
		var out []export
		check := func() {
			want := int64(1)
			if len(handles)+len(out) > 0 {
				want = 0
			}
			require.Equal(t, want, dlpacktest.Deleted()-before)
			require.EqualValues(t, len(out), dlpack.ReadStats().Exports-exports)
			for _, h := range stale {
				require.False(t, h.IsLive())
			}
			for _, h := range handles {
				require.Equal(t, []int64{2, 3}, h.Shape(nil))
			}
		}
		// What is not possible at the moment does nothing: rapid fails where it happens to draw
		// nothing but actions that skip.
		t.Repeat(map[string]func(*rapid.T){
			"retain": func(t *rapid.T) {
				if len(handles) == 0 {
					return // nothing to retain
				}
				n, err := rapid.SampledFrom(handles).Draw(t, "handle").Retain()
				require.NoError(t, err)
				handles = append(handles, n)
				check()
			},
			"export": func(t *rapid.T) {
				if len(handles) == 0 {
					return // nothing to export
				}
				v := rapid.Bool().Draw(t, "as versioned")
				p, err := rapid.SampledFrom(handles).Draw(t, "handle").Export(v)
				require.NoError(t, err)
				out = append(out, export{p, v})
				check()
			},
			"release": func(t *rapid.T) {
				if len(handles) == 0 {
					return // nothing to release
				}
				i := rapid.IntRange(0, len(handles)-1).Draw(t, "index")
				handles[i].Release()
				stale = append(stale, handles[i])
				handles = slices.Delete(handles, i, i+1)
				check()
			},
			"release stale": func(t *rapid.T) {
				if len(stale) == 0 {
					return // nothing stale
				}
				h := rapid.SampledFrom(stale).Draw(t, "handle")
				h.Release()
				_, err := h.Retain()
				require.ErrorIs(t, err, dlpack.ErrClosed)
				check()
			},
			"consumer deletes": func(t *rapid.T) {
				if len(out) == 0 {
					return // nothing exported
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "index")
				if rapid.Bool().Draw(t, "on a new thread") {
					dlpacktest.ReleaseOnThread(out[i].p, out[i].v) // R063
				} else {
					dlpacktest.Release(out[i].p, out[i].v)
				}
				out = slices.Delete(out, i, i+1)
				check()
			},
			"consumer imports": func(t *rapid.T) {
				if len(out) == 0 {
					return // nothing exported
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "index")
				m, err := dlpack.Capsule{Addr: out[i].p, Versioned: out[i].v}.Import()
				require.NoError(t, err)
				m.Release()
				out = slices.Delete(out, i, i+1)
				check()
			},
		})
		for _, h := range handles {
			h.Release()
		}
		for _, e := range out {
			dlpacktest.Release(e.p, e.v)
		}
		handles, out = nil, nil
		check()
	})
}
