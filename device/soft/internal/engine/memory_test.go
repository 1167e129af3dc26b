package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// onHeap is memory that does not move: a slice of constant size may lie on the stack.
func onHeap(n int) []byte {
	heapSink = make([]byte, n)
	return heapSink
}

var heapSink []byte

// Any sequence of allocations and frees against a model: no two overlap, nothing is lost, and in the
// end there is one free span again.
func TestArenaModel(t *testing.T) {
	const size = 1 << 20
	rapid.Check(t, func(t *rapid.T) {
		a, err := newArena(size)
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		type piece struct{ off, n uint64 }
		var live []piece
		used := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				a.release(live[i].off, live[i].n)
				used -= live[i].n
				live = append(live[:i], live[i+1:]...)
				continue
			}
			n := uint64(rapid.IntRange(1, 400).Draw(t, "blocks")) * allocGrain
			off, ok := a.alloc(n)
			if !ok {
				continue
			}
			for _, p := range live {
				if off < p.off+p.n && p.off < off+n {
					t.Fatalf("%d+%d overlaps %d+%d", off, n, p.off, p.n)
				}
			}
			b := a.bytes(a.pub+off, n)
			b[0], b[n-1] = 1, 1
			live = append(live, piece{off, n})
			used += n
			if a.left != size-used {
				t.Fatalf("left %d, want %d", a.left, size-used)
			}
		}
		for _, p := range live {
			a.release(p.off, p.n)
		}
		if len(a.free) != 1 || a.free[0] != (span{0, size}) {
			t.Fatalf("free list %v", a.free)
		}
	})
}

// A copy of any box between any kinds of memory against a copy byte by byte.
func TestCopyModel(t *testing.T) {
	r := newRig(t, Options{})
	const n = 4096
	dev := r.mem(t, n)
	dev2 := r.mem(t, n)
	pinned, c := r.HostAlloc(r.t, n, 0)
	good(t, c)
	managed, c := r.ManagedAlloc(r.t, n, 1)
	good(t, c)
	registered := onHeap(n)
	good(t, r.HostRegister(r.t, addrOf(registered), n, 0))
	pageable, pageable2 := onHeap(n), onHeap(n)
	places := map[string]uint64{
		"device": dev, "device 2": dev2, "pinned": pinned, "managed": managed,
		"registered": addrOf(registered), "pageable": addrOf(pageable), "pageable 2": addrOf(pageable2),
	}
	names := []string{"device", "device 2", "pinned", "managed", "registered", "pageable", "pageable 2"}
	view := func(name string) []byte {
		m, c := r.resolve(places[name], n, TypeUnified)
		good(t, c)
		return m.b
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(names).Draw(t, "from")
		to := rapid.SampledFrom(names).Filter(func(s string) bool { return s != from }).Draw(t, "to")
		w := rapid.Uint64Range(0, 20).Draw(t, "width")
		h := rapid.Uint64Range(0, 5).Draw(t, "height")
		d := rapid.Uint64Range(0, 4).Draw(t, "depth")
		side := func(name, label string) CopySide {
			s := CopySide{Type: TypeUnified, Addr: places[name]}
			s.X = rapid.Uint64Range(0, 5).Draw(t, label+" x")
			s.Y = rapid.Uint64Range(0, 2).Draw(t, label+" y")
			s.Z = rapid.Uint64Range(0, 1).Draw(t, label+" z")
			s.Pitch = s.X + w + rapid.Uint64Range(0, 7).Draw(t, label+" pitch")
			s.Height = s.Y + h + rapid.Uint64Range(0, 2).Draw(t, label+" height")
			return s
		}
		cp := Copy{Src: side(from, "source"), Dst: side(to, "target"), Width: w, Height: h, Depth: d}
		src, dst := view(from), view(to)
		for i := range src {
			src[i], dst[i] = byte(i*7+3), 0xee
		}
		want := bytes.Clone(dst)
		off := func(s CopySide, x, y, z uint64) uint64 {
			return ((z+s.Z)*s.Height+y+s.Y)*s.Pitch + x + s.X
		}
		for z := range d {
			for y := range h {
				for x := range w {
					want[off(cp.Dst, x, y, z)] = src[off(cp.Src, x, y, z)]
				}
			}
		}
		if c := r.MemcpyAsync(r.t, cp, StreamLegacy); c != Success {
			t.Fatal(c)
		}
		if c := r.StreamSynchronize(r.t, StreamLegacy); c != Success {
			t.Fatal(c)
		}
		if !bytes.Equal(want, dst) {
			t.Fatal("wrong bytes")
		}
	})
	good(t, r.HostUnregister(r.t, addrOf(registered)))
	good(t, r.HostFree(r.t, pinned))
	good(t, r.MemFree(r.t, managed))
	good(t, r.MemFree(r.t, dev))
	good(t, r.MemFree(r.t, dev2))
}

