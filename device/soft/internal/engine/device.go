package engine

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Device is one software device.
type Device struct {
	e       *Engine
	ordinal int
	arena   *arena

	primaryMu sync.Mutex // serialises retain, release and reset; taken before e.mu
	primary   *Context
	dirty     atomic.Bool // pool memory was freed since pools were last trimmed

	// Guarded by e.mu.
	primaryFlags uint32
	contexts     map[*Context]struct{}
	defaultPool  *pool
	curPool      *pool
	graphPool    *pool
	poolSet      map[*pool]struct{}
}

func newDevice(e *Engine, i int) (*Device, error) {
	d := &Device{e: e, ordinal: i, contexts: make(map[*Context]struct{}), poolSet: make(map[*pool]struct{})}
	var err error
	if d.arena, err = newArena(e.opts.Memory); err != nil {
		return nil, err
	}
	d.primary = &Context{e: e, dev: d, primary: true}
	d.primary.dead.Store(true)
	d.primary.h = e.newHandle(d.primary)
	d.contexts[d.primary] = struct{}{}
	d.defaultPool = newPool(e, d, poolDevice)
	d.defaultPool.isDefault = true
	d.curPool = d.defaultPool
	d.graphPool = newPool(e, d, poolDevice)
	d.graphPool.isDefault = true
	return d, nil
}

func (e *Engine) device(i int) (*Device, Code) {
	if i < 0 || i >= len(e.devices) {
		return nil, InvalidDevice
	}
	return e.devices[i], Success
}

// DeviceCount is cuDeviceGetCount.
func (e *Engine) DeviceCount() int { return len(e.devices) }

// DeviceName is cuDeviceGetName: it says what the device is.
func (e *Engine) DeviceName(dev int) (string, Code) {
	if _, code := e.device(dev); code != Success {
		return "", code
	}
	return "Handoff software device", Success
}

// DeviceUUID is cuDeviceGetUuid; the same for an ordinal in every process.
func (e *Engine) DeviceUUID(dev int) (u [16]byte, code Code) {
	if _, code := e.device(dev); code != Success {
		return u, code
	}
	h := sha256.Sum256([]byte("handoff software device " + strconv.Itoa(dev)))
	copy(u[:], h[:])
	return u, Success
}

// DeviceTotalMem is cuDeviceTotalMem.
func (e *Engine) DeviceTotalMem(dev int) (uint64, Code) {
	if _, code := e.device(dev); code != Success {
		return 0, code
	}
	return e.opts.Memory, Success
}

// pciBus is the bus number of a device; every device sits at 0000:bb:00.0.
func pciBus(dev int) int { return 0x10 + dev }

// DevicePCIBusID is cuDeviceGetPCIBusId.
func (e *Engine) DevicePCIBusID(dev int) (string, Code) {
	if _, code := e.device(dev); code != Success {
		return "", code
	}
	return fmt.Sprintf("0000:%02X:00.0", pciBus(dev)), Success
}

// DeviceByPCIBusID is cuDeviceGetByPCIBusId: [domain:]bus:device[.function] in hex.
func (e *Engine) DeviceByPCIBusID(s string) (int, Code) {
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return 0, InvalidValue
	}
	slot, fn, _ := strings.Cut(parts[2], ".")
	if fn == "" {
		fn = "0"
	}
	var n [4]uint64
	for i, p := range []string{parts[0], parts[1], slot, fn} {
		v, err := strconv.ParseUint(p, 16, 32)
		if err != nil {
			return 0, InvalidValue
		}
		n[i] = v
	}
	for i := range e.devices {
		if n == [4]uint64{0, uint64(pciBus(i)), 0, 0} {
			return i, Success
		}
	}
	return 0, InvalidDevice
}

// CanAccessPeer is cuDeviceCanAccessPeer.
func (e *Engine) CanAccessPeer(dev, peer int) (bool, Code) {
	a, code := e.device(dev)
	if code != Success {
		return false, code
	}
	b, code := e.device(peer)
	if code != Success {
		return false, code
	}
	return e.canPeer(a, b), Success
}

