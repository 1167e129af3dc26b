package engine

import (
	"bytes"
	"encoding/binary"
)

// IPCHandle is what cuIpcGetMemHandle fills: it means something to processes of this machine.
type IPCHandle [64]byte

// ipcFile says where the memory of a device is, for another process.
type ipcFile struct {
	PID, FD    uint32
	Dev, Inode uint64 // so that another file of that number is told apart
}

// ipcMemory is an allocation as a handle has it.
type ipcMemory struct {
	Magic        [8]byte
	File         ipcFile
	Offset, Size uint64
	Device       uint32
}

var ipcMagic = [8]byte{'h', 'a', 'n', 'd', 'o', 'f', 'f', 1}

// shared is memory of another process that is mapped here.
type shared struct {
	key          ipcMemory
	bytes, guard []byte // pages; the second has no access rights, and the public addresses
	delta        uint64 // of the allocation in its first page
	users        int    // how often it is open; guarded by space.mu
}

// IPCGetMem is cuIpcGetMemHandle: of the allocation that addr lies in, whatever the address in it, as the
// driver has it (B291).
func (e *Engine) IPCGetMem(t *Thread, addr uint64) (h IPCHandle, code Code) {
	if _, code := t.context(); code != Success {
		return h, code
	}
	a, ok := e.space.find(addr)
	if !ok || !a.shareable() {
		return h, InvalidValue
	}
	f, ok := a.dev.arena.describe()
	if !ok {
		return h, NotSupported
	}
	var b bytes.Buffer
	m := ipcMemory{ipcMagic, f, a.base - a.dev.arena.pub, a.size, uint32(a.dev.ordinal)}
	if err := binary.Write(&b, binary.LittleEndian, m); err != nil {
		return h, NotSupported
	}
	copy(h[:], b.Bytes())
	return h, Success
}

// shareable says whether it is memory of cuMemAlloc in this process.
func (a *alloc) shareable() bool {
	return a.kind == memDevice && a.pool == nil && !a.graph && a.owner == nil && a.foreign == nil
}

const ipcLazyPeerAccess = 1

// IPCOpenMem is cuIpcOpenMemHandle. Memory that is open gives the same address again.
func (e *Engine) IPCOpenMem(t *Thread, h IPCHandle, flags uint32) (uint64, Code) {
	c, code := e.unsafeContext(t)
	if code != Success {
		return 0, code
	}
	var m ipcMemory
	n, err := binary.Decode(h[:], binary.LittleEndian, &m)
	if err != nil || m.Magic != ipcMagic || flags&^ipcLazyPeerAccess != 0 || !zero(h[n:]) {
		return 0, InvalidValue
	}
	if int(m.Device) != c.dev.ordinal {
		return 0, InvalidDevice
	}
	if f, ok := c.dev.arena.describe(); ok && f.Dev == m.File.Dev && f.Inode == m.File.Inode {
		return 0, InvalidContext // it is this process's
	}
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	for _, a := range e.space.sorted {
		if a.foreign == nil || a.foreign.key != m {
			continue
		}
		if a.ctx != c { // one context of a device may have it open
			return 0, InvalidHandle
		}
		a.foreign.users++
		return a.base, Success
	}
	f, code := mapShared(m)
	if code != Success {
		return 0, code
	}
	a := &alloc{
		base: addrOf(f.guard) + f.delta, size: m.Size, kind: memDevice, dev: c.dev, ctx: c,
		host: f.bytes[f.delta:][:m.Size:m.Size], foreign: f,
	}
	e.space.insertLocked(a)
	e.allocated(a, nil)
	return a.base, Success
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// IPCCloseMem is cuIpcCloseMemHandle: the last one waits for the work of the device and unmaps the memory.
func (e *Engine) IPCCloseMem(t *Thread, addr uint64) Code {
	c, code := e.unsafeContext(t)
	if code != Success {
		return code
	}
	a, ok := e.space.find(addr)
	if !ok || a.foreign == nil || a.base != addr || a.ctx != c {
		return InvalidValue
	}
	e.space.mu.Lock()
	if a.foreign.users > 1 {
		a.foreign.users--
		e.space.mu.Unlock()
		return Success
	}
	e.space.mu.Unlock()
	e.waitFor(a, c)
	e.space.mu.Lock()
	defer e.space.mu.Unlock()
	if a.foreign.users--; a.foreign.users > 0 { // opened again meanwhile
		return Success
	}
	e.hostFreed(a, "cuIpcCloseMemHandle")
	if !e.space.removeLocked(a) {
		return InvalidValue
	}
	e.space.giveBackLocked(a)
	return Success
}