func TestHostileCopies(t *testing.T) {
	r := newRig(t, Options{})
	p := r.mem(t, 1024)
	host := onHeap(1024)
	big := ^uint64(0)
	for name, c := range map[string]Copy{
		"address wraps":        {Src: CopySide{Type: TypeDevice, Addr: big - 3}, Dst: CopySide{Type: TypeDevice, Addr: p}, Width: 64, Height: 1, Depth: 1},
		"width wraps":          {Src: CopySide{Type: TypeDevice, Addr: p, X: 8}, Dst: CopySide{Type: TypeDevice, Addr: p}, Width: big, Height: 1, Depth: 1},
		"height times pitch":   {Src: CopySide{Type: TypeDevice, Addr: p, Pitch: 1 << 40}, Dst: CopySide{Type: TypeDevice, Addr: p, Pitch: 1 << 40}, Width: 8, Height: 1 << 40, Depth: 1},
		"depth times slice":    {Src: CopySide{Type: TypeDevice, Addr: p, Pitch: 1 << 20, Height: 1 << 20}, Dst: CopySide{Type: TypeDevice, Addr: p, Pitch: 1 << 20, Height: 1 << 20}, Width: 8, Height: 2, Depth: 1 << 40},
		"y times pitch":        {Src: CopySide{Type: TypeDevice, Addr: p, Pitch: 1 << 33, Y: 1 << 33}, Dst: CopySide{Type: TypeDevice, Addr: p, Pitch: 64}, Width: 8, Height: 2, Depth: 1},
		"unknown type":         {Src: CopySide{Type: 9, Addr: p}, Dst: CopySide{Type: TypeDevice, Addr: p}, Width: 8, Height: 1, Depth: 1},
		"null":                 {Src: CopySide{Type: TypeHost}, Dst: CopySide{Type: TypeDevice, Addr: p}, Width: 8, Height: 1, Depth: 1},
		"past the end":         Linear(p, TypeDevice, addrOf(host), TypeHost, 1025),
		"device memory unused": Linear(p, TypeDevice, r.devices[0].arena.pub+32<<20, TypeUnified, 8),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, InvalidValue, r.MemcpyAsync(r.t, c, StreamLegacy))
			require.Equal(t, InvalidValue, r.Memcpy(r.t, c, StreamLegacy))
		})
	}
	t.Run("an address that is not mapped", func(t *testing.T) {
		require.Equal(t, InvalidValue, r.MemcpyAsync(r.t, Linear(p, TypeDevice, 8192, TypeHost, 64), StreamLegacy))
	})
	for name, s := range map[string]Set{
		"element 3":   {Dst: p, Elem: 3, Width: 1, Height: 1},
		"width wraps": {Dst: p, Elem: 4, Width: 1 << 62, Height: 1},
		"rows wrap":   {Dst: p, Elem: 4, Pitch: 1 << 40, Width: 1, Height: 1 << 40},
		"past":        {Dst: p, Elem: 4, Width: 257, Height: 1},
	} {
		t.Run("memset "+name, func(t *testing.T) {
			require.Equal(t, InvalidValue, r.MemsetAsync(r.t, s, StreamLegacy))
		})
	}
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	good(t, r.MemFree(r.t, p))
}

