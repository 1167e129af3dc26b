//go:build cgo && linux && (amd64 || arm64)

package dlpack_test

import (
	"errors"
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fake is a producer that answers as it is told.
type fake struct {
	answer func(dlpack.Request) (dlpack.Capsule, error)
}

func (f fake) DLPackDevice() (dlpack.Device, error) { return dlpack.CPU, nil }

func (f fake) DLPack(r dlpack.Request) (dlpack.Capsule, error) { return f.answer(r) }

func TestFrom(t *testing.T) {
	t.Run("R122 asks for the newest version", func(t *testing.T) {
		deleted := counters(t)
		m, err := dlpack.From(fake{func(r dlpack.Request) (dlpack.Capsule, error) {
			require.Equal(t, dlpack.ABIVersion, r.MaxVersion)
			return dlpack.Capsule{Addr: dlpacktest.New(foreign(nil)), Versioned: true}, nil
		}}, &dlpack.Request{MaxVersion: dlpack.Version{Major: 7}})
		require.NoError(t, err)
		m.Release()
		require.EqualValues(t, 1, deleted())
	})
	t.Run("R121 R083 B107 takes what it gets", func(t *testing.T) {
		deleted := counters(t)
		m, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) {
			return dlpack.Capsule{Addr: dlpacktest.New(foreign(func(s *dlpacktest.Spec) { s.Versioned = false }))}, nil
		}}, nil)
		require.NoError(t, err)
		require.True(t, m.Legacy())
		m.Release()
		require.EqualValues(t, 1, deleted())
	})
	t.Run("R163 errors pass through", func(t *testing.T) {
		boom := errors.New("boom")
		_, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) { return dlpack.Capsule{}, boom }}, nil)
		require.Same(t, boom, err)
	})
	t.Run("R067 B140 a bad tensor is released", func(t *testing.T) {
		deleted := counters(t)
		_, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) {
			return dlpack.Capsule{Addr: dlpacktest.New(foreign(func(s *dlpacktest.Spec) { s.NDim = -1 })), Versioned: true}, nil
		}}, nil)
		requireRule(t, err, dlpack.ErrLayout, "R047")
		require.EqualValues(t, 1, deleted())
	})
	t.Run("R149 another device than asked", func(t *testing.T) {
		deleted := counters(t)
		_, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) {
			return dlpack.Capsule{Addr: dlpacktest.New(foreign(func(s *dlpacktest.Spec) { s.DeviceType = 2 })), Versioned: true}, nil
		}}, &dlpack.Request{Device: dlpack.CPU})
		requireRule(t, err, dlpack.ErrDevice, "R149")
		require.EqualValues(t, 1, deleted())
	})
	t.Run("R150 R162 asked for a copy, got none", func(t *testing.T) {
		deleted := counters(t)
		_, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) {
			return dlpack.Capsule{Addr: dlpacktest.New(foreign(nil)), Versioned: true}, nil
		}}, &dlpack.Request{Copy: dlpack.CopyAlways})
		requireRule(t, err, dlpack.ErrCopy, "R150")
		require.EqualValues(t, 1, deleted())
	})
	t.Run("no tensor at all", func(t *testing.T) {
		_, err := dlpack.From(fake{func(dlpack.Request) (dlpack.Capsule, error) { return dlpack.Capsule{}, nil }}, nil)
		require.ErrorIs(t, err, dlpack.ErrNull)
	})
}

func TestCapsule(t *testing.T) {
	require.Equal(t, "dltensor", dlpack.Capsule{}.Name())
	require.Equal(t, "dltensor_versioned", dlpack.Capsule{Versioned: true}.Name())
	require.NoError(t, dlpack.Capsule{}.Close())
	deleted := counters(t)
	for _, versioned := range []bool{true, false} {
		c := dlpack.Capsule{Addr: dlpacktest.New(foreign(func(s *dlpacktest.Spec) { s.Versioned = versioned })), Versioned: versioned}
		require.NoError(t, c.Close()) // R077
	}
	require.EqualValues(t, 2, deleted())
}

