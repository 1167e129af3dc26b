package soft_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device/driver"
)

func TestEveryEntryPointIsThere(t *testing.T) {
	d := open(t)
	for e := range d.Missing {
		t.Errorf("missing: %s", e.Name)
	}
}

func TestDevices(t *testing.T) {
	d := open(t)
	n, res := d.DeviceGetCount()
	ok(t, res)
	require.EqualValues(t, 2, n)
	name := make([]byte, 64)
	ok(t, d.DeviceGetName(name, 0))
	require.Equal(t, "Handoff software device", string(name[:bytes.IndexByte(name, 0)]))
	_, res = d.DeviceGet(2)
	require.Equal(t, driver.ErrorInvalidDevice, res)
	u0, res := d.DeviceGetUuid(0)
	ok(t, res)
	u1, res := d.DeviceGetUuid(1)
	ok(t, res)
	require.NotEqual(t, u0, u1)
	id := make([]byte, 16)
	ok(t, d.DeviceGetPCIBusId(id, 1))
	dev, res := d.DeviceGetByPCIBusId(string(id[:bytes.IndexByte(id, 0)]))
	ok(t, res)
	require.EqualValues(t, 1, dev)
	_, res = d.DeviceGetByPCIBusId("rubbish")
	require.Equal(t, driver.ErrorInvalidValue, res)
	major, res := d.DeviceGetAttribute(75, 0)
	ok(t, res)
	require.EqualValues(t, 9, major)
	_, res = d.DeviceGetAttribute(100000, 0)
	require.Equal(t, driver.ErrorInvalidValue, res)
}

func TestCopyRoundTrip(t *testing.T) {
	d := open(t)
	c := primary(t, d, 0)
	p := alloc(t, d, c, 4096)
	in := bytes.Repeat([]byte{1, 2, 3, 4}, 1024)
	ok(t, d.MemcpyHtoDBytes(c, p, in))
	out := make([]byte, len(in))
	ok(t, d.MemcpyDtoHBytes(c, out, p))
	require.Equal(t, in, out)
}
