package launch

import (
	"encoding/binary"
	"math"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
)

// TestValueBytes compares what is read through an interface with the values.
func TestValueBytes(t *testing.T) {
	type pair struct {
		A uint8
		B uint64
	}
	p := pair{1, 2}
	require.Equal(t, unsafe.Slice((*byte)(unsafe.Pointer(&p)), 16), valueBytes(p, 16))
	require.Equal(t, []byte{3}, valueBytes(uint8(3), 1))
	type one struct{ X uint64 }
	require.Equal(t, uint64(1<<40), binary.NativeEndian.Uint64(valueBytes(one{1 << 40}, 8)))
	require.Equal(t, uint32(77), binary.NativeEndian.Uint32(valueBytes([1]uint32{77}, 4)))
	b := new(device.Buffer)
	require.Same(t, b, lasting(b))
}

// unknown is a block for a kernel without a table of parameters.
func unknown(t *testing.T, n int) *block {
	t.Helper()
	b := newBlock(n, 256*n)
	if b == nil {
		t.Skip("needs C memory, which needs cgo on linux")
	}
	return b
}

// TestUnknownParameters packs as a C compiler would place the arguments.
func TestUnknownParameters(t *testing.T) {
	b := unknown(t, 5)
	for i, x := range []any{int8(1), int32(2), true, complex(3, 4), driver.DevicePtr(5)} {
		_, m := b.set(i, x)
		require.Nil(t, m)
	}
	require.Equal(t, []ParamInfo{{0, 1}, {4, 4}, {8, 1}, {16, 16}, {32, 8}}, b.own)
	for i, p := range b.own {
		require.Equal(t, b.mem.addr+b.base()+p.Offset, b.ptrs[i])
	}
	_, m := b.set(1, int32(9))
	require.Nil(t, m)
	require.Equal(t, uint32(9), binary.NativeEndian.Uint32(b.vals[4:]))
	_, m = b.set(1, int64(9))
	require.Equal(t, "int64 has 8 bytes, the parameter has 4", m.Error(), "a replacement keeps the size")
	b = unknown(t, 1)
	_, m = b.set(0, [300]byte{})
	require.Equal(t, "[300]uint8 has 300 bytes, which is more than a kernel without a table of parameters can take", m.Error())
}

func TestBlockLayout(t *testing.T) {
	b := unknown(t, 3)
	require.Zero(t, b.mem.addr%16)
	require.Equal(t, b.mem.addr, b.attrsAddr())
	require.Equal(t, uintptr(unsafe.Pointer(unsafe.SliceData(b.vals))), b.mem.addr+b.base())
	require.Equal(t, unsafe.Pointer(unsafe.SliceData(b.ptrs)), b.list())
	require.Len(t, b.attrs, maxAttributes)
}

func TestAttributes(t *testing.T) { // every attribute of a Config, by value
	c := Config{
		Cluster: D1(2), PreferredCluster: D1(4), Cooperative: true, ProgrammaticStreamSerialization: true, Priority: -3,
		ClusterPolicy: driver.ClusterSchedulingPolicySpread, MemSyncDomain: 1,
	}
	require.False(t, c.plain())
	require.True(t, (&Config{Grid: D1(1), Block: D1(1), SharedMem: 5, AllowPeer: true}).plain())
	var list [maxAttributes]driver.LaunchAttribute
	require.Equal(t, maxAttributes, c.attributes(list[:]))
	byID := map[int32]driver.LaunchAttributeValue{}
	for _, a := range list {
		byID[a.ID] = a.Value
	}
	require.Equal(t, driver.LaunchAttributeValue{2 | 1<<32, 1}, byID[driver.LaunchAttributeClusterDimension])
	require.Equal(t, driver.LaunchAttributeValue{4 | 1<<32, 1}, byID[driver.LaunchAttributePreferredClusterDimension])
	require.Equal(t, driver.LaunchAttributeValue{1}, byID[driver.LaunchAttributeCooperative])
	require.Equal(t, driver.LaunchAttributeValue{0xfffffffd}, byID[driver.LaunchAttributePriority])
	require.Equal(t, driver.LaunchAttributeValue{1}, byID[driver.LaunchAttributeMemSyncDomain])
	require.Len(t, byID, maxAttributes)
}

// FuzzPlain checks that the bytes of any plain struct arrive as they are.
func FuzzPlain(f *testing.F) {
	f.Add(int8(1), int16(2), int32(3), int64(4), 5.0, true)
	f.Fuzz(func(t *testing.T, a int8, b int16, c int32, d int64, e float64, g bool) {
		type all struct {
			A int8
			B int16
			C int32
			D int64
			E float64
			G bool
			_ [7]byte
		}
		x := all{A: a, B: b, C: c, D: d, E: e, G: g}
		blk := newBlock(1, int(unsafe.Sizeof(x)))
		if blk == nil {
			t.Skip("needs C memory")
		}
		blk.known, blk.params = true, []ParamInfo{{0, unsafe.Sizeof(x)}}
		_, m := blk.set(0, x)
		require.Nil(t, m)
		back := *(*all)(unsafe.Pointer(unsafe.SliceData(blk.vals)))
		require.True(t, reflect.DeepEqual(x, back) || e != e)
	})
}

// TestPackingAgainTogether packs values of two types for one kernel in many
// goroutines, which change what the kernel remembers under each other.
func TestPackingAgainTogether(t *testing.T) {
	table := newParamTable([]ParamInfo{{0, 8}, {8, 8}})
	if newCMemory(8) == nil {
		t.Skip("needs C memory, which needs cgo on linux")
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			b := newBlock(2, table.size)
			args := []any{int64(g), driver.DevicePtr(g + 100)}
			want := []uint64{uint64(g), uint64(g) + 100}
			if g%2 == 1 {
				args, want = []any{float64(g), float64(1 / (g + 1))}, []uint64{math.Float64bits(float64(g)), math.Float64bits(0)}
			}
			for range 2000 {
				b.aim(table)
				clear(b.vals)
				for i := b.again(0, args); i < len(args); i = b.again(i+1, args) {
					if _, m := b.set(i, args[i]); m != nil {
						t.Error(m)
					}
				}
				for i, w := range want {
					if v := binary.NativeEndian.Uint64(b.vals[8*i:]); v != w {
						t.Errorf("parameter %d of goroutine %d: %#x, want %#x", i, g, v, w)
						return
					}
				}
			}
		}()
	}
	all.Wait()
}

// TestOddTables makes room for parameters in any order, and for none that no
// kernel has.
func TestOddTables(t *testing.T) {
	odd := []ParamInfo{{100, 8}, {0, 4}}
	require.NoError(t, checkTable("k", odd))
	require.Equal(t, 108, newParamTable(odd).size)
	for _, p := range []ParamInfo{{1 << 40, 8}, {0, 1 << 40}, {math.MaxUint, 8}} {
		require.ErrorIs(t, checkTable("k", []ParamInfo{{0, 4}, p}), ErrImage)
	}
}
