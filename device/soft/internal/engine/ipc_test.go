package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What two processes do with such memory is tested in package device.

func TestIPCGetMem(t *testing.T) {
	r := newRig(t, Options{})
	if r.devices[0].arena.file < 0 {
		t.Skip("needs Linux: there is nothing here that processes can share")
	}
	p := r.mem(t, 100)
	pool, c := r.MemAllocAsync(r.t, 100, 0, StreamLegacy)
	good(t, c)
	pinned, c := r.HostAlloc(r.t, 100, 0)
	good(t, c)
	managed, c := r.ManagedAlloc(r.t, 100, 1)
	good(t, c)
	h, c := r.IPCGetMem(r.t, p)
	good(t, c)
	inner, c := r.IPCGetMem(r.t, p+99)
	good(t, c)
	require.Equal(t, h, inner, "B291: the handle is that of the allocation")
	for _, addr := range []uint64{0, p + 100, pool, pinned, managed} { // B296
		_, c := r.IPCGetMem(r.t, addr)
		require.Equal(t, InvalidValue, c, "%#x", addr)
		require.False(t, r.Pointer(addr).IPC)
	}
	require.True(t, r.Pointer(p).IPC)
	_, c = r.IPCGetMem(r.NewThread(), p)
	require.Equal(t, InvalidContext, c, "no context is current")

	_, c = r.IPCOpenMem(r.t, h, 0)
	require.Equal(t, InvalidContext, c, "the process that made the handle does not open it")
	_, c = r.IPCOpenMem(r.t, h, 2)
	require.Equal(t, InvalidValue, c)
	for i := range h { // invented handles
		for _, x := range []byte{1, 0x80, 0xff} {
			bad := h
			bad[i] ^= x
			_, c := r.IPCOpenMem(r.t, bad, 1)
			require.NotEqual(t, Success, c, "byte %d ^ %#x", i, x)
		}
	}
	require.Equal(t, InvalidValue, r.IPCCloseMem(r.t, p), "memory of this process")
	good(t, r.MemFreeAsync(r.t, pool, StreamLegacy))
	good(t, r.MemFree(r.t, managed))
	good(t, r.HostFree(r.t, pinned))
	good(t, r.MemFree(r.t, p))
}

func TestFreedMemoryReadsZero(t *testing.T) {
	r := newRig(t, Options{})
	n := uint64(4 * arenaGrain)
	p := r.mem(t, n)
	a, ok := r.space.find(p)
	require.True(t, ok)
	b := a.bytes(p, n)
	for i := range b {
		b[i] = 0xa5
	}
	good(t, r.MemFree(r.t, p))
	require.Zero(t, b[arenaGrain], "its pages went back to the system")
	require.Zero(t, b[2*arenaGrain+1])
}
