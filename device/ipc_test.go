package device_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// peer is another process of this test binary, which does what DEVICE_TEST_CHILD
// says and speaks with its parent in lines.
type peer struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func startPeer(t *testing.T, mode string, files []*os.File, env ...string) *peer {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &peer{t: t, cmd: exec.CommandContext(soon(t), exe)}
	p.cmd.Env = append(append(os.Environ(), "DEVICE_TEST_CHILD="+mode), env...)
	p.cmd.ExtraFiles = files
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.cmd.Start())
	return p
}

// hear waits for the next line of the other process.
func (p *peer) hear(want string) {
	p.t.Helper()
	require.True(p.t, p.out.Scan(), "the other process ended instead of saying %q: %v", want, p.out.Err())
	require.Equal(p.t, want, p.out.Text())
}

func (p *peer) say(line string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, line)
	require.NoError(p.t, err)
}

// end waits until the other process is done.
func (p *peer) end() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close())
	for p.out.Scan() {
		p.t.Errorf("the other process says more: %s", p.out.Text())
	}
	require.NoError(p.t, p.cmd.Wait())
}

// TestEventOfAnotherProcess: a stream of one process waits for work of another,
// both ways (B298). Each side holds its work up until the other one has seen
// that it is held up.
func TestEventOfAnotherProcess(t *testing.T) {
	d := open(t, 0)
	s, back := newStream(t, d), newStream(t, d)
	e, err := d.NewEvent(&device.EventOptions{Interprocess: true})
	if !testdriver.Real() {
		// Its streams and events are goroutines and channels of one process.
		for _, err := range []error{err, openShared(d, driver.IPCEventHandle{1})} {
			require.ErrorIs(t, err, device.ErrNotSupported)
			var de *device.Error
			require.ErrorAs(t, err, &de)
		}
		return
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	handle, err := e.IPCHandle()
	require.NoError(t, err)
	require.Error(t, openShared(d, driver.IPCEventHandle{}), "a handle that no process made")

	release := block(t, s)
	require.NoError(t, s.RecordEvent(e))
	p := startPeer(t, "event", nil, "DEVICE_TEST_EVENT="+hex.EncodeToString(handle[:]))
	p.hear("waits")
	release()
	p.hear("goes on")

	// The other way: the child records, the parent waits.
	p.hear("recorded")
	require.NoError(t, back.WaitEvent(e))
	require.False(t, isDone(t, back), "the parent's stream does not wait for the child's")
	done, err := e.Done()
	require.NoError(t, err)
	require.False(t, done)
	p.say("release")
	require.NoError(t, back.Synchronize(soon(t)))
	done, err = e.Done()
	require.NoError(t, err)
	require.True(t, done)
	p.end()
}

// openShared opens and closes an event of another process.
func openShared(d *device.Device, handle driver.IPCEventHandle) error {
	c, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	e, err := c.OpenIPCEvent(handle)
	if err != nil {
		return err
	}
	return e.Close()
}

// eventChild is the other process of TestEventOfAnotherProcess.
func eventChild() (err error) {
	var handle driver.IPCEventHandle
	if n, err := hex.Decode(handle[:], []byte(os.Getenv("DEVICE_TEST_EVENT"))); err != nil || n != len(handle) {
		return fmt.Errorf("no handle: %d bytes, %w", n, err)
	}
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	c, err := d.PrimaryContext()
	if err != nil {
		return err
	}
	e, err := c.OpenIPCEvent(handle)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	s, err := c.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()

	if err := s.WaitEvent(e); err != nil {
		return err
	}
	for range 20 { // not only at first
		done, err := s.Done()
		if err != nil || done {
			return fmt.Errorf("the child's stream does not wait for the parent's: %v, %w", done, err)
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("waits")
	if err := s.Synchronize(background); err != nil {
		return err
	}
	fmt.Println("goes on")

	gate := make(chan struct{})
	if err := s.Launch(func() { <-gate }); err != nil {
		return err
	}
	if err := s.RecordEvent(e); err != nil {
		return err
	}
	fmt.Println("recorded")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	close(gate)
	if err != nil || strings.TrimSpace(line) != "release" {
		return fmt.Errorf("the parent said %q: %w", line, err)
	}
	return s.Synchronize(background)
}

// TestPoolOfAnotherProcess: a process reads and writes memory that another one
// allocated, opens it twice and closes both (B291, B296, B300).
func TestPoolOfAnotherProcess(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	private, err := d.NewPool(nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, private.Close()) }()
	_, err = private.FD()
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = private.Open(device.SharedBuffer{Size: 1}, s)
	require.ErrorIs(t, err, device.ErrInvalidValue)
	_, err = d.OpenPool(-1)
	require.ErrorIs(t, err, device.ErrInvalidValue)

	pool, err := d.NewPool(&device.PoolOptions{Shareable: true})
	if !testdriver.Real() {
		if err == nil { // its memory is one process's, whatever it says of the pool
			defer func() { require.NoError(t, pool.Close()) }()
			_, err = pool.FD()
		}
		require.ErrorIs(t, err, device.ErrNotSupported)
		_, err = d.OpenPool(0)
		require.ErrorIs(t, err, device.ErrNotSupported)
		return
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	b, err := device.Allocate(pool, 4096, s)
	require.NoError(t, err)
	second, err := device.Allocate(pool, 512, s)
	require.NoError(t, err)
	require.NoError(t, b.Fill8(0x5A, s))
	require.NoError(t, second.Fill8(0x11, s))
	require.NoError(t, s.Synchronize(background))
	other := allocate(t, d, 64, s)
	_, err = pool.Share(other) // of the device's own pool
	require.ErrorIs(t, err, device.ErrInvalidValue)

	var handles []string
	for _, b := range []*device.Buffer{b, second} {
		shared, err := pool.Share(b)
		require.NoError(t, err)
		require.Equal(t, b.Size(), shared.Size)
		handles = append(handles, hex.EncodeToString(shared.Pointer[:]), strconv.FormatInt(shared.Size, 10))
	}
	fd, err := pool.FD()
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "pool")
	p := startPeer(t, "pool", []*os.File{file}, "DEVICE_TEST_BUFFERS="+strings.Join(handles, " "))
	require.NoError(t, file.Close())
	p.hear("0x5a 0x11")
	p.hear("wrote")
	p.end()
	require.Equal(t, byte(0x77), read(t, b, s)[4095])
	require.Equal(t, byte(0x11), read(t, second, s)[0])
	require.NoError(t, b.Close())
	require.NoError(t, second.Close())
	_, err = pool.Share(b)
	require.ErrorIs(t, err, device.ErrClosed)
}

// poolChild is the other process of TestPoolOfAnotherProcess.
func poolChild() (err error) {
	words := strings.Fields(os.Getenv("DEVICE_TEST_BUFFERS"))
	if len(words) != 4 {
		return fmt.Errorf("%d words", len(words))
	}
	var shared [2]device.SharedBuffer
	for i := range shared {
		if _, err := hex.Decode(shared[i].Pointer[:], []byte(words[2*i])); err != nil {
			return err
		}
		if shared[i].Size, err = strconv.ParseInt(words[2*i+1], 10, 64); err != nil {
			return err
		}
	}
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	s, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	pool, err := d.OpenPool(3)
	if err != nil {
		return err
	}
	if _, err := device.Allocate(pool, 64, s); err == nil {
		return errors.New("an opened pool gives memory")
	}
	var open [3]*device.Buffer
	for i, from := range []device.SharedBuffer{shared[0], shared[0], shared[1]} {
		if open[i], err = pool.Open(from, s); err != nil {
			return err
		}
	}
	if open[0].Ptr() != open[1].Ptr() || open[0].Ptr() == open[2].Ptr() {
		return fmt.Errorf("addresses %#x %#x %#x", open[0].Ptr(), open[1].Ptr(), open[2].Ptr())
	}
	if err := pool.Close(); err != nil { // its buffers hold it
		return err
	}
	var first [4096]byte
	var last [512]byte
	if err := errors.Join(open[0].CopyToHost(background, first[:], s), open[2].CopyToHost(background, last[:], s)); err != nil {
		return err
	}
	fmt.Printf("%#x %#x\n", first[4095], last[0])
	// The first close leaves the memory to the second buffer, after its work.
	q, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	if err := errors.Join(q.Wait(s), open[0].Fill8(0x77, q), open[0].CloseOn(q), s.Wait(q)); err != nil {
		return err
	}
	if err := open[1].CopyToHost(background, first[:], s); err != nil || first[0] != 0x77 {
		return fmt.Errorf("%#x after one of two was closed: %w", first[0], err)
	}
	fmt.Println("wrote")
	err = errors.Join(open[1].Close(), open[2].Close(), q.Close(), s.Synchronize(background), device.Flush(background))
	if n := device.Stats(); err == nil && (n.Buffers|n.Pools|n.Events) != 0 {
		err = fmt.Errorf("left over: %+v", n)
	}
	return err
}

// bufferOf makes a buffer of a resource until the test ends.
func bufferOf(t *testing.T, r device.MemoryResource, size int64, s *device.Stream) *device.Buffer {
	t.Helper()
	b, err := device.Allocate(r, size, s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// TestShareRefuses: what cannot be opened in another process is not shared (B296).
func TestShareRefuses(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	managed, err := d.ManagedMemory()
	require.NoError(t, err)
	var pin runtime.Pinner
	defer pin.Unpin()
	host := make([]byte, 64)
	pin.Pin(&host[0])
	plain := bufferOf(t, d.PlainMemory(), 4096, s)
	wrap := func(ptr driver.DevicePtr, size int64) *device.Buffer {
		b, err := device.WrapBuffer(ptr, size, plain)
		require.NoError(t, err)
		return b
	}
	for name, c := range map[string]struct {
		b    *device.Buffer
		says string
	}{
		"of a pool":            {allocate(t, d, 64, s), "see DevicePool.Share"},
		"pinned":               {bufferOf(t, d.PinnedMemory(), 64, s), "not the memory of a device"},
		"managed":              {bufferOf(t, managed, 64, s), "not the memory of a device"},
		"the host's":           {wrap(addressOf(host), 64), "not the memory of a device"},
		"empty":                {bufferOf(t, d.PlainMemory(), 0, s), "has none"},
		"longer than it is":    {wrap(plain.Ptr(), 1<<40), "longer than its allocation"},
		"one byte too far":     {wrap(plain.Ptr()+4095, 2), "longer than its allocation"},
		"beyond any number":    {wrap(plain.Ptr()+1, 1<<63-1), "longer than its allocation"},
		"a pool's, wrapped":    {wrap(allocate(t, d, 64, s).Ptr(), 64), "see DevicePool.Share"},
		"the pool's interior":  {wrap(allocate(t, d, 64, s).Ptr()+8, 8), "see DevicePool.Share"},
		"pinned memory, inner": {wrap(bufferOf(t, d.PinnedMemory(), 64, s).Ptr()+8, 8), "not the memory of a device"},
	} {
		_, err := c.b.Share()
		require.ErrorIs(t, err, device.ErrInvalidValue, name)
		require.ErrorContains(t, err, c.says, name)
	}
	closed := bufferOf(t, d.PlainMemory(), 64, s)
	require.NoError(t, closed.Close())
	_, err = closed.Share()
	require.ErrorIs(t, err, device.ErrClosed)

	shared, err := plain.Share()
	if errors.Is(err, device.ErrNotSupported) {
		t.Skip("needs a system on which processes share memory")
	}
	require.NoError(t, err)
	require.Equal(t, device.SharedMemory{Handle: shared.Handle, Device: must(d.UUID()), Size: 4096}, shared)
	part, err := wrap(plain.Ptr()+1000, 96).Share()
	require.NoError(t, err)
	require.EqualValues(t, 1000, part.Offset, "B291, B292: the handle is that of the allocation")
	require.EqualValues(t, 96, part.Size)

	var de *device.Error
	_, err = device.OpenMemory(shared, s)
	require.ErrorAs(t, err, &de, "a process does not open its own memory: %v", err)
	elsewhere := shared
	elsewhere.Device[3]++
	_, err = device.OpenMemory(elsewhere, s)
	require.ErrorIs(t, err, device.ErrInvalidDevice, "B304")
	elsewhere = shared
	elsewhere.Handle = driver.IPCMemHandle{}
	_, err = device.OpenMemory(elsewhere, s)
	require.ErrorAs(t, err, &de, "a handle that no process made")
	for _, bad := range []device.SharedMemory{
		{Handle: shared.Handle, Device: shared.Device, Size: 0},
		{Handle: shared.Handle, Device: shared.Device, Size: -1},
		{Handle: shared.Handle, Device: shared.Device, Offset: -1, Size: 1},
		{Handle: shared.Handle, Device: shared.Device, Offset: 1<<63 - 1, Size: 1},
	} {
		_, err = device.OpenMemory(bad, s)
		require.ErrorIs(t, err, device.ErrInvalidValue)
	}
	_, err = device.OpenMemory(shared, nil)
	require.ErrorIs(t, err, device.ErrInvalidValue)
	gone, err := d.NewStream(nil)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	_, err = device.OpenMemory(shared, gone)
	require.ErrorIs(t, err, device.ErrClosed)
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestMemoryOfAnotherProcess: a process reads and writes memory outside of pools
// that another one allocated, whole and in parts (B291, B292).
func TestMemoryOfAnotherProcess(t *testing.T) {
	d := open(t, 0)
	s := newStream(t, d)
	whole, small := bufferOf(t, d.PlainMemory(), 1<<20, s), bufferOf(t, d.PlainMemory(), 300, s)
	part, err := device.WrapBuffer(whole.Ptr()+70_000, 500, whole)
	require.NoError(t, err)
	var words []string
	for i, b := range []*device.Buffer{whole, part, small} {
		require.NoError(t, b.Fill8(byte(0x11*(i+1)), s))
		shared, err := b.Share()
		if errors.Is(err, device.ErrNotSupported) {
			t.Skip("needs a system on which processes share memory")
		}
		require.NoError(t, err)
		words = append(words, hex.EncodeToString(shared.Handle[:]), hex.EncodeToString(shared.Device[:]),
			strconv.FormatInt(shared.Offset, 10), strconv.FormatInt(shared.Size, 10))
	}
	require.NoError(t, s.Synchronize(background))
	env := []string{"DEVICE_TEST_MEMORY=" + strings.Join(words, " ")}
	if !testdriver.Real() {
		env = append(env, "HANDOFF_DRIVER=soft")
	}
	p := startPeer(t, "memory", nil, env...)
	p.hear("0x11 0x22 0x33")
	p.hear("wrote")
	p.end()
	data := read(t, whole, s)
	require.Equal(t, byte(0x11), data[69_999])
	require.Equal(t, byte(0x77), data[70_000])
	require.Equal(t, byte(0x77), data[70_499])
	require.Equal(t, byte(0x11), data[70_500])
	require.Equal(t, byte(0x33), read(t, small, s)[299], "it was closed there, not freed")
}

// sharedMemories reads what the parent wrote.
func sharedMemories() (list []device.SharedMemory, err error) {
	words := strings.Fields(os.Getenv("DEVICE_TEST_MEMORY"))
	for ; len(words) >= 4; words = words[4:] {
		var m device.SharedMemory
		if _, err := hex.Decode(m.Handle[:], []byte(words[0])); err != nil {
			return nil, err
		}
		if _, err := hex.Decode(m.Device[:], []byte(words[1])); err != nil {
			return nil, err
		}
		if m.Offset, err = strconv.ParseInt(words[2], 10, 64); err != nil {
			return nil, err
		}
		if m.Size, err = strconv.ParseInt(words[3], 10, 64); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	if len(list) != 3 {
		return nil, fmt.Errorf("%d descriptions", len(list))
	}
	return list, nil
}

// memoryChild is the other process of TestMemoryOfAnotherProcess.
func memoryChild() (err error) {
	shared, err := sharedMemories()
	if err != nil {
		return err
	}
	d, err := device.ByUUID(device.UUID(shared[0].Device))
	if err != nil {
		return err
	}
	s, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	q, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	var open [3]*device.Buffer
	for i, m := range shared {
		if open[i], err = device.OpenMemory(m, s); err != nil {
			return err
		}
	}
	whole, part, small := open[0], open[1], open[2]
	if part.Ptr() != whole.Ptr()+70_000 || part.Size() != 500 {
		return fmt.Errorf("%v is no part of %v", part, whole)
	}
	if m, err := device.InfoOf(part.Ptr()); err != nil || m != part.Info() {
		return fmt.Errorf("%+v, not %+v: %w", m, part.Info(), err)
	}
	longer := shared[1]
	longer.Size = 1 << 30
	if _, err := device.OpenMemory(longer, s); !errors.Is(err, device.ErrInvalidValue) {
		return fmt.Errorf("more than the allocation: %w", err)
	}
	if _, err := part.Share(); !errors.Is(err, device.ErrInvalidValue) {
		return fmt.Errorf("shared again: %w", err)
	}
	c, err := d.NewContext(0)
	if err != nil {
		return err
	}
	other, err := c.NewStream(nil)
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil { // the stream holds it
		return err
	}
	_, err = device.OpenMemory(shared[0], other)
	if de := (*device.Error)(nil); !errors.As(err, &de) {
		return fmt.Errorf("in a second context: %w", err)
	}
	if err := other.Close(); err != nil {
		return err
	}
	var first, mid [500]byte
	head, err := device.WrapBuffer(whole.Ptr(), 500, whole)
	if err != nil {
		return err
	}
	last := make([]byte, small.Size())
	if err := errors.Join(head.CopyToHost(background, first[:], s), part.CopyToHost(background, mid[:], s), small.CopyToHost(background, last, s)); err != nil {
		return err
	}
	fmt.Printf("%#x %#x %#x\n", first[499], mid[499], last[299])

	// What is closed stays mapped for the work that uses it, and for the others.
	gate := make(chan struct{})
	err = errors.Join(q.Wait(s), q.Launch(func() { <-gate }), part.Fill8(0x77, q), part.CloseOn(q), whole.Close(), head.Close(), small.CloseOn(q))
	close(gate)
	if err != nil {
		return err
	}
	if !testdriver.Real() {
		if err := errors.Join(q.Synchronize(background), device.Flush(background), openWithFaults(shared[1], s)); err != nil {
			return err
		}
	}
	err = errors.Join(q.Synchronize(background), device.Flush(background))
	if _, e := device.WrapBuffer(part.Ptr(), 1, nil); err == nil && e == nil {
		if m, e := device.InfoOf(part.Ptr()); e != nil || m.Device != nil {
			err = fmt.Errorf("it is still mapped: %+v, %w", m, e)
		}
	}
	err = errors.Join(err, q.Close(), s.Close(), device.Flush(background))
	if n := device.Stats(); err == nil && (n.Buffers|n.Streams|n.Events|n.Contexts|n.Allocated) != 0 {
		err = fmt.Errorf("left over: %+v", n)
	}
	fmt.Println("wrote")
	return err
}

// openWithFaults makes each driver call of an open fail.
func openWithFaults(shared device.SharedMemory, s *device.Stream) error {
	for _, api := range []string{"cuIpcOpenMemHandle", "cuPointerGetAttributes", "cuCtxPushCurrent"} {
		in, err := soft.Inject(soft.Fault{API: api, Code: driver.ErrorOutOfMemory})
		if err != nil {
			return err
		}
		_, err = device.OpenMemory(shared, s)
		if in.Hits() == 0 {
			return fmt.Errorf("%s is not called", api)
		}
		in.Remove()
		if de := (*device.Error)(nil); !errors.As(err, &de) || de.Op == "" || !errors.Is(err, device.ErrOutOfMemory) {
			return fmt.Errorf("%s fails: %w", api, err)
		}
		if n := device.Stats(); n.Buffers != 0 || n.Allocated != 0 {
			return fmt.Errorf("%s fails: left over: %+v", api, n)
		}
	}
	return nil
}
