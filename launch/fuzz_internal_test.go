package launch

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/device"
	"github.com/go-handoff/handoff/device/driver"
	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/memview"
)

// argument makes a value of any kind that a launch may be given, some of them
// wrong, of fuzzed bytes.
func argument(b []byte) any {
	var raw [16]byte
	if len(b) > 1 {
		copy(raw[:], b[1:])
	}
	n := binary.LittleEndian.Uint64(raw[:])
	kind := byte(0)
	if len(b) > 0 {
		kind = b[0]
	}
	switch kind % 28 {
	case 0:
		return nil
	case 1:
		return int8(n)
	case 2:
		return int16(n)
	case 3:
		return int32(n)
	case 4:
		return int64(n)
	case 5:
		return int(n)
	case 6:
		return uint8(n)
	case 7:
		return uint32(n)
	case 8:
		return float32(n)
	case 9:
		return float64(n)
	case 10:
		return n&1 != 0
	case 11:
		return complex(float32(n), 1)
	case 12:
		return complex(float64(n), 1)
	case 13:
		return driver.DevicePtr(n)
	case 14:
		return Int32(int64(n))
	case 15:
		return Uint16(n)
	case 16:
		return Float16(float32(n))
	case 17:
		return struct {
			A int8
			B int64
		}{int8(n), int64(n)}
	case 18:
		return struct{ P *int }{nil}
	case 19:
		return [3]uint16{uint16(n), 1, 2}
	case 20:
		return "text"
	case 21:
		return []int{1}
	case 22:
		return (*device.Buffer)(nil)
	case 23:
		return memview.StridedMemoryView{}
	case 24, 25, 26:
		shape := [2]int64{int64(raw[0] % 5), int64(raw[1] % 5)}
		v, err := memview.FromRaw(&memview.Raw{
			Addr: uintptr(n &^ 15), Device: dlpack.Device{Type: dlpack.DeviceCUDA, ID: int32(raw[2] % 3)}, DType: dlpack.Float32, NDim: 2, Shape: &shape[0],
		}, memview.Unowned())
		if err != nil {
			return &v
		}
		switch kind % 28 {
		case 24:
			return v
		case 25:
			return MDSpan(v, int(raw[3]%4))
		}
		return MDSpan32(v, int(raw[3]%4))
	}
	return map[string]int{}
}

// FuzzArguments packs arguments of any kind for parameters of any size: either
// the argument is refused with a reason, or it lies in its own parameter. Bytes
// of other parameters never change, also when a type is seen again.
func FuzzArguments(f *testing.F) {
	f.Add([]byte{4, 8, 1, 2}, []byte{4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 9})
	f.Add([]byte{24, 8, 16, 12}, []byte{25, 1, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 26, 1})
	f.Add([]byte{}, []byte{13, 1, 2, 3})
	f.Fuzz(func(t *testing.T, sizes, args []byte) {
		blk := newBlock(pooledParams, pooledBytes)
		if blk == nil {
			t.Skip("needs C memory")
		}
		var params []ParamInfo
		off := uintptr(0)
		for _, s := range sizes[:min(len(sizes), 12)] {
			size := uintptr(s%64) + 1
			off = (off + 7) &^ 7
			params = append(params, ParamInfo{Offset: off, Size: size})
			off += size
		}
		if len(params) > 0 {
			blk.aim(newParamTable(params))
		} else {
			blk.aim(nil)
		}
		n := len(params)
		if n == 0 {
			n = 4
		}
		before := make([]byte, len(blk.vals))
		for i := range n {
			x := argument(args)
			if len(args) > 16 {
				args = args[16:]
			}
			for range 2 { // the second time its type is known
				copy(before, blk.vals)
				own := len(blk.own)
				_, m := blk.set(i, x)
				if m != nil {
					require.NotEmpty(t, m.Error())
					if len(params) == 0 && len(blk.own) == own {
						return // nothing was placed, so nothing can follow
					}
				}
				p := blk.param(i)
				require.LessOrEqual(t, p.Offset+p.Size, uintptr(len(blk.vals)))
				require.True(t, bytes.Equal(before[:p.Offset], blk.vals[:p.Offset]), "bytes before parameter %d", i)
				require.True(t, bytes.Equal(before[p.Offset+p.Size:], blk.vals[p.Offset+p.Size:]), "bytes behind parameter %d", i)
			}
		}
	})
}
