package engine

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	anonymous    = syscall.MAP_PRIVATE | syscall.MAP_ANON | syscall.MAP_NORESERVE
	readWrite    = syscall.PROT_READ | syscall.PROT_WRITE
	madvDontNeed = 4
	punchHole    = 1 | 2 // and keep the size
	closeOnExec  = 1     // of memfd_create

	arenaName = "handoff-soft"
)

// open reserves both ranges. Neither costs memory until its pages are used.
func (a *arena) open(n uint64) error {
	priv, err := a.openShared(n)
	if err != nil {
		priv, err = syscall.Mmap(-1, 0, int(n), readWrite, anonymous)
	}
	if err != nil {
		return fmt.Errorf("soft: map device memory: %w", err)
	}
	guard, err := syscall.Mmap(-1, 0, int(n), syscall.PROT_NONE, anonymous)
	if err != nil {
		_ = syscall.Munmap(priv)
		a.closeFile()
		return fmt.Errorf("soft: reserve device addresses: %w", err)
	}
	a.priv, a.guard = priv, guard
	// SAFETY: the address of a mapping that lives as long as the arena; it is only used as a number.
	a.pub = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(guard))))
	return nil
}

func (a *arena) close() {
	if a.priv != nil {
		_ = syscall.Munmap(a.priv)
		_ = syscall.Munmap(a.guard)
		a.priv, a.guard = nil, nil
		a.closeFile()
	}
}

// memfdCreate is the number of that system call, which package syscall does not have.
var memfdCreate = map[string]uintptr{
	"amd64": 319, "386": 356, "arm": 385, "arm64": 279, "loong64": 279, "riscv64": 279, "ppc64le": 360, "s390x": 350,
}[runtime.GOARCH]

// openShared maps memory that other processes can map too: that of a file without a name.
func (a *arena) openShared(n uint64) ([]byte, error) {
	if memfdCreate == 0 {
		return nil, syscall.ENOSYS
	}
	const fileSize = 1 // RLIMIT_FSIZE: a larger file is a signal that ends the process
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(fileSize, &limit); err != nil || limit.Cur < n {
		return nil, syscall.EFBIG
	}
	name := []byte(arenaName + "\x00")
	// SAFETY: a string that ends with a zero, lent for the call.
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(&name[0])), closeOnExec, 0)
	if errno != 0 {
		return nil, errno
	}
	a.file = int(fd)
	err := syscall.Ftruncate(a.file, int64(n))
	if err == nil {
		var b []byte
		if b, err = syscall.Mmap(a.file, 0, int(n), readWrite, syscall.MAP_SHARED|syscall.MAP_NORESERVE); err == nil {
			return b, nil
		}
	}
	a.closeFile()
	return nil, err
}

func (a *arena) closeFile() {
	if a.file >= 0 {
		_ = syscall.Close(a.file)
		a.file = -1
	}
}

// discard gives pages back to the system; they read as zero afterwards.
func (a *arena) discard(off, n uint64) {
	if a.file >= 0 {
		_ = syscall.Fallocate(a.file, punchHole, int64(off), int64(n))
		return
	}
	_ = syscall.Madvise(a.priv[off:off+n], madvDontNeed)
}

// describe says how another process finds the memory; ok is false if none can.
func (a *arena) describe() (f ipcFile, ok bool) {
	var st syscall.Stat_t
	if a.file < 0 || syscall.Fstat(a.file, &st) != nil {
		return ipcFile{}, false
	}
	return ipcFile{PID: uint32(os.Getpid()), FD: uint32(a.file), Dev: uint64(st.Dev), Inode: st.Ino}, true
}

// mapShared maps memory of another process: the bytes, and addresses without access rights.
func mapShared(h ipcMemory) (*shared, Code) {
	path := "/proc/" + strconv.Itoa(int(h.File.PID)) + "/fd/" + strconv.Itoa(int(h.File.FD))
	if name, err := os.Readlink(path); err != nil || name != "/memfd:"+arenaName+" (deleted)" {
		return nil, InvalidValue // not even looked into
	}
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, InvalidValue
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || uint64(st.Dev) != h.File.Dev || st.Ino != h.File.Inode {
		return nil, InvalidValue // another file by now
	}
	page := uint64(os.Getpagesize())
	first := h.Offset &^ (page - 1)
	last, ok := roundUp(h.Offset+h.Size, page)
	if !ok || h.Size == 0 || h.Offset+h.Size < h.Offset || last > uint64(st.Size) {
		return nil, InvalidValue // and no bytes behind its end, which would be a fault
	}
	bytes, err := syscall.Mmap(fd, int64(first), int(last-first), readWrite, syscall.MAP_SHARED)
	if err != nil {
		return nil, OutOfMemory
	}
	guard, err := syscall.Mmap(-1, 0, int(last-first), syscall.PROT_NONE, anonymous)
	if err != nil {
		_ = syscall.Munmap(bytes)
		return nil, OutOfMemory
	}
	return &shared{key: h, bytes: bytes, guard: guard, delta: h.Offset - first, users: 1}, Success
}

func (m *shared) unmap() {
	_ = syscall.Munmap(m.bytes)
	_ = syscall.Munmap(m.guard)
}

// mapHost maps n bytes of host memory outside the Go heap.
func mapHost(n uint64) ([]byte, error) {
	return syscall.Mmap(-1, 0, int(n), readWrite, anonymous)
}

func unmapHost(b []byte) { _ = syscall.Munmap(b) }
