package dlpack_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/stretchr/testify/require"
)

func TestStreamArg(t *testing.T) {
	cuda, rocm, cpu := dlpack.DeviceCUDA, dlpack.DeviceROCM, dlpack.DeviceCPU
	none := dlpack.StreamArg{}
	i := dlpack.StreamInt
	use := func(k dlpack.StreamKind, h uint64) dlpack.StreamUse { return dlpack.StreamUse{Kind: k, Handle: h} }
	for _, c := range []struct {
		name string
		dev  dlpack.DeviceType
		arg  dlpack.StreamArg
		want dlpack.StreamUse
		rule string
	}{
		{"R126 B195", cuda, none, use(dlpack.StreamLegacy, 0), ""},
		{"R127 B193", cuda, i(-1), use(dlpack.StreamNoSync, 0), ""},
		{"R128 B199", cuda, i(0), dlpack.StreamUse{}, "R128"},
		{"R129", cuda, i(1), use(dlpack.StreamLegacy, 0), ""},
		{"R130", cuda, i(2), use(dlpack.StreamPerThread, 0), ""},
		{"R131", cuda, i(3), use(dlpack.StreamHandle, 3), ""},
		{"R131 B199 2**63", cuda, dlpack.StreamUint(1 << 63), use(dlpack.StreamHandle, 1<<63), ""},
		{"R131 B199 2**64-1", cuda, dlpack.StreamUint(math.MaxUint64), use(dlpack.StreamHandle, math.MaxUint64), ""},
		{"R132 B199", cuda, i(-2), dlpack.StreamUse{}, "R132"},
		{"R132 smallest", cuda, i(math.MinInt64), dlpack.StreamUse{}, "R132"},
		{"R128 pinned", dlpack.DeviceCUDAHost, i(0), dlpack.StreamUse{}, "R128"},
		{"R126 managed", dlpack.DeviceCUDAManaged, none, use(dlpack.StreamLegacy, 0), ""},
		{"R126", rocm, none, use(dlpack.StreamLegacy, 0), ""},
		{"R127", rocm, i(-1), use(dlpack.StreamNoSync, 0), ""},
		{"R133", rocm, i(0), use(dlpack.StreamLegacy, 0), ""},
		{"R134", rocm, i(1), dlpack.StreamUse{}, "R134"},
		{"R134", rocm, i(2), dlpack.StreamUse{}, "R134"},
		{"R131", rocm, i(3), use(dlpack.StreamHandle, 3), ""},
		{"R132", rocm, i(-2), dlpack.StreamUse{}, "R132"},
		{"R134 pinned", dlpack.DeviceROCMHost, i(1), dlpack.StreamUse{}, "R134"},
		{"R135", cpu, none, use(dlpack.StreamNone, 0), ""},
		{"R135 tolerated", cpu, i(-1), use(dlpack.StreamNoSync, 0), ""},
		{"R135", cpu, i(0), dlpack.StreamUse{}, "R135"},
		{"R135", cpu, i(1), dlpack.StreamUse{}, "R135"},
		{"R132", cpu, i(-2), dlpack.StreamUse{}, "R132"},
		{"private", dlpack.DeviceMetal, i(7), use(dlpack.StreamPrivate, 7), ""},
		{"private none", dlpack.DeviceMetal, none, use(dlpack.StreamNone, 0), ""},
		{"private no sync", dlpack.DeviceMetal, i(-1), use(dlpack.StreamNoSync, 0), ""},
	} {
		t.Run(fmt.Sprintf("%s %s stream %s", c.name, c.dev, c.arg), func(t *testing.T) {
			got, err := c.arg.Check(c.dev)
			if c.rule != "" {
				requireRule(t, err, dlpack.ErrStream, c.rule)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.want, got)
		})
	}
	t.Run("numbers", func(t *testing.T) {
		require.Equal(t, "None", none.String())
		require.True(t, none.IsNone())
		require.Equal(t, "-9223372036854775808", i(math.MinInt64).String())
		for _, n := range []int64{math.MinInt64, -1, 0, 5, math.MaxInt64} {
			got, ok := i(n).Int64()
			require.True(t, ok)
			require.Equal(t, n, got)
		}
		_, ok := dlpack.StreamUint(1 << 63).Int64()
		require.False(t, ok)
		_, ok = none.Int64()
		require.False(t, ok)
	})
	t.Run("R141 R142 from raw handles", func(t *testing.T) {
		for _, c := range []struct {
			dev       dlpack.DeviceType
			handle    uint64
			perThread bool
			want      dlpack.StreamArg
		}{
			{cuda, 0, false, i(1)},
			{cuda, 0, true, i(2)},
			{cuda, 1, false, i(1)},
			{cuda, 2, false, i(2)},
			{cuda, 0xdead, true, i(0xdead)},
			{rocm, 0, false, i(0)},
			{rocm, 0xdead, false, i(0xdead)},
			{cpu, 0, false, none},
		} {
			got, err := dlpack.StreamArgOf(c.dev, c.handle, c.perThread)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			_, err = got.Check(c.dev)
			require.NoError(t, err)
		}
		for _, h := range []uint64{1, 2} {
			_, err := dlpack.StreamArgOf(rocm, h, false)
			requireRule(t, err, dlpack.ErrStream, "R134")
		}
		_, err := dlpack.StreamArgOf(rocm, 0, true)
		requireRule(t, err, dlpack.ErrStream, "R134")
		_, err = dlpack.StreamArgOf(cpu, 5, false)
		requireRule(t, err, dlpack.ErrStream, "R135")
	})
	require.Equal(t, "per-thread default", dlpack.StreamPerThread.String())
	require.Equal(t, "StreamKind(9)", dlpack.StreamKind(9).String())
	require.Equal(t, "never", dlpack.CopyNever.String())
	require.Equal(t, "if needed", dlpack.CopyIfNeeded.String())
	require.Equal(t, "always", dlpack.CopyAlways.String())
	require.Equal(t, "CopyMode(7)", dlpack.CopyMode(7).String())
}

