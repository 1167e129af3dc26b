package cai_test

import (
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// values makes neutral values of fuzzed bytes.
type values struct{ b []byte }

func (v *values) byte() byte {
	if len(v.b) == 0 {
		return 0
	}
	c := v.b[0]
	v.b = v.b[1:]
	return c
}

func (v *values) number() int64 {
	switch c := v.byte(); {
	case c < 0xf0:
		return int64(int8(c))
	default:
		var raw [8]byte
		n := copy(raw[:], v.b)
		v.b = v.b[n:]
		return int64(binary.LittleEndian.Uint64(raw[:]))
	}
}

func (v *values) text() string {
	n := min(int(v.byte()&31), len(v.b))
	s := string(v.b[:n])
	v.b = v.b[n:]
	return s
}

func (v *values) any(depth int) any {
	kind := v.byte() % 16
	if depth > 4 && (kind == 4 || kind == 5) {
		kind = 0
	}
	switch kind {
	case 1:
		return v.byte()&1 != 0
	case 2:
		return v.text()
	case 3:
		return []byte(v.text())
	case 4:
		t := []any{}
		for range v.byte() & 7 {
			t = append(t, v.any(depth+1))
		}
		return t
	case 5:
		t := cai.List{}
		for range v.byte() & 7 {
			t = append(t, v.any(depth+1))
		}
		return t
	case 6:
		return 1.5
	case 7:
		return new(big.Int).Lsh(big.NewInt(v.number()), uint(v.byte()))
	case 8:
		return uint64(v.number())
	case 9:
		return map[string]any{}
	case 10:
		return &struct{}{}
	case 11, 12: // plausible shapes and addresses
		t := []any{}
		for range v.byte() & 3 {
			t = append(t, v.number())
		}
		return t
	case 13:
		return []any{v.number(), v.byte()&1 != 0}
	}
	return v.number()
}

func (v *values) dict() map[string]any {
	d := good()
	for range v.byte() & 7 {
		keys := []string{"shape", "typestr", "data", "version", "strides", "descr", "mask", "stream", "offset"}
		key := keys[int(v.byte())%len(keys)]
		switch v.byte() % 8 {
		case 0:
			delete(d, key)
		case 1:
			d[key] = []string{"|V8", "<f4", ">i2", "<c16", "|O8", "<M8[s]", "|V0"}[v.byte()%7]
		default:
			d[key] = v.any(0)
		}
	}
	return d
}

func FuzzDict(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte{2, 0, 2, 11, 2, 3, 4, 4, 2, 12, 2, 12, 4}, false)
	f.Add([]byte{3, 1, 1, 0, 5, 2, 5, 1, 4, 2, 2, 1, 'a', 2, 3, '<', 'i', '8'}, true)
	f.Add([]byte{1, 2, 2, 0}, true)
	f.Add([]byte("\x03\x00\x02\x0b\x03\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x02\x02"), false)
	f.Fuzz(func(t *testing.T, raw []byte, lists bool) {
		v := values{raw}
		d := v.dict()
		opts := &cai.ParseOptions{AllowLists: lists}
		check := func(err error) {
			var r *dlpack.RuleError
			require.ErrorAs(t, err, &r)
			require.NotEmpty(t, r.Rule)
			require.Error(t, r.Err)
		}
		if i, err := cai.Parse(d, opts); err != nil {
			check(err)
			require.Zero(t, i)
		} else {
			require.NoError(t, i.Check())
			again, err := cai.Parse(i.Map(), nil)
			require.NoError(t, err)
			if i.Version >= 2 && i.Size() == 0 {
				again.Data = i.Data // R173
			}
			require.Equal(t, i, again)
			desc, err := i.Desc(cuda0, &cai.DTypeOptions{As: dlpack.BFloat16, TimesAsInt64: true})
			if err != nil {
				check(err)
			} else {
				require.NoError(t, desc.Check())
			}
		}
		if i, err := cai.ParseArrayInterface(d, opts); err != nil {
			check(err)
			require.Zero(t, i)
		} else {
			require.NoError(t, i.Check())
			again, err := cai.ParseArrayInterface(i.Map(), nil)
			require.NoError(t, err)
			require.Equal(t, i, again)
			addr, size := uintptr(v.number()), v.number()
			r, err := i.Resolve(addr, size, true)
			if err != nil {
				check(err)
				return
			}
			if i.Buffer != nil && r.Size() > 0 {
				require.GreaterOrEqual(t, size, int64(0))
				require.GreaterOrEqual(t, uint64(r.Data), uint64(addr))
			}
			if desc, err := r.Desc(dlpack.CPU, nil); err != nil {
				check(err)
			} else {
				require.NoError(t, desc.Check())
			}
		}
	})
}

func FuzzBuffer(f *testing.F) {
	f.Add(uint64(0x1000), int64(24), int64(4), 2, "f", true, []byte{2, 3}, []byte{12, 4}, true, true)
	f.Add(uint64(0), int64(0), int64(1), 0, "", false, []byte{}, []byte{}, false, false)
	f.Fuzz(func(t *testing.T, addr uint64, length, itemsize int64, ndim int, format string, hasFormat bool, shape, strides []byte, hasShape, hasStrides bool) {
		b := cai.Buffer{Addr: uintptr(addr), Len: length, ItemSize: itemsize, NDim: ndim, Format: format, HasFormat: hasFormat}
		read := func(raw []byte, has bool) (out []int64) {
			if !has {
				return nil
			}
			v := values{raw}
			for out = []int64{}; len(v.b) > 0 && len(out) < 70; {
				out = append(out, v.number())
			}
			return out
		}
		b.Shape, b.Strides = read(shape, hasShape), read(strides, hasStrides)
		d, err := b.Desc(dlpack.CPU)
		if err != nil {
			var r *dlpack.RuleError
			require.ErrorAs(t, err, &r)
			return
		}
		require.NoError(t, d.Check())
		n, err := d.DType.ByteSize(d.Size(), false)
		require.NoError(t, err)
		require.Equal(t, b.Len, n)
	})
}
