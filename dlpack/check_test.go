package dlpack_test

import (
	"math"
	"strings"
	"testing"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tensor is a valid description to start from.
func tensor(change func(*dlpack.Desc)) dlpack.Desc {
	d := dlpack.Desc{Data: 4096, Device: dlpack.CPU, DType: dlpack.Float32, Shape: []int64{2, 3}, Strides: []int64{3, 1}}
	change(&d)
	return d
}

var checkCases = []struct {
	name string
	d    dlpack.Desc
	kind error
	rule string
}{
	{"valid", tensor(func(*dlpack.Desc) {}), nil, ""},
	{"R012 unknown flag", tensor(func(d *dlpack.Desc) { d.Flags = 8 }), dlpack.ErrFlags, "R012"},
	{"R012 highest flag", tensor(func(d *dlpack.Desc) { d.Flags = 1 << 63 }), dlpack.ErrFlags, "R012"},
	{"all known flags", tensor(func(d *dlpack.Desc) { d.Flags = 7 }), nil, ""},
	{"R011 R035 device 0", tensor(func(d *dlpack.Desc) { d.Device.Type = 0 }), dlpack.ErrDevice, "R035"},
	{"R035 device 5", tensor(func(d *dlpack.Desc) { d.Device.Type = 5 }), dlpack.ErrDevice, "R035"},
	{"R035 device -1", tensor(func(d *dlpack.Desc) { d.Device.Type = -1 }), dlpack.ErrDevice, "R035"},
	{"R035 device 99", tensor(func(d *dlpack.Desc) { d.Device.Type = 99 }), dlpack.ErrDevice, "R035"},
	{"R027 dtype", tensor(func(d *dlpack.Desc) { d.DType.Code = 200 }), dlpack.ErrDType, "R027"},
	{"R034 negative extent", tensor(func(d *dlpack.Desc) { d.Shape[1] = -1 }), dlpack.ErrLayout, "R034"},
	{"R034 negative extent beside a zero", tensor(func(d *dlpack.Desc) { d.Shape = []int64{0, -1} }), dlpack.ErrLayout, "R034"},
	{"R034 B097 product wraps to 0", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{1 << 32, 1 << 32, 16}, []int64{0, 0, 0} }), dlpack.ErrOverflow, "R034"},
	{"B097 zero comes first", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{1 << 32, 1 << 32, 0}, []int64{0, 0, 0} }), nil, ""},
	{"R034 B098 NULL strides pass int64", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{2, 1 << 62, 4}, nil }), dlpack.ErrOverflow, "R034"},
	{"R034 B098 also without elements", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{0, 1 << 62, 4}, nil }), dlpack.ErrOverflow, "R034"},
	{"R034 bytes pass int64", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{1 << 61}, []int64{0} }), dlpack.ErrOverflow, "R034"},
	{"R034 stride reach", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{3}, []int64{math.MaxInt64} }), dlpack.ErrOverflow, "R034"},
	{"R034 stride reach down", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{2}, []int64{math.MinInt64} }), dlpack.ErrOverflow, "R034"},
	{"R034 sum of reaches", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{2, 2}, []int64{1 << 62, 1 << 62} }), dlpack.ErrOverflow, "R034"},
	{"R034 reach in bytes", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{2}, []int64{1 << 61} }), dlpack.ErrOverflow, "R034"},
	{"R039 below address 0", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{2000}, []int64{-1} }), dlpack.ErrOverflow, "R039"},
	{"R039 above the last address", tensor(func(d *dlpack.Desc) { d.Data = ^uintptr(7) }), dlpack.ErrOverflow, "R039"},
	{"R042 offset passes the end", tensor(func(d *dlpack.Desc) { d.ByteOffset = math.MaxUint64 - 3 }), dlpack.ErrOverflow, "R042"},
	{"R041 B067 data odd", tensor(func(d *dlpack.Desc) { d.Data++ }), dlpack.ErrAlign, "R041"},
	{"R041 B067 even data with odd offset", tensor(func(d *dlpack.Desc) { d.ByteOffset = 1 }), dlpack.ErrAlign, "R041"},
	{"B067 odd data with the offset that aligns it", tensor(func(d *dlpack.Desc) { d.Data, d.ByteOffset = 4097, 3 }), nil, ""},
	{"R045 B067 NULL with elements", tensor(func(d *dlpack.Desc) { d.Data = 0 }), dlpack.ErrNull, "R045"},
	{"R045 NULL scalar", tensor(func(d *dlpack.Desc) { d.Data, d.Shape, d.Strides = 0, nil, nil }), dlpack.ErrNull, "R045"},
	{"R044 B035 NULL without elements", tensor(func(d *dlpack.Desc) { d.Data, d.Shape = 0, []int64{0, 3} }), nil, ""},
	{"R044 B067 odd data without elements", tensor(func(d *dlpack.Desc) { d.Data, d.Shape = 1, []int64{0, 3} }), nil, ""},
	{"R038 opaque NULL", tensor(func(d *dlpack.Desc) { d.Data, d.Device.Type = 0, dlpack.DeviceMetal }), nil, ""},
	{"R038 opaque odd handle", tensor(func(d *dlpack.Desc) { d.Data, d.Device.Type = 3, dlpack.DeviceOpenCL }), nil, ""},
	{"R046 scalar", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = nil, nil }), nil, ""},
	{"R052 broadcast", tensor(func(d *dlpack.Desc) { d.Strides = []int64{0, 0} }), nil, ""},
	{"R053 B053 negative stride", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{8}, []int64{-1} }), nil, ""},
	{"R054 odd stride of an axis with one index", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{1, 3}, []int64{math.MinInt64, 1} }), nil, ""},
	{"R047 65 axes", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = ones(65), nil }), dlpack.ErrLayout, "R047"},
	{"64 axes", tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = ones(64), nil }), nil, ""},
	{"R049 too few strides", tensor(func(d *dlpack.Desc) { d.Strides = []int64{1} }), dlpack.ErrLayout, "R049"},
}

