package main

import (
	"errors"
	"sync"
	"unsafe"

	"github.com/go-handoff/handoff/device"
)

// pinned is an Arrow allocator of pinned host memory.
type pinned struct {
	s       *device.Stream
	mu      sync.Mutex
	buffers map[*byte]*device.Buffer // by their first byte
}

// Allocate returns size bytes. Arrow's allocators have no errors: they panic.
func (p *pinned) Allocate(size int) []byte {
	if size == 0 {
		return []byte{}
	}
	b, err := device.Allocate(p.s.Device().PinnedMemory(), int64(size), p.s)
	if err != nil {
		panic(err)
	}
	// SAFETY: pinned memory is host memory, of size bytes, that lives until
	// Free closes the buffer.
	mem := unsafe.Slice((*byte)(host(uintptr(b.Ptr()))), size)
	clear(mem)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffers[unsafe.SliceData(mem)] = b
	return mem
}

// Reallocate moves the bytes to a block of another size.
func (p *pinned) Reallocate(size int, old []byte) []byte {
	if size <= cap(old) && size > 0 {
		return old[:size]
	}
	mem := p.Allocate(size)
	copy(mem, old)
	p.Free(old)
	return mem
}

// Free gives a block back.
func (p *pinned) Free(mem []byte) {
	key := unsafe.SliceData(mem)
	p.mu.Lock()
	b := p.buffers[key]
	delete(p.buffers, key)
	p.mu.Unlock()
	if b != nil {
		_ = b.Close()
	}
}

// close says whether everything was given back.
func (p *pinned) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, b := range p.buffers {
		err = errors.Join(err, errors.New("a block was not freed"), b.Close())
	}
	return err
}

// host is the pointer of an address of host memory that the driver owns.
func host(addr uintptr) unsafe.Pointer {
	// SAFETY: reads the integer as a pointer; it is no Go memory.
	return *(*unsafe.Pointer)(unsafe.Pointer(&addr))
}

// address is where the elements of a column begin.
func address(values []float64) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(values)))
}