// B216: a synchronous copy from pageable memory has staged the bytes when it returns; the copy
// itself may still be on its way. B220: a copy to pageable memory has landed.
func TestWhenCopiesReturn(t *testing.T) {
	r := newRig(t, Options{})
	p := r.mem(t, 64)
	host := onHeap(64)
	copy(host, bytes.Repeat([]byte{1}, 64))
	open := r.block(t, StreamLegacy)
	good(t, r.Memcpy(r.t, Linear(p, TypeDevice, addrOf(host), TypeHost, 64), StreamLegacy)) // does not hang
	clear(host)                                                                             // the bytes are safe
	require.Equal(t, NotReady, r.StreamQuery(r.t, StreamLegacy))
	open()
	back := onHeap(64)
	good(t, r.MemcpyAsync(r.t, Linear(addrOf(back), TypeHost, p, TypeDevice, 64), StreamLegacy))
	require.Equal(t, bytes.Repeat([]byte{1}, 64), back)

	pinned, c := r.HostAlloc(r.t, 64, 0)
	good(t, c)
	open = r.block(t, StreamLegacy)
	m, _ := r.resolve(pinned, 64, TypeHost)
	m.b[0] = 9
	good(t, r.MemcpyAsync(r.t, Linear(p, TypeDevice, pinned, TypeHost, 64), StreamLegacy)) // asynchronous, not staged
	m.b[0] = 10
	open()
	good(t, r.StreamSynchronize(r.t, StreamLegacy))
	require.Equal(t, byte(10), r.bytes(t, p, 64)[0])
	good(t, r.HostFree(r.t, pinned))
	good(t, r.MemFree(r.t, p))
}

func TestPointerKinds(t *testing.T) {
	r := newRig(t, Options{})
	p := r.mem(t, 100)
	pinned, c := r.HostAlloc(r.t, 100, 0)
	good(t, c)
	managed, c := r.ManagedAlloc(r.t, 100, 1)
	good(t, c)
	pool, c := r.MemAllocAsync(r.t, 100, 0, StreamLegacy)
	good(t, c)
	buf := onHeap(100)
	for _, tc := range []struct {
		name       string
		addr       uint64
		known      bool
		typ        int32
		managed    bool
		dev        int32
		host, pool bool
	}{
		{"device", p + 50, true, 2, false, 0, false, false},
		{"B263 pinned", pinned + 50, true, 1, false, 0, true, false},
		{"B263 managed", managed + 50, true, 2, true, 0, true, false},
		{"pool", pool + 50, true, 2, false, 0, false, true},
		{"B271 pageable", addrOf(buf), false, 0, false, -2, true, false},
		{"one past", p + 100, false, 0, false, -2, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			i := r.Pointer(tc.addr)
			require.Equal(t, tc.known, i.Known)
			require.Equal(t, tc.typ, i.MemoryType)
			require.Equal(t, tc.managed, i.Managed)
			require.Equal(t, tc.dev, i.Device)
			require.Equal(t, tc.host, i.HostPtr == tc.addr)
			require.Equal(t, tc.pool, i.Pool != 0)
			if tc.known {
				require.Equal(t, tc.addr-50, i.Base)
				require.EqualValues(t, 100, i.Size)
			}
		})
	}
	t.Run("B294 the base of an interior pointer is known", func(t *testing.T) {
		base, n, c := r.AddressRange(r.t, p+99)
		good(t, c)
		require.Equal(t, p, base)
		require.EqualValues(t, 100, n)
		require.Equal(t, InvalidValue, r.MemFree(r.t, p+8))
	})
	good(t, r.MemFreeAsync(r.t, pool, StreamLegacy))
	good(t, r.MemFree(r.t, managed))
	good(t, r.HostFree(r.t, pinned))
	good(t, r.MemFree(r.t, p))
}

func TestOutOfMemory(t *testing.T) {
	r := newRig(t, Options{Memory: 8 << 20})
	a := r.mem(t, 5<<20)
	_, c := r.MemAlloc(r.t, 5<<20)
	require.Equal(t, OutOfMemory, c)
	_, c = r.MemAllocAsync(r.t, 5<<20, 0, StreamLegacy)
	require.Equal(t, OutOfMemory, c)
	free, total, c := r.MemInfo(r.t)
	good(t, c)
	require.EqualValues(t, 8<<20, total)
	require.EqualValues(t, 3<<20, free)
	good(t, r.MemFree(r.t, a))
	t.Run("what pools keep is given up first", func(t *testing.T) {
		h, _ := r.DefaultPool(0)
		good(t, r.PoolSetAttribute(h, PoolReleaseThreshold, ^uint64(0)))
		p, c := r.MemAllocAsync(r.t, 6<<20, 0, StreamLegacy)
		good(t, c)
		good(t, r.MemFreeAsync(r.t, p, StreamLegacy))
		good(t, r.StreamSynchronize(r.t, StreamLegacy))
		v, _, _ := r.PoolAttribute(h, PoolReservedCurrent)
		require.EqualValues(t, 6<<20, v)
		a := r.mem(t, 5<<20)
		v, _, _ = r.PoolAttribute(h, PoolReservedCurrent)
		require.Zero(t, v)
		good(t, r.MemFree(r.t, a))
	})
}