func ones(n int) []int64 {
	s := make([]int64, n)
	for i := range s {
		s[i] = 1
	}
	return s
}

func TestCheck(t *testing.T) {
	for _, c := range checkCases {
		t.Run(c.name, func(t *testing.T) {
			err := c.d.Check()
			if c.kind == nil {
				require.NoError(t, err)
				return
			}
			requireRule(t, err, c.kind, c.rule)
			require.True(t, strings.HasPrefix(err.Error(), "dlpack: check: "), err.Error())
		})
	}

	t.Run("B102 a negative stride is not an overflow", func(t *testing.T) {
		low := tensor(func(d *dlpack.Desc) { d.Data, d.Shape, d.Strides = 4, []int64{8}, []int64{-1} })
		require.Contains(t, low.Check().Error(), "outside of the address space")
		wrap := tensor(func(d *dlpack.Desc) { d.Shape, d.Strides = []int64{3}, []int64{math.MaxInt64} })
		require.Contains(t, wrap.Check().Error(), "reach of stride 9223372036854775807 of axis 0 does not fit")
	})
	t.Run("no allocation when valid", func(t *testing.T) {
		d := tensor(func(*dlpack.Desc) {})
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if d.Check() != nil {
				t.Fail()
			}
		}))
	})
}

func TestRowMajor(t *testing.T) {
	for _, c := range []struct {
		name        string
		shape, want []int64
	}{
		{"scalar", nil, nil},
		{"one axis", []int64{5}, []int64{1}},
		{"R050 B001 three axes", []int64{2, 3, 4}, []int64{12, 4, 1}},
		{"B027 zero first", []int64{0, 2048}, []int64{2048, 1}},
		{"B027 B031 zero inside", []int64{2, 0, 3}, []int64{3, 3, 1}},
		{"B027 all zero", []int64{0, 0, 0}, []int64{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := dlpack.RowMajor(nil, c.shape)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	t.Run("appends", func(t *testing.T) {
		got, err := dlpack.RowMajor([]int64{7}, []int64{2, 2})
		require.NoError(t, err)
		require.Equal(t, []int64{7, 2, 1}, got)
	})
	_, err := dlpack.RowMajor(nil, []int64{2, 1 << 62, 4})
	requireRule(t, err, dlpack.ErrOverflow, "R034")
	_, err = dlpack.RowMajor(nil, []int64{2, -1})
	requireRule(t, err, dlpack.ErrLayout, "R034")
}

func TestDesc(t *testing.T) {
	d := tensor(func(d *dlpack.Desc) { d.ByteOffset, d.Flags = 8, dlpack.FlagReadOnly })
	require.Equal(t, "float32[2 3] strides [3 1] at 0x1000+8 on cpu:0 read_only", d.String())
	require.EqualValues(t, 4104, d.Addr()) // R042
	require.EqualValues(t, 6, d.Size())
	e := d
	e.Strides = nil
	require.True(t, d.Equal(&e), "nil strides are row-major")
	e.ByteOffset = 0
	require.False(t, d.Equal(&e))
	var none dlpack.Desc
	none.ByteOffset = 5
	require.Zero(t, none.Addr())
	require.EqualValues(t, 1, none.Size())
}

// naiveReach walks every element.
func naiveReach(shape, strides []int64) (low, high int64) {
	offs := []int64{0}
	for i, n := range shape {
		var next []int64
		for k := range n {
			for _, o := range offs {
				next = append(next, o+k*strides[i])
			}
		}
		offs = next
	}
	for _, o := range offs {
		low, high = min(low, o), max(high, o)
	}
	return low, high
}

func TestCheckAddressRange(t *testing.T) {
	// B010: the range of a strided tensor comes from its strides. A tensor
	// whose lowest byte is at address 0 is accepted, one byte lower is not.
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 4).Draw(t, "ndim")
		d := dlpack.Desc{Device: dlpack.CPU, DType: dlpack.UInt8}
		for range n {
			d.Shape = append(d.Shape, rapid.Int64Range(1, 4).Draw(t, "extent"))
			d.Strides = append(d.Strides, rapid.Int64Range(-9, 9).Draw(t, "stride"))
		}
		low, high := naiveReach(d.Shape, d.Strides)
		d.Data = uintptr(-low)
		if d.Data == 0 {
			require.Error(t, d.Check())
		} else {
			require.NoError(t, d.Check())
			d.Data--
			require.Error(t, d.Check())
		}
		d.Data = ^uintptr(0) - uintptr(high) - 1
		require.NoError(t, d.Check())
		d.Data++
		require.ErrorIs(t, d.Check(), dlpack.ErrOverflow)
	})
}

// R038: what a device without addresses calls data has no arithmetic.
func TestDescAddr(t *testing.T) {
	d := dlpack.Desc{Data: 0x3000, ByteOffset: 0x30, Device: dlpack.Device{Type: dlpack.DeviceCPU}}
	require.Equal(t, uintptr(0x3030), d.Addr())
	d.Device.Type = dlpack.DeviceVulkan
	require.Equal(t, uintptr(0x3000), d.Addr())
	d.Data = 0
	require.Zero(t, d.Addr())
}
