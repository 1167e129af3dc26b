//go:build cgo && linux

package driver_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

// TestCheckedMemory is the checking layer's view of where memory comes from and where it goes: what others
// made, at addresses where this process had memory before, has no history of that.
func TestCheckedMemory(t *testing.T) {
	// The same library twice: the second driver's calls pass the layer by, as those of other libraries do.
	d, err := driver.Open(&driver.Options{Provider: driver.ProviderCUDA, Path: stub(t, "-DSTUB_MEMORY"), Check: true})
	require.NoError(t, err)
	plain := open(t, "-DSTUB_MEMORY")
	const unit, capturing = 0x1000, driver.StreamHandle(0xCAB)
	var ctx driver.ContextHandle
	var a, b driver.StreamHandle
	place := 0 // each case has memory at a place of its own
	at := func() uintptr { return uintptr(place) * unit }
	handles := driver.StreamHandle(0x1000)
	ok := func(res driver.Result) {
		t.Helper()
		require.NoError(t, res.Err())
	}
	alloc := func(d *driver.Driver) driver.DevicePtr {
		t.Helper()
		p, res := d.MemAllocAsync(ctx, at(), a)
		ok(res)
		return p
	}
	free := func(p driver.DevicePtr, s driver.StreamHandle) { t.Helper(); ok(d.MemFreeAsync(ctx, p, s)) }
	set := func(p driver.DevicePtr, s driver.StreamHandle) {
		t.Helper()
		ok(d.MemsetD8Async(ctx, p, 1, 16, s))
	}
	// freed is where memory was that has been allocated, used and freed on a.
	freed := func() driver.DevicePtr {
		t.Helper()
		p := alloc(d)
		set(p, a)
		free(p, a)
		return p
	}
	load := func(p driver.DevicePtr) (data driver.MemPoolPtrExport) {
		binary.LittleEndian.PutUint64(data[:], uint64(p))
		return data
	}
	open := func(p driver.DevicePtr) {
		t.Helper()
		var h driver.IPCMemHandle
		binary.LittleEndian.PutUint64(h[:], uint64(p))
		q, res := d.IpcOpenMemHandle(ctx, h, 0)
		ok(res)
		require.Equal(t, p, q)
	}
	imported := func(p driver.DevicePtr) {
		t.Helper()
		data := load(p)
		q, res := d.MemPoolImportPointer(1, &data)
		ok(res)
		require.Equal(t, p, q)
	}
	global := func() driver.DevicePtr {
		t.Helper()
		p, _, res := d.LibraryGetGlobal(ctx, 1, string(rune('@'+place)))
		ok(res)
		return p
	}
	for _, c := range []struct {
		name string
		want int
		run  func()
	}{
		{"used after it was freed", 1, func() { set(freed(), b) }},
		{"imported, freed too early", 1, func() { p := freed(); imported(p); set(p, a); free(p, b) }},
		{"allocated again", 1, func() { freed(); set(alloc(d), b) }},
		{"imported from a pool", 0, func() { p := freed(); imported(p); set(p, b); free(p, b) }},
		{"imported, used twice", 1, func() { p := freed(); imported(p); set(p, b); set(p, a) }},
		{"imported twice", 1, func() { p := freed(); imported(p); set(p, b); imported(p); set(p, a) }},
		{"imported, freed, used", 1, func() { p := freed(); imported(p); free(p, b); set(p, a) }},
		{"opened", 0, func() { p := freed(); open(p); set(p, b); ok(d.IpcCloseMemHandle(ctx, p)) }},
		{"opened twice, closed once", 0, func() {
			p := freed()
			open(p)
			open(p)
			ok(d.IpcCloseMemHandle(ctx, p))
			imported(p) // the stub forgets it with the first
			set(p, b)
			ok(d.IpcCloseMemHandle(ctx, p))
		}},
		{"mapped", 0, func() { p := freed(); ok(d.MemMap(p, at(), 0, 1, 0)); set(p, b); ok(d.MemUnmap(p, at())) }},
		{"mapped and overtaken", 1, func() { p := freed(); ok(d.MemMap(p, at(), 0, 1, 0)); set(p, b); set(p, a) }},
		{"a library's variable", 0, func() { freed(); set(global(), b); ok(d.LibraryUnload(1)) }},
		{"another library's variable at the same place", 0, func() {
			freed()
			set(global(), b)
			ok(d.LibraryUnload(1))
			set(global(), a)
		}},
		{"one variable", 1, func() { freed(); set(global(), b); set(global(), a) }},
		{"a module's variable", 0, func() {
			freed()
			p, n, res := d.ModuleGetGlobal(ctx, 1, string(rune('@'+place)))
			ok(res)
			require.Equal(t, at(), n)
			set(p, b)
		}},
		{"another library's memory", 0, func() { freed(); set(alloc(plain), b) }},
		{"a graph's memory", 0, func() {
			freed()
			ps := driver.MemAllocNodeParams{Bytes: at()}
			_, res := d.GraphAddMemAllocNode(1, nil, &ps)
			ok(res)
			set(ps.Ptr, b)
		}},
		{"captured memory", 0, func() {
			freed()
			p, res := d.MemAllocAsync(ctx, at(), capturing)
			ok(res)
			set(p, b)
		}},
		{"a context that is gone", 0, func() {
			c, res := d.ContextNew(0, 0)
			ok(res)
			p := alloc(d)
			set(p, a)
			ok(d.CtxDestroy(c))
			set(p, b)
		}},
		{"an event whose handle comes again", 1, func() {
			p := alloc(d)
			set(p, a)
			e, res := d.EventCreate(ctx, driver.EventDisableTiming)
			ok(res)
			ok(d.EventRecord(ctx, e, a))
			ok(d.EventDestroy(ctx, e))
			ok(d.StreamWaitEvent(ctx, b, e, 0)) // it has not been recorded since
			set(p, b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var res driver.Result
			ctx, res = d.DevicePrimaryCtxRetain(1)
			ok(res)
			place++
			a, b, handles = handles, handles+1, handles+2
			before := len(d.Races())
			c.run()
			require.Equal(t, c.want, len(d.Races())-before, "%v", d.Races()[before:])
		})
	}
}