// Reuse in a pool, in stream order.
func TestPoolReuse(t *testing.T) {
	for _, tc := range []struct {
		name                     string
		follow, opport, internal bool
		edge, done               bool
		reuse, waits             bool
	}{
		{"an edge by an event", true, false, false, true, false, true, false},
		{"the edge is not followed", false, false, false, true, false, false, false},
		{"the free is over", false, true, false, false, true, true, false},
		{"opportunistic reuse is off", false, false, false, false, true, false, false},
		{"an edge of the pool's own", false, false, true, false, false, true, true},
		{"nothing orders them", true, true, false, false, false, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Options{})
			h, _ := r.DefaultPool(0)
			good(t, r.PoolSetAttribute(h, PoolReleaseThreshold, ^uint64(0)))
			good(t, r.PoolSetAttribute(h, PoolReuseFollowEvents, b2u(tc.follow)))
			good(t, r.PoolSetAttribute(h, PoolReuseOpportunistic, b2u(tc.opport)))
			good(t, r.PoolSetAttribute(h, PoolReuseInternalDeps, b2u(tc.internal)))
			a, b := r.stream(t, 1), r.stream(t, 1)
			p, c := r.MemAllocAsync(r.t, chunkGrain, 0, a)
			good(t, c)
			open := r.block(t, a)
			good(t, r.MemFreeAsync(r.t, p, a))
			if tc.edge {
				ev := r.event(t, EventDisableTiming)
				good(t, r.EventRecord(r.t, ev, a, 0))
				good(t, r.StreamWaitEvent(r.t, b, ev, 0))
				good(t, r.EventDestroy(r.t, ev))
			}
			if tc.done {
				open()
				good(t, r.StreamSynchronize(r.t, a))
			}
			q, c := r.MemAllocAsync(r.t, chunkGrain, 0, b)
			good(t, c)
			require.Equal(t, tc.reuse, p == q)
			if !tc.edge {
				want := Success
				if tc.waits {
					want = NotReady
				}
				require.Equal(t, want, r.StreamQuery(r.t, b))
			}
			if !tc.done {
				open()
			}
			good(t, r.MemFreeAsync(r.t, q, b))
			good(t, r.CtxSynchronize(r.t))
			good(t, r.StreamDestroy(r.t, a))
			good(t, r.StreamDestroy(r.t, b))
		})
	}
	t.Run("the same stream reuses at once", func(t *testing.T) {
		r := newRig(t, Options{})
		s := r.stream(t, 1)
		open := r.block(t, s)
		p, c := r.MemAllocAsync(r.t, 4096, 0, s)
		good(t, c)
		good(t, r.MemFreeAsync(r.t, p, s))
		require.Equal(t, InvalidValue, r.MemFreeAsync(r.t, p, s), "freed already, for the caller")
		q, c := r.MemAllocAsync(r.t, 4096, 0, s)
		good(t, c)
		require.Equal(t, p, q)
		open()
		good(t, r.StreamSynchronize(r.t, s))
		require.True(t, r.Pointer(q).Known, "the queued free of the first does not take the second away")
		good(t, r.MemFreeAsync(r.t, q, s))
		good(t, r.StreamDestroy(r.t, s))
	})
}

