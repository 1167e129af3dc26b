package dlpack

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// TestMirrors compares the Go mirrors with the numbers of the specification.
// check.c asserts the same of the C structs.
func TestMirrors(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the mirrors are used with 8-byte pointers only")
	}
	at := func(name string, want, got uintptr) {
		t.Helper()
		require.Equal(t, want, got, name)
	}
	t.Run("R001 B018 B020 DLTensor", func(t *testing.T) {
		var x cTensor
		at("size", 48, unsafe.Sizeof(x))
		at("data", 0, unsafe.Offsetof(x.data))
		at("device", 8, unsafe.Offsetof(x.device))
		at("ndim", 16, unsafe.Offsetof(x.ndim))
		at("ndim size", 4, unsafe.Sizeof(x.ndim))
		at("dtype", 20, unsafe.Offsetof(x.dtype))
		at("shape", 24, unsafe.Offsetof(x.shape))
		at("strides", 32, unsafe.Offsetof(x.strides))
		at("byte_offset", 40, unsafe.Offsetof(x.byteOffset))
	})
	t.Run("R002 DLManagedTensor", func(t *testing.T) {
		var x cManaged
		at("size", 64, unsafe.Sizeof(x))
		at("dl_tensor", 0, unsafe.Offsetof(x.tensor))
		at("manager_ctx", 48, unsafe.Offsetof(x.managerCtx))
		at("deleter", 56, unsafe.Offsetof(x.deleter))
	})
	t.Run("R003 DLManagedTensorVersioned", func(t *testing.T) {
		var x cManagedVersioned
		at("size", 80, unsafe.Sizeof(x))
		at("version", 0, unsafe.Offsetof(x.version))
		at("manager_ctx", 8, unsafe.Offsetof(x.managerCtx))
		at("deleter", 16, unsafe.Offsetof(x.deleter))
		at("flags", 24, unsafe.Offsetof(x.flags))
		at("dl_tensor", 32, unsafe.Offsetof(x.tensor))
		at("dl_tensor constant", versionedTensorOffset, unsafe.Offsetof(x.tensor))
	})
	t.Run("R004 DLDevice", func(t *testing.T) {
		var x Device
		at("size", 8, unsafe.Sizeof(x))
		at("device_type", 0, unsafe.Offsetof(x.Type))
		at("device_id", 4, unsafe.Offsetof(x.ID))
	})
	t.Run("R005 DLDataType", func(t *testing.T) {
		var x DataType
		at("size", 4, unsafe.Sizeof(x))
		at("align", 2, unsafe.Alignof(x))
		at("code", 0, unsafe.Offsetof(x.Code))
		at("bits", 1, unsafe.Offsetof(x.Bits))
		at("lanes", 2, unsafe.Offsetof(x.Lanes))
	})
	t.Run("DLPackVersion", func(t *testing.T) {
		var x Version
		at("size", 8, unsafe.Sizeof(x))
		at("major", 0, unsafe.Offsetof(x.Major))
		at("minor", 4, unsafe.Offsetof(x.Minor))
	})
	t.Run("R089 DLPackExchangeAPI", func(t *testing.T) {
		var x cExchange
		at("size", 56, unsafe.Sizeof(x))
		at("header", 16, unsafe.Sizeof(x.header))
		at("prev_api", 8, unsafe.Offsetof(x.header.prevAPI))
		at("allocator", 16, unsafe.Offsetof(x.allocator))
		at("from_py", 24, unsafe.Offsetof(x.fromPyObject))
		at("to_py", 32, unsafe.Offsetof(x.toPyObject))
		at("borrow", 40, unsafe.Offsetof(x.borrowTensor))
		at("stream", 48, unsafe.Offsetof(x.currentStream))
	})
}

func TestRuleNames(t *testing.T) {
	require.Equal(t, "R008", ruleName(8))
	require.Equal(t, "R012", ruleName(12))
	require.Equal(t, "R144", ruleName(144))
}

func TestEveryProblemHasText(t *testing.T) {
	for w := whatVersion; w <= whatStrides; w++ {
		require.NotEmpty(t, problem{kind: kindLayout, what: w}.detail(), "what %d", w)
	}
	require.Empty(t, problem{}.detail())
}

func TestMulAdd(t *testing.T) {
	const lo, hi = -1 << 63, 1<<63 - 1
	for _, c := range []struct {
		a, b int64
		ok   bool
	}{{0, lo, true}, {lo, 0, true}, {1, lo, true}, {-1, lo, false}, {lo, -1, false}, {-1, hi, true}, {2, 1 << 62, false}, {2, -1 << 62, true}, {hi, hi, false}, {lo, lo, false}} {
		p, ok := mulInt64(c.a, c.b)
		require.Equal(t, c.ok, ok, "%d*%d", c.a, c.b)
		if ok {
			require.Equal(t, c.a*c.b, p)
		}
	}
	for _, c := range []struct {
		a, b int64
		ok   bool
	}{{hi, 0, true}, {hi, 1, false}, {lo, -1, false}, {lo, hi, true}, {lo, lo, false}, {0, lo, true}, {hi, hi, false}} {
		_, ok := addInt64(c.a, c.b)
		require.Equal(t, c.ok, ok, "%d+%d", c.a, c.b)
	}
}

func TestOwnerTable(t *testing.T) {
	// B340 B348: handles are numbers with a generation.
	var tab ownerTable
	ran := 0
	a := tab.add(nil, func() { ran++ })
	b := tab.add(nil, nil)
	require.NotEqual(t, a, b)
	require.EqualValues(t, 2, tab.count())
	tab.last(a)
	tab.last(a)
	require.Equal(t, 1, ran, "the second call finds nothing")
	c := tab.add(nil, func() { ran += 10 })
	require.Equal(t, uint32(a), uint32(c), "the slot is used again")
	tab.last(a)
	require.Equal(t, 1, ran, "a stale handle does not reach the new content")
	tab.last(c)
	require.Equal(t, 11, ran)
	tab.last(0)
	tab.last(1 << 40)
	tab.last(^uint64(0))
	tab.last(b)
	require.Zero(t, tab.count())
}
