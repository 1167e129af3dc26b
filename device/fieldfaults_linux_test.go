package device_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/internal/testdriver"
)

// TestOwnerOfSharedMemoryEnds is B306: the process that shares its memory is
// killed while this one has it open. What is read afterwards is the data, or an
// error; nothing hangs, and closing goes on as ever.
func TestOwnerOfSharedMemoryEnds(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device's memory is one process's, see TestPoolOfAnotherProcess")
	}
	d := open(t, 0)
	s := newStream(t, d)
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	mine, theirs := os.NewFile(uintptr(ends[0]), "mine"), os.NewFile(uintptr(ends[1]), "theirs")
	defer mine.Close()
	p := startPeer(t, "owner", []*os.File{theirs})
	require.NoError(t, theirs.Close())
	c, err := net.FileConn(mine)
	require.NoError(t, err)
	defer c.Close()

	text, rights := make([]byte, 4096), make([]byte, 128)
	n, m, _, _, err := c.(*net.UnixConn).ReadMsgUnix(text, rights)
	require.NoError(t, err)
	messages, err := syscall.ParseSocketControlMessage(rights[:m])
	require.NoError(t, err)
	require.Len(t, messages, 1)
	fds, err := syscall.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	words := strings.Fields(string(text[:n]))
	require.Len(t, words, 2)
	var shared device.SharedBuffer
	_, err = hex.Decode(shared.Pointer[:], []byte(words[0]))
	require.NoError(t, err)
	shared.Size, err = strconv.ParseInt(words[1], 10, 64)
	require.NoError(t, err)
	pool, err := d.OpenPool(fds[0])
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	b, err := pool.Open(shared, s)
	require.NoError(t, err)
	require.Equal(t, byte(0x5A), read(t, b, s)[shared.Size-1])

	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.cmd.Wait(), "it was killed")
	data := make([]byte, shared.Size)
	switch err := b.CopyToHost(soon(t), data, s); {
	case err == nil:
		require.Equal(t, byte(0x5A), data[shared.Size-1])
		t.Log("the memory outlives its process")
	default:
		var e *device.Error
		require.ErrorAs(t, err, &e)
		t.Logf("the memory ended with its process: %v", err)
	}
	require.NoError(t, b.Close())
	require.NoError(t, s.Synchronize(soon(t)))
}

// ownerChild shares memory and waits to be killed.
func ownerChild() error {
	d, err := device.Open(0)
	if err != nil {
		return err
	}
	s, err := d.NewStream(nil)
	if err != nil {
		return err
	}
	pool, err := d.NewPool(&device.PoolOptions{Shareable: true})
	if err != nil {
		return err
	}
	b, err := device.Allocate(pool, 4096, s)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Fill8(0x5A, s), s.Synchronize(background)); err != nil {
		return err
	}
	shared, err := pool.Share(b)
	if err != nil {
		return err
	}
	fd, err := pool.FD()
	if err != nil {
		return err
	}
	c, err := net.FileConn(os.NewFile(3, "parent"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s %d", hex.EncodeToString(shared.Pointer[:]), shared.Size)
	if _, _, err := c.(*net.UnixConn).WriteMsgUnix([]byte(text), syscall.UnixRights(fd), nil); err != nil {
		return err
	}
	select {}
}