// Any sequence of stream-ordered allocations, frees and synchronisations on some streams: live
// blocks do not overlap, and the books are right.
func TestPoolModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, Options{Memory: 32 << 20})
		h, _ := r.DefaultPool(0)
		good(t, r.PoolSetAttribute(h, PoolReleaseThreshold, uint64(rapid.IntRange(0, 2).Draw(rt, "keep"))<<21))
		var ss []Handle
		for range 3 {
			ss = append(ss, r.stream(t, 1))
		}
		type piece struct{ p, n uint64 }
		var live []piece
		used := uint64(0)
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			s := rapid.SampledFrom(ss).Draw(rt, "stream")
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				n := uint64(rapid.IntRange(1, 3<<20).Draw(rt, "size"))
				p, c := r.MemAllocAsync(r.t, n, 0, s)
				if c == OutOfMemory {
					continue
				}
				good(t, c)
				for _, l := range live {
					if p < l.p+l.n && l.p < p+n {
						rt.Fatalf("%#x+%d overlaps %#x+%d", p, n, l.p, l.n)
					}
				}
				good(t, r.MemsetAsync(r.t, Set{Dst: p, Elem: 1, Width: n, Height: 1}, s))
				live = append(live, piece{p, n})
				rounded, _ := roundUp(n, allocGrain)
				used += rounded
			case 2, 3:
				if len(live) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(live)-1).Draw(rt, "which")
				good(t, r.MemFreeAsync(r.t, live[i].p, s))
				rounded, _ := roundUp(live[i].n, allocGrain)
				used -= rounded
				live = append(live[:i], live[i+1:]...)
			case 4:
				good(t, r.StreamSynchronize(r.t, s))
			}
			v, _, _ := r.PoolAttribute(h, PoolUsedCurrent)
			if v != used {
				rt.Fatalf("used %d, want %d", v, used)
			}
		}
		for _, l := range live {
			good(t, r.MemFreeAsync(r.t, l.p, ss[0]))
		}
		good(t, r.CtxSynchronize(r.t))
		good(t, r.PoolTrimTo(r.t, h, 0))
		if v, _, _ := r.PoolAttribute(h, PoolReservedCurrent); v != 0 {
			rt.Fatalf("reserved %d in the end", v)
		}
		for _, s := range ss {
			good(t, r.StreamDestroy(r.t, s))
		}
		good(t, r.PrimaryRelease(0))
		if l := r.Live(); l != (Live{}) {
			rt.Fatal(fmt.Sprintf("left over: %+v", l))
		}
		_, c := r.PrimaryRetain(0)
		good(t, c)
	})
}

func TestPoolDestroyedInUse(t *testing.T) {
	r := newRig(t, Options{})
	h, c := r.PoolCreate(PoolProps{AllocType: 1, LocKind: locDevice})
	good(t, c)
	p, c := r.MemAllocAsync(r.t, 64, h, StreamLegacy)
	good(t, c)
	good(t, r.PoolDestroy(h))
	good(t, r.MemsetAsync(r.t, Set{Dst: p, Elem: 1, Width: 64, Height: 1}, StreamLegacy))
	good(t, r.MemFreeAsync(r.t, p, StreamLegacy))
	good(t, r.CtxSynchronize(r.t))
	free, total, c := r.MemInfo(r.t)
	good(t, c)
	require.Equal(t, total, free)
}

func TestHostPools(t *testing.T) {
	r := newRig(t, Options{})
	for _, props := range []PoolProps{{AllocType: 1, LocKind: locHost}, {AllocType: 2, LocKind: locDevice, LocID: 1}, {AllocType: 2}} {
		h, c := r.PoolCreate(props)
		good(t, c)
		p, c := r.MemAllocAsync(r.t, 100, h, StreamLegacy)
		good(t, c)
		good(t, r.Memset(r.t, Set{Dst: p, Value: 3, Elem: 1, Width: 100, Height: 1}, StreamLegacy))
		require.Equal(t, byte(3), hostBytes(p, 100)[99], "the host reads it at its address")
		require.Equal(t, props.AllocType == 2, r.Pointer(p).Managed)
		good(t, r.MemFreeAsync(r.t, p, StreamLegacy))
		good(t, r.CtxSynchronize(r.t))
		good(t, r.PoolDestroy(h))
	}
}

func TestDestroyedPoolsAreForgotten(t *testing.T) {
	r := newRig(t, Options{})
	before := len(r.devices[0].poolSet)
	for range 3 {
		h, c := r.PoolCreate(PoolProps{AllocType: 1, LocKind: locDevice})
		good(t, c)
		p, c := r.MemAllocAsync(r.t, 64, h, StreamLegacy)
		good(t, c)
		open := r.block(t, StreamLegacy)
		good(t, r.MemFreeAsync(r.t, p, StreamLegacy))
		good(t, r.PoolDestroy(h))
		open()
		good(t, r.StreamSynchronize(r.t, StreamLegacy))
		h, c = r.PoolCreate(PoolProps{AllocType: 1, LocKind: locDevice})
		good(t, c)
		good(t, r.PoolDestroy(h))
	}
	require.Len(t, r.devices[0].poolSet, before)
}
