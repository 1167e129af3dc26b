package launch

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// drawn is an argument with the bytes that it should become.
type drawn struct {
	x           any
	want        []byte
	size, align int
}

func drawArg(t *rapid.T) drawn {
	var x any
	align := 0
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0:
		x = rapid.Bool().Draw(t, "x")
	case 1:
		x = rapid.Int8().Draw(t, "x")
	case 2:
		x = rapid.Uint8().Draw(t, "x")
	case 3:
		x = rapid.Int16().Draw(t, "x")
	case 4:
		x = rapid.Uint16().Draw(t, "x")
	case 5:
		x = rapid.Int32().Draw(t, "x")
	case 6:
		x = rapid.Uint32().Draw(t, "x")
	case 7:
		x = rapid.Int64().Draw(t, "x")
	case 8:
		x = rapid.Uint64().Draw(t, "x")
	case 9:
		x = rapid.Float32().Draw(t, "x")
	case 10:
		x = rapid.Float64().Draw(t, "x")
	case 11:
		x, align = complex(rapid.Float32().Draw(t, "re"), rapid.Float32().Draw(t, "im")), 8
	case 12:
		x, align = complex(rapid.Float64().Draw(t, "re"), rapid.Float64().Draw(t, "im")), 16
	case 13:
		type pair struct {
			A int32
			B [3]int16
			_ [2]byte
		}
		x, align = pair{A: rapid.Int32().Draw(t, "a"), B: [3]int16{rapid.Int16().Draw(t, "b")}}, 4
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, x); err != nil {
		t.Fatal(err)
	}
	if align == 0 {
		align = b.Len()
	}
	return drawn{x, b.Bytes(), b.Len(), align}
}

// TestPackingIsTheModel packs any list of arguments, with the kernel's table
// and without, and compares the bytes with those of encoding/binary at the
// places where C puts them.
func TestPackingIsTheModel(t *testing.T) {
	if newCMemory(8) == nil {
		t.Skip("needs C memory, which needs cgo on linux")
	}
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.Custom(drawArg), 1, 40).Draw(t, "args")
		var table []ParamInfo
		end := 0
		for _, a := range args {
			end = (end + a.align - 1) / a.align * a.align
			table = append(table, ParamInfo{Offset: uintptr(end), Size: uintptr(a.size)})
			end += a.size
		}
		for _, known := range []bool{true, false} {
			b := newBlock(len(args), max(end, 256*len(args)))
			if known {
				b.known, b.params = true, table
				b.point()
			}
			for i, a := range args {
				at, m := b.set(i, a.x)
				require.Nil(t, m)
				require.Zero(t, at)
			}
			if !known {
				require.Equal(t, table, b.own)
			}
			first := b.mem.addr + b.base()
			for i, a := range args {
				p := table[i]
				require.Equal(t, a.want, b.vals[p.Offset:p.Offset+p.Size])
				require.Equal(t, first+p.Offset, b.ptrs[i])
			}
			// Another size is refused, and changes nothing.
			i := rapid.IntRange(0, len(args)-1).Draw(t, "index")
			if args[i].size != 8 {
				before := bytes.Clone(b.vals)
				_, m := b.set(i, driver.DevicePtr(1))
				require.NotNil(t, m)
				require.Equal(t, before, b.vals)
			}
		}
	})
}

// TestPackingAgain packs two lists of arguments for one kernel, one after the
// other in any order: those of a type that a parameter has had, all but bool,
// go the short way, and what is packed is the same as without it.
func TestPackingAgain(t *testing.T) {
	if newCMemory(8) == nil {
		t.Skip("needs C memory, which needs cgo on linux")
	}
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SliceOfN(rapid.Custom(drawArg), 1, 20).Draw(t, "first")
		second := make([]drawn, len(first))
		var params []ParamInfo
		end := 0
		for i, a := range first {
			end = (end + 15) / 16 * 16
			params = append(params, ParamInfo{Offset: uintptr(end), Size: uintptr(a.size)})
			end += a.size
			// One of the same size: often of another type.
			second[i] = rapid.Custom(drawArg).Filter(func(b drawn) bool { return b.size == a.size }).Draw(t, "second")
		}
		table := newParamTable(params)
		require.LessOrEqual(t, end, table.size)
		b := newBlock(len(first), table.size)
		had := make([]reflect.Type, len(first))
		for _, list := range rapid.SliceOfN(rapid.SampledFrom([][]drawn{first, second}), 1, 6).Draw(t, "order") {
			b.aim(table)
			clear(b.vals)
			args := make([]any, len(list))
			for i, a := range list {
				args[i] = a.x
			}
			long := map[int]bool{}
			for i := b.again(0, args); i < len(args); i = b.again(i+1, args) {
				at, m := b.set(i, args[i])
				require.Nil(t, m)
				require.Zero(t, at)
				long[i] = true
			}
			first := b.mem.addr + b.base()
			for i, a := range list {
				p := params[i]
				require.Equal(t, a.want, b.vals[p.Offset:p.Offset+p.Size])
				require.Equal(t, first+p.Offset, b.ptrs[i])
				typ := reflect.TypeOf(a.x)
				require.Equal(t, had[i] != typ, long[i], "%v after %v", typ, had[i])
				if typ.Kind() != reflect.Bool { // a bool is looked at each time (B237)
					had[i] = typ
				}
			}
		}
	})
}