// P2PAttribute is cuDeviceGetP2PAttribute.
func (e *Engine) P2PAttribute(attr int32, dev, peer int) (int, Code) {
	a, code := e.device(dev)
	if code != Success {
		return 0, code
	}
	b, code := e.device(peer)
	if code != Success {
		return 0, code
	}
	if a == b {
		return 0, InvalidDevice
	}
	ok := 0
	if e.canPeer(a, b) {
		ok = 1
	}
	switch attr {
	case 1: // performance rank
		return 0, Success
	case 2: // access supported
		return ok, Success
	case 3: // native atomics
		return ok, Success
	case 4: // array access
		return 0, Success
	case 5: // only partial native atomics
		return 0, Success
	}
	return 0, InvalidValue
}

// Limits of the device that the engine enforces.
const (
	maxThreadsPerBlock = 1024
	maxSharedPerBlock  = 48 << 10
	maxSharedOptin     = 227 << 10
	sharedPerSM        = 228 << 10
	smCount            = 16
	threadsPerSM       = 2048
	blocksPerSM        = 32
	maxPitch           = 1<<31 - 1
	ccMajor, ccMinor   = 9, 0
)

// deviceAttributes are plausible values for a device of compute capability 9.0; what the
// software device cannot do is 0.
var deviceAttributes = map[int32]int{
	1: maxThreadsPerBlock, 2: 1024, 3: 1024, 4: 64, 5: 1<<31 - 1, 6: 65535, 7: 65535,
	8: maxSharedPerBlock, 9: 64 << 10, 10: 32, 11: maxPitch, 12: 65536, 13: 1000000,
	14: 512, 15: 1, 16: smCount, 17: 0, 18: 0, 19: 1, 20: 0,
	21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384,
	27: 32768, 28: 32768, 29: 2048, 30: 512, 31: 1, 32: 0,
	34: 0, 35: 0, 36: 1000000, 37: 4096, 38: 32 << 20, 39: threadsPerSM, 40: 3, 41: 1,
	42: 32768, 43: 2048, 44: 1, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768,
	50: 0, 51: 32, 52: 32768, 53: 32768, 54: 2046,
	55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384,
	61: 32768, 62: 2048, 63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046,
	69: 268435456, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768,
	75: ccMajor, 76: ccMinor, 77: 32768, 78: 1, 79: 1, 80: 1,
	81: sharedPerSM, 82: 65536, 83: 1, 84: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1, 91: 1,
	92: 0, 93: 0, 94: 0, 95: 1, 96: 0, 97: maxSharedOptin, 98: 0, 99: 1, 100: 0, 101: 0,
	102: 0, 103: 0, 104: 0, 105: 0, 106: blocksPerSM, 107: 0, 108: 8 << 20, 109: 8 << 20,
	110: 0, 111: 1024, 112: 0, 113: 1, 114: 0, 115: 1, 116: 0, 117: 0, 118: 0, 119: 0,
	120: 1, 121: 0, 122: 1, 123: 1, 124: 0, 125: 0, 126: 1, 127: 0, 128: 0, 129: 1,
	130: 0, 131: -1, 132: 0, 133: 0, 134: 0, 135: 0, 136: 0, 137: 0, 138: 0,
	139: 0, 140: 0, 141: 0, 142: 0, 143: 0, 144: 1, 145: 0, 146: 0, 147: 0, 148: 0,
	149: 1, 150: 0, 151: 0, 152: 0, 153: 0, 154: 0, 155: 0, 156: 0, 157: smCount, 158: 0,
	159: 0, 160: 0, 161: 0,
}

// DeviceAttribute is cuDeviceGetAttribute.
func (e *Engine) DeviceAttribute(attr int32, dev int) (int, Code) {
	if _, code := e.device(dev); code != Success {
		return 0, code
	}
	switch attr {
	case 33:
		return pciBus(dev), Success
	case 85: // board group
		return dev, Success
	}
	v, ok := deviceAttributes[attr]
	if !ok {
		return 0, InvalidValue
	}
	return v, Success
}
