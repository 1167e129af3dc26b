//go:build cgo && linux

package conformance_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/conformance"
	"github.com/go-handoff/handoff/conformance/internal/relay"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/memview"
)

func imported(c dlpack.Capsule) (io.Closer, error) {
	m, err := c.Import()
	if err != nil {
		return nil, err
	}
	return m, nil
}

// clean fails on any rule that is not kept, whatever its strength.
func clean(t *testing.T, target any) {
	t.Helper()
	results, err := conformance.CheckGo(target)
	require.NoError(t, err)
	require.NotEmpty(t, results)
	for _, r := range results {
		require.Falsef(t, r.Status.Bad(), "%s: %s", r.Rule, r.What)
	}
	conformance.Test(t, target)
}

func TestOurOwnGoTypes(t *testing.T) {
	slice, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, nil)
	require.NoError(t, err)
	defer slice.Close()
	readonly, err := dlpack.ExportSlice([]int64{1, 2, 3}, nil, nil, &dlpack.ExportOptions{Flags: dlpack.FlagReadOnly})
	require.NoError(t, err)
	defer readonly.Close()
	empty, err := dlpack.Alloc(dlpack.BFloat16, []int64{0, 3}, nil)
	require.NoError(t, err)
	defer empty.Close()
	scalar, err := dlpack.Alloc(dlpack.Float8E4M3FN, nil, nil)
	require.NoError(t, err)
	defer scalar.Close()
	managed, err := dlpack.From(slice, nil)
	require.NoError(t, err)
	defer managed.Release()
	view, err := memview.FromSlice([]float64{1, 2, 3, 4}, 2, 2)
	require.NoError(t, err)
	for name, target := range map[string]any{
		"ExportSlice": slice, "read-only": readonly, "empty bfloat16": empty, "scalar float8": scalar,
		"Managed": managed, "memview": view, "import": conformance.Consumer(imported),
	} {
		t.Run(name, func(t *testing.T) { clean(t, target) })
	}
	p, err := slice.Export(true)
	require.NoError(t, err)
	clean1(t, conformance.Tensor{Addr: p, Versioned: true}) // consumed, so only once
}

func TestStreamsBetweenProtocols(t *testing.T) {
	clean(t, conformance.Translate(func(v any) (any, error) {
		s, err := cai.ParseCAIStream(v)
		if err != nil {
			return nil, err
		}
		return s.DLPack(dlpack.DeviceCUDA)
	}))
	results, err := conformance.CheckGo(conformance.Translate(func(any) (any, error) { return int64(0), nil }))
	require.NoError(t, err)
	for _, rule := range []string{"R184", "R187", "R284"} {
		reported(t, results, rule)
	}
}

func TestNoTarget(t *testing.T) {
	_, err := conformance.CheckGo(5)
	require.ErrorIs(t, err, dlpack.ErrNotSupported)
}

// broken is a producer that does one thing wrong.
type broken struct {
	dlpack.Producer
	rule string
	last dlpack.Capsule
}

// at returns a field of a versioned struct, by its offset.
func at[T any](c dlpack.Capsule, offset uintptr) *T { return cptr.To[T](c.Addr + offset) }

func (b *broken) DLPackDevice() (dlpack.Device, error) {
	if b.rule == "R155" || b.rule == "R143" {
		return dlpack.Device{Type: dlpack.DeviceCUDAHost}, nil
	}
	return b.Producer.DLPackDevice()
}