// TestNarrowIsTheModel compares the checks with conversions there and back.
func TestNarrowIsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Int64().Draw(t, "x")
		u := rapid.Uint64().Draw(t, "u")
		for _, c := range []struct {
			n  Number
			ok bool
		}{
			{Int8(x), int64(int8(x)) == x},
			{Int16(x), int64(int16(x)) == x},
			{Int32(x), int64(int32(x)) == x},
			{Int64(x), true},
			{Uint8(x), int64(uint8(x)) == x},
			{Uint16(x), int64(uint16(x)) == x},
			{Uint32(x), int64(uint32(x)) == x},
			{Uint64(x), x >= 0},
			{Int8(u), u <= 127},
			{Int16(u), u <= 32767},
			{Int32(u), u <= 1<<31-1},
			{Int64(u), u <= 1<<63-1},
			{Uint8(u), uint64(uint8(u)) == u},
			{Uint16(u), uint64(uint16(u)) == u},
			{Uint32(u), uint64(uint32(u)) == u},
			{Uint64(u), true},
		} {
			require.Equal(t, c.ok, !c.n.lost, "%+v", c.n)
		}
	})
}

// TestFitsIsTheModel compares the quick look at a configuration with the check
// that finds out what is wrong.
func TestFitsIsTheModel(t *testing.T) {
	k, dev := &Kernel{info: &kernelInfo{name: "k"}}, new(device.Device)
	most := deviceLimits{block: Dim3{1024, 1024, 64}, grid: Dim3{math.MaxInt32, 65535, 65535}, threads: 1024, shared: 48 << 10, sharedOptIn: 227 << 10}
	rapid.Check(t, func(t *rapid.T) {
		l := &kernelLimits{dev: &most, grid: most.grid, block: most.block, threads: rapid.SampledFrom([]int{128, 1024}).Draw(t, "threads")}
		l.most = min(l.threads, most.threads)
		l.dynamic.Store(int64(most.sharedOptIn))
		extent := rapid.OneOf(
			rapid.IntRange(-2, 3), rapid.IntRange(60, 70), rapid.IntRange(1020, 1030), rapid.IntRange(65530, 65540),
			rapid.SampledFrom([]int{math.MinInt, math.MinInt + 1, math.MaxInt, math.MaxInt32, math.MaxInt32 + 1, 1 << 62, 1 << 32, -1 << 32}),
		)
		dim := rapid.Custom(func(t *rapid.T) Dim3 { return Dim3{extent.Draw(t, "x"), extent.Draw(t, "y"), extent.Draw(t, "z")} })
		c := Config{Grid: dim.Draw(t, "grid"), Block: dim.Draw(t, "block"), SharedMem: rapid.IntRange(math.MinInt, most.sharedOptIn).Draw(t, "shared")}
		if rapid.Bool().Draw(t, "small") {
			c.Block = Dim3{rapid.IntRange(1, 40).Draw(t, "x"), rapid.IntRange(0, 6).Draw(t, "y"), rapid.IntRange(0, 6).Draw(t, "z")}
		}
		if rapid.Bool().Draw(t, "no shared") {
			c.SharedMem = 0
		}
		var quick, full driver.LaunchConfig
		fits := c.fits(l, &quick)
		skip, err := c.check(k, dev, l, &full)
		require.Equal(t, err == nil && !skip, fits, "%+v: %v", c, err)
		if fits {
			require.Equal(t, full, quick)
		}
	})
}