func TestProducers(t *testing.T) {
	balanced(t)
	data := []float32{0, 1, 2, 3, 4, 5}
	e, err := dlpack.ExportSlice(data, []int64{2, 3}, nil, nil)
	require.NoError(t, err)
	defer e.Close()
	m, err := dlpack.From(e, nil)
	require.NoError(t, err)
	defer m.Release()
	for name, p := range map[string]dlpack.Producer{"Exported": e, "Managed": m} {
		t.Run(name, func(t *testing.T) {
			balanced(t)
			d, err := p.DLPackDevice()
			require.NoError(t, err)
			require.Equal(t, dlpack.CPU, d) // R154 R155 B109

			t.Run("R116 B113 legacy", func(t *testing.T) {
				c, err := p.DLPack(dlpack.Request{})
				require.NoError(t, err)
				require.Equal(t, dlpack.NameLegacy, c.Name())
				n, err := c.Import()
				require.NoError(t, err)
				require.Equal(t, addrOf(data), n.Addr())
				n.Release()
			})
			t.Run("R151 B111 shared", func(t *testing.T) {
				n, err := dlpack.From(p, &dlpack.Request{Copy: dlpack.CopyNever, Device: dlpack.CPU})
				require.NoError(t, err)
				require.Equal(t, addrOf(data), n.Addr())
				require.Zero(t, n.Flags())
				n.Release()
			})
			t.Run("R150 R017 R162 B111 copied", func(t *testing.T) {
				n, err := dlpack.From(p, &dlpack.Request{Copy: dlpack.CopyAlways})
				require.NoError(t, err)
				require.Equal(t, dlpack.FlagIsCopied, n.Flags())
				require.NotEqual(t, addrOf(data), n.Addr())
				require.Equal(t, data, cptr.Slice[float32](n.Addr(), 6))
				n.Release()
			})
			t.Run("R144 R135 refusals", func(t *testing.T) {
				_, err := dlpack.From(p, &dlpack.Request{Device: dlpack.Device{Type: dlpack.DeviceCUDA}})
				requireRule(t, err, dlpack.ErrDevice, "R144")
				_, err = dlpack.From(p, &dlpack.Request{Stream: dlpack.StreamInt(1)})
				requireRule(t, err, dlpack.ErrStream, "R135")
			})
		})
	}
	t.Run("R146 pinned memory as CPU memory", func(t *testing.T) {
		pinned := tensor(func(d *dlpack.Desc) { d.Device.Type = dlpack.DeviceCUDAHost })
		e, err := dlpack.ExportDesc(pinned, nil)
		require.NoError(t, err)
		defer e.Close()
		_, err = e.DLPack(dlpack.Request{Device: dlpack.CPU})
		requireRule(t, err, dlpack.ErrDevice, "R146")
	})
	t.Run("closed", func(t *testing.T) {
		e, err := dlpack.Alloc(dlpack.Int8, []int64{1}, nil)
		require.NoError(t, err)
		e.Close()
		_, err = e.DLPack(dlpack.Request{})
		require.ErrorIs(t, err, dlpack.ErrClosed)
	})
}

func TestCopyOfStrided(t *testing.T) {
	// B008 B022 B024: the copy is dense and equal, value by value.
	balanced(t)
	data := make([]int32, 4000)
	for i := range data {
		data[i] = int32(i)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "ndim")
		shape, strides := []int64{}, []int64{}
		for range n {
			shape = append(shape, rapid.Int64Range(0, 4).Draw(t, "extent"))
			strides = append(strides, rapid.Int64Range(-60, 60).Draw(t, "stride"))
		}
		e, err := dlpack.ExportSlice(data, shape, strides, &dlpack.ExportOptions{Offset: 2000})
		require.NoError(t, err)
		defer e.Close()
		m, err := dlpack.From(e, &dlpack.Request{Copy: dlpack.CopyAlways})
		require.NoError(t, err)
		defer m.Release()
		want := []int32{2000}
		for i := range n {
			var next []int32
			for _, o := range want {
				for k := range shape[i] {
					next = append(next, o+int32(k*strides[i]))
				}
			}
			want = next
		}
		got := cptr.Slice[int32](m.Addr(), int(m.Size()))
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
		row, err := dlpack.RowMajor(nil, shape)
		require.NoError(t, err)
		require.ElementsMatch(t, row, m.Strides(nil))
	})
}