func (b *broken) DLPack(r dlpack.Request) (dlpack.Capsule, error) {
	n, given := r.Stream.Int64()
	switch {
	case b.rule == "R132" && n == -2, b.rule == "R135" && n > 0:
		r.Stream = dlpack.StreamArg{}
	case b.rule == "R144" && r.Device.Type == dlpack.DeviceVulkan:
		r.Device = dlpack.Device{}
	case b.rule == "R117" && r.MaxVersion.Minor >= 3:
		r.MaxVersion = dlpack.Version{}
	case b.rule == "R118" && r.MaxVersion == dlpack.Version{Major: 1}:
		r.MaxVersion = dlpack.Version{}
	case b.rule == "R119" && r.MaxVersion == dlpack.Version{Minor: 8}, (b.rule == "R084" || b.rule == "R116") && r.MaxVersion == dlpack.Version{}:
		r.MaxVersion = dlpack.ABIVersion
	case b.rule == "R150" && r.Copy == dlpack.CopyAlways:
		r.Copy = dlpack.CopyIfNeeded
	case b.rule == "R151" && r.Copy == dlpack.CopyNever, b.rule == "R152" && r.Copy == dlpack.CopyIfNeeded:
		r.Copy = dlpack.CopyAlways
	}
	if b.rule == "R155" || b.rule == "R143" {
		r.Stream = dlpack.StreamArg{}
	}
	c, err := b.Producer.DLPack(r)
	if err != nil || !c.Versioned || given && b.rule != "R155" {
		if err == nil && !c.Versioned && b.rule == "R002" {
			*at[uint16](c, 22) = 0
		}
		return c, err
	}
	// The copy is not freed: the checks may look at it after its release.
	c.Addr = relay.New(c.Addr).Addr()
	switch b.rule {
	case "R001":
		*at[int32](c, 48) = 1000
	case "R003":
		*at[uint32](c, 4) = 500
	case "R006":
		*at[uint32](c, 0) = 3
	case "R004":
		*at[int32](c, 40) = 99
	case "R005":
		*at[uint8](c, 52) = 200
	case "R013":
		*at[uint64](c, 24) |= 1 << 30
	case "R017":
		*at[uint64](c, 24) &^= 2
	case "R152":
		if r.Copy == dlpack.CopyAlways {
			*at[uint64](c, 24) &^= 2
		}
	case "R019":
		*at[uint64](c, 24) |= 2
	case "R036":
		*at[int32](c, 44) = 1
	case "R049":
		*at[uintptr](c, 64) = 0
	case "R149":
		if r.Device != (dlpack.Device{}) {
			*at[int32](c, 40) = 3
		}
	case "R070":
		if b.last.Addr != 0 {
			return b.last, c.Close()
		}
		b.last = c
	}
	return c, nil
}

// TestGoChecksCanFail: each rule has a producer that breaks it, and it is
// reported.
func TestGoChecksCanFail(t *testing.T) {
	for _, rule := range []string{
		"R001", "R002", "R003", "R004", "R005", "R006", "R013", "R017", "R019", "R036", "R049", "R084", "R116", "R117",
		"R118", "R119", "R132", "R135", "R143", "R144", "R149", "R150", "R151", "R152", "R155",
	} {
		t.Run(rule, func(t *testing.T) {
			e, err := dlpack.ExportSlice([]float32{1, 2, 3, 4, 5, 6}, []int64{2, 3}, nil, nil)
			require.NoError(t, err)
			defer e.Close()
			results, err := conformance.CheckGo(&broken{Producer: e, rule: rule})
			require.NoError(t, err)
			reported(t, results, rule)
		})
	}
	t.Run("consumer", func(t *testing.T) {
		// Takes everything and looks at nothing, then releases twice, or never.
		results, err := conformance.CheckGo(conformance.Consumer(func(c dlpack.Capsule) (io.Closer, error) {
			return closer(c.Close), nil
		}))
		require.NoError(t, err)
		for _, rule := range []string{"R008", "R011", "R012", "R022", "R023", "R026", "R027", "R029", "R034", "R045", "R047"} {
			reported(t, results, rule)
		}
		leaked := []dlpack.Capsule{}
		results, err = conformance.CheckGo(conformance.Consumer(func(c dlpack.Capsule) (io.Closer, error) {
			leaked = append(leaked, c)
			return nil, dlpack.ErrNotSupported
		}))
		require.NoError(t, err)
		for _, rule := range []string{"R010", "R042", "R044", "R046", "R050", "R060", "R067"} {
			reported(t, results, rule)
		}
		require.NotEmpty(t, leaked)
	})
	t.Run("stream", func(t *testing.T) {
		n := 0
		results, err := conformance.CheckGo(like(func() (int, uintptr) { n++; return 1, uintptr(n) }))
		require.NoError(t, err)
		reported(t, results, "R262")
		reported(t, results, "R271")
	})
	t.Run("cai", func(t *testing.T) {
		f4, err := cai.ParseTypestr("<f4")
		require.NoError(t, err)
		results, err := conformance.CheckGo(describes{cai.Array{
			Version: 3, Shape: []int64{0, -3}, Typestr: f4, Data: 64, Strides: []int64{4},
		}})
		require.NoError(t, err)
		for _, rule := range []string{"R169", "R172", "R173", "R178", "R287"} {
			reported(t, results, rule)
		}
	})
}

func reported(t *testing.T, results []conformance.Result, rule string) {
	t.Helper()
	for _, r := range results {
		if r.Rule == rule {
			require.Truef(t, r.Status.Bad(), "%s was broken on purpose and is %s", rule, r.Status)
			return
		}
	}
	t.Errorf("%s was not looked at", rule)
}

type closer func() error

func (c closer) Close() error { return c() }

type like func() (int, uintptr)

func (l like) CUDAStream() (int, uintptr) { return l() }

type describes struct{ cai.Array }

func (d describes) CUDAArrayInterface() (cai.Interface, error) {
	return cai.Interface{Array: d.Array}, nil
}
