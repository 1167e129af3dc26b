package memview_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/device/soft"
	"github.com/go-handoff/handoff/internal/leak"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/memview"
)

// The tests that need a device run on the software device, whose calls they
// count, and unchanged on a GPU with HANDOFF_DRIVER=cuda. Nothing may be left
// when they are done.
func TestMain(m *testing.M) {
	if !testdriver.Real() {
		err := soft.Enable(&soft.Options{Fault: calls.fault})
		if err == nil {
			_, err = driver.Default() // from here on the options stay
		}
		if err != nil && !errors.Is(err, soft.ErrNotSupported) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(leak.Run(func() int {
		code := m.Run()
		err := errors.Join(memview.Flush(context.Background()), device.Flush(context.Background()))
		if err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		s := device.Stats()
		if code == 0 && (s.Contexts|s.Streams|s.Events|s.Buffers|s.Pools|s.Allocated|s.Deferred) != 0 {
			fmt.Fprintf(os.Stderr, "left over: %+v\n", s)
			code = 1
		}
		return code
	}, os.Stderr))
}
