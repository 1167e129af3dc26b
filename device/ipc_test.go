package device_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
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

func startPeer(t *testing.T, mode string, env ...string) *peer {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	p := &peer{t: t, cmd: exec.CommandContext(soon(t), exe)}
	p.cmd.Env = append(append(os.Environ(), "DEVICE_TEST_CHILD="+mode), env...)
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
	p := startPeer(t, "event", "DEVICE_TEST_EVENT="+hex.EncodeToString(handle[:]))
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