func TestRequestPlan(t *testing.T) {
	newest := dlpack.ABIVersion
	cuda := dlpack.Device{Type: dlpack.DeviceCUDA, ID: 1}
	managed := dlpack.Device{Type: dlpack.DeviceCUDAManaged}
	toCPU := func(d dlpack.Device) bool { return d == dlpack.CPU }
	for _, c := range []struct {
		name string
		r    dlpack.Request
		o    dlpack.Offer
		want dlpack.Plan
		kind error
		rule string
	}{
		{
			"R116 R084 no max_version",
			dlpack.Request{},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{Device: dlpack.CPU},
			nil, "",
		},
		{
			"R119 major 0",
			dlpack.Request{MaxVersion: dlpack.Version{Minor: 8}},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{Device: dlpack.CPU},
			nil, "",
		},
		{
			"R117 own version",
			dlpack.Request{MaxVersion: newest},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true},
			nil, "",
		},
		{
			"R118 lower minor",
			dlpack.Request{MaxVersion: dlpack.Version{Major: 1}},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true},
			nil, "",
		},
		{
			"R117 higher major",
			dlpack.Request{MaxVersion: dlpack.Version{Major: 9}},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true},
			nil, "",
		},
		{
			"R057 B069 read-only unversioned",
			dlpack.Request{},
			dlpack.Offer{Device: dlpack.CPU, Flags: dlpack.FlagReadOnly},
			dlpack.Plan{},
			dlpack.ErrReadOnly, "R057",
		},
		{
			"R057 a copy may be written",
			dlpack.Request{Copy: dlpack.CopyAlways},
			dlpack.Offer{Device: dlpack.CPU, Flags: dlpack.FlagReadOnly, CanCopy: true},
			dlpack.Plan{Device: dlpack.CPU, Copy: true},
			nil, "",
		},
		{
			"R021 padded unversioned",
			dlpack.Request{},
			dlpack.Offer{Device: dlpack.CPU, DType: dlpack.Float4E2M1FN, Flags: dlpack.FlagSubbyteTypePadded},
			dlpack.Plan{},
			dlpack.ErrLayout, "R021",
		},
		{
			"R014 read-only versioned",
			dlpack.Request{MaxVersion: newest},
			dlpack.Offer{Device: dlpack.CPU, Flags: dlpack.FlagReadOnly | dlpack.FlagIsCopied},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true, Flags: dlpack.FlagReadOnly},
			nil, "",
		},
		{
			"R143 same device named",
			dlpack.Request{MaxVersion: newest, Device: cuda, Stream: dlpack.StreamInt(7)},
			dlpack.Offer{Device: cuda},
			dlpack.Plan{Device: cuda, Versioned: true, Stream: dlpack.StreamUse{Kind: dlpack.StreamHandle, Handle: 7}},
			nil, "",
		},
		{
			"R126 stream None on CUDA",
			dlpack.Request{MaxVersion: newest},
			dlpack.Offer{Device: cuda},
			dlpack.Plan{Device: cuda, Versioned: true, Stream: dlpack.StreamUse{Kind: dlpack.StreamLegacy}},
			nil, "",
		},
		{
			"R128 stream 0 on CUDA",
			dlpack.Request{Stream: dlpack.StreamInt(0)},
			dlpack.Offer{Device: cuda},
			dlpack.Plan{},
			dlpack.ErrStream, "R128",
		},
		{
			"R144 B111 another device",
			dlpack.Request{Device: dlpack.Device{Type: dlpack.DeviceCUDA}},
			dlpack.Offer{Device: cuda, CanCopy: true, CanCopyTo: toCPU},
			dlpack.Plan{},
			dlpack.ErrDevice, "R144",
		},
		{
			"R144 unknown device",
			dlpack.Request{Device: dlpack.Device{Type: 77}},
			dlpack.Offer{Device: cuda, CanCopyTo: func(dlpack.Device) bool { return true }},
			dlpack.Plan{},
			dlpack.ErrDevice, "R144",
		},
		{
			"R144 CPU to CUDA",
			dlpack.Request{Device: cuda},
			dlpack.Offer{Device: dlpack.CPU, CanCopy: true},
			dlpack.Plan{},
			dlpack.ErrDevice, "R144",
		},
		{
			"R145 R146 R149 B111 CUDA to CPU",
			dlpack.Request{MaxVersion: newest, Device: dlpack.CPU},
			dlpack.Offer{Device: cuda, CanCopyTo: toCPU},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true, Copy: true, HostSync: true, Flags: dlpack.FlagIsCopied},
			nil, "",
		},
		{
			"R147 R148 the stream is for the target",
			dlpack.Request{Device: dlpack.CPU, Stream: dlpack.StreamInt(7)},
			dlpack.Offer{Device: cuda, CanCopyTo: toCPU},
			dlpack.Plan{},
			dlpack.ErrStream, "R135",
		},
		{
			"R151 B111 CUDA to CPU without a copy",
			dlpack.Request{Device: dlpack.CPU, Copy: dlpack.CopyNever},
			dlpack.Offer{Device: cuda, CanCopyTo: toCPU},
			dlpack.Plan{},
			dlpack.ErrCopy, "R151",
		},
		{
			"R145 managed as CPU is shared",
			dlpack.Request{MaxVersion: newest, Device: dlpack.CPU, Copy: dlpack.CopyNever},
			dlpack.Offer{Device: managed},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true, HostSync: true},
			nil, "",
		},
		{
			"R150 R017 copy True",
			dlpack.Request{MaxVersion: newest, Copy: dlpack.CopyAlways},
			dlpack.Offer{Device: dlpack.CPU, Flags: dlpack.FlagReadOnly, CanCopy: true},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true, Copy: true, Flags: dlpack.FlagIsCopied},
			nil, "",
		},
		{
			"R150 copy True from one who cannot",
			dlpack.Request{Copy: dlpack.CopyAlways},
			dlpack.Offer{Device: dlpack.CPU},
			dlpack.Plan{},
			dlpack.ErrCopy, "R150",
		},
		{
			"R151 R152 copy False shares",
			dlpack.Request{MaxVersion: newest, Copy: dlpack.CopyNever},
			dlpack.Offer{Device: dlpack.CPU, CanCopy: true},
			dlpack.Plan{Device: dlpack.CPU, Versioned: true},
			nil, "",
		},
		{
			"no such mode",
			dlpack.Request{Copy: 3},
			dlpack.Offer{Device: dlpack.CPU, CanCopy: true},
			dlpack.Plan{},
			dlpack.ErrCopy, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.r.Plan(&c.o)
			require.Equal(t, c.want, got)
			if c.kind == nil {
				require.NoError(t, err)
			} else {
				requireRule(t, err, c.kind, c.rule)
			}
		})
	}
}
