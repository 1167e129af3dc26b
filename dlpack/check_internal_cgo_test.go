//go:build cgo && linux && (amd64 || arm64)

package dlpack

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/go-handoff/handoff/internal/cptr"
	"github.com/go-handoff/handoff/internal/testenv/dlpacktest"
	"github.com/stretchr/testify/require"
)

// compare checks that the Go code, the C code and the short cut agree about a
// description.
func compare(t *testing.T, d *Desc, ndim int32, noShape bool) {
	t.Helper()
	raw := rawTensor{
		data: uint64(d.Data), byteOffset: d.ByteOffset, device: d.Device.Type, ndim: ndim, dtype: d.DType,
		hasShape: !noShape, shape: d.Shape, strides: d.Strides,
	}
	p := raw.check(d.Flags)
	k, rule := cCheck(d, ndim, noShape)
	if p.kind != k || p.rule != rule && k != kindOK {
		t.Fatalf("Go says %d R%03d (%s), C says %d R%03d\n%v ndim %d noShape %v", p.kind, p.rule, p.detail(), k, rule, d, ndim, noShape)
	}
	if k != kindOK && kindErrors[k] == nil {
		t.Fatalf("no error for %d", k)
	}
}

// interesting numbers come up more often than others.
var interesting = []int64{
	0, 1, 2, 3, 4, 5, 8, 16, -1, -2, -8, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 56, 1 << 60, 1 << 61, 1 << 62, math.MaxInt64,
	math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, -1 << 62,
}

// FuzzCheckGoAndC turns bytes into a description and compares the verdicts of
// check.go and check.c.
func FuzzCheckGoAndC(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g := gen{b}
		d := Desc{
			Data: uintptr(g.number()), ByteOffset: uint64(g.number()), Device: Device{Type: DeviceType(g.below(24)), ID: 0},
			DType: DataType{Code: TypeCode(g.below(21)), Bits: g.pick(8, 16, 32, 64, 4, 6, 128, uint8(g.below(256))), Lanes: uint16(g.below(4))},
			Flags: Flags(g.below(9)), Shape: []int64{},
		}
		if g.below(4) == 0 {
			d.Device.Type, d.DType = DeviceCPU, Float32
		}
		ndim := int32(g.below(8)) - 1
		if g.below(50) == 0 {
			ndim = int32(g.number())
		}
		for range ndim {
			if len(d.Shape) > MaxDims {
				break
			}
			d.Shape = append(d.Shape, g.number())
		}
		if g.below(2) == 0 && len(d.Shape) > 0 {
			for range d.Shape {
				d.Strides = append(d.Strides, g.number())
			}
		}
		compare(t, &d, ndim, g.below(20) == 0)
	})
}

// gen draws numbers from fuzz input; it gives zeros when that is used up.
type gen struct{ b []byte }

func (g *gen) byte() byte {
	if len(g.b) == 0 {
		return 0
	}
	c := g.b[0]
	g.b = g.b[1:]
	return c
}

func (g *gen) below(n int) int { return int(g.byte()) % n }

func (g *gen) pick(v ...uint8) uint8 { return v[g.below(len(v))] }

func (g *gen) number() int64 {
	switch c := g.byte(); c % 4 {
	case 0:
		return int64(c / 4)
	case 1:
		return interesting[int(c/4)%len(interesting)]
	case 2:
		return interesting[int(c/4)%len(interesting)] + int64(int8(g.byte()))
	}
	var w [8]byte
	for i := range w {
		w[i] = g.byte()
	}
	return int64(binary.LittleEndian.Uint64(w[:]))
}

func TestCheckGoAndCAgree(t *testing.T) {
	// The fuzz target above on many random inputs, in every test run.
	r := rand.New(rand.NewPCG(3, 4))
	verdicts := map[kind]int{}
	for range 100_000 {
		n := r.IntN(6)
		d := Desc{
			Data: 4096, Device: CPU, DType: []DataType{Float32, Int8, Float4E2M1FN, Complex128, Bool, Float6E2M3FN}[r.IntN(6)],
			Flags: Flags(r.IntN(2) * 4), Shape: []int64{},
		}
		switch r.IntN(20) {
		case 0:
			d.Data = uintptr(interesting[r.IntN(len(interesting))])
		case 1:
			d.ByteOffset = uint64(interesting[r.IntN(len(interesting))])
		case 2:
			d.DType = DataType{TypeCode(r.IntN(21)), uint8(r.IntN(256)), uint16(r.IntN(3))}
		case 3:
			d.Device.Type = DeviceType(r.IntN(25) - 1)
		case 4:
			d.Flags = Flags(r.IntN(16))
		}
		number := func() int64 {
			if r.IntN(4) == 0 {
				return interesting[r.IntN(len(interesting))]
			}
			return int64(r.IntN(6))
		}
		for range n {
			d.Shape = append(d.Shape, number())
		}
		if n > 0 && r.IntN(2) == 0 {
			for range n {
				d.Strides = append(d.Strides, number()-int64(r.IntN(6)))
			}
		}
		compare(t, &d, int32(n), r.IntN(100) == 0)
		verdicts[d.problem().kind]++
	}
	for _, k := range []kind{kindOK, kindFlags, kindDType, kindDevice, kindLayout, kindOverflow, kindNull, kindAlign} {
		require.Positive(t, verdicts[k], "verdict %d never came up", k)
	}
}

// FuzzRawHeader imports structs of random bytes. Whatever they say, the import
// ends with a tensor or an error, and the deleter runs exactly once.
func FuzzRawHeader(f *testing.F) {
	good := make([]byte, 80)
	binary.LittleEndian.PutUint32(good[0:], 1)
	binary.LittleEndian.PutUint32(good[4:], 3)
	binary.LittleEndian.PutUint64(good[32:], 4096)
	binary.LittleEndian.PutUint32(good[40:], 1)
	binary.LittleEndian.PutUint32(good[48:], 2)
	good[52], good[53], good[54] = 2, 32, 1
	good[56], good[64] = 1, 1
	f.Add(good, []byte{2, 0, 0, 0, 0, 0, 0, 0, 3}, true)
	f.Add(good[32:], []byte{}, false)
	for i := range good {
		b := append([]byte{}, good...)
		b[i] ^= 0xff
		f.Add(b, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}, true)
	}
	f.Fuzz(func(t *testing.T, b, dims []byte, versioned bool) {
		header := make([]byte, 80)
		copy(header, b)
		var shape, strides [64]int64
		g := gen{dims}
		for i := range shape {
			if len(g.b) == 0 {
				break
			}
			shape[i], strides[i] = g.number(), g.number()
		}
		deleted, alive, wrong := dlpacktest.Deleted(), dlpacktest.Alive(), dlpacktest.Wrong()
		p := dlpacktest.Raw(header, versioned, &shape, &strides)
		k, rule := cCheckManaged(p, versioned)
		m, err := Capsule{p, versioned}.Import()
		if (err == nil) != (k == kindOK) {
			t.Fatalf("Go says %v, C says %d R%03d", err, k, rule)
		}
		if err == nil {
			d, err := m.Desc()
			require.NoError(t, err)
			require.NoError(t, d.Check())
			require.Equal(t, d.Addr(), m.Addr())
			require.Len(t, m.Strides(nil), m.NDim())
			if q, err := m.Export(true); err == nil {
				n, err := ImportVersioned(q)
				require.NoError(t, err)
				n.Release()
			}
			m.Release()
		}
		require.Equal(t, deleted+1, dlpacktest.Deleted())
		require.Equal(t, alive, dlpacktest.Alive())
		require.Equal(t, wrong, dlpacktest.Wrong())
	})
}

func TestReleaseDuringUse(t *testing.T) {
	// A call that uses the tensor keeps it; the release happens at its end.
	spec := dlpacktest.Spec{Versioned: true, Major: 1, Minor: 3, Data: 4096, DeviceType: 1, Code: 2, Bits: 32, Lanes: 1}
	before := dlpacktest.Deleted()
	m, err := ImportVersioned(dlpacktest.New(spec))
	require.NoError(t, err)
	_, ok := m.use()
	require.True(t, ok)
	_, ok = m.use()
	require.True(t, ok)
	m.Release()
	m.Release()
	require.Equal(t, before, dlpacktest.Deleted())
	_, ok = m.use()
	require.False(t, ok, "closing")
	m.done()
	require.Equal(t, before, dlpacktest.Deleted(), "one user is left")
	m.done()
	require.Equal(t, before+1, dlpacktest.Deleted())
	m.Release()
	require.Equal(t, before+1, dlpacktest.Deleted())
	require.False(t, m.IsLive())
}

func TestShortCutAgrees(t *testing.T) {
	// What a short cut lets pass, the whole validation does too.
	r := rand.New(rand.NewPCG(5, 6))
	passed := 0
	for range 200_000 {
		n := r.IntN(5)
		var shape, strides [64]int64
		for i := range n {
			shape[i], strides[i] = int64(r.IntN(4)), int64(r.IntN(9))-4
			if r.IntN(8) == 0 {
				shape[i] = interesting[r.IntN(len(interesting))]
			}
			if r.IntN(8) == 0 {
				strides[i] = interesting[r.IntN(len(interesting))]
			}
		}
		spec := dlpacktest.Spec{
			Versioned: true, Major: 1, Data: uintptr(4 * r.IntN(5000)), ByteOffset: uint64(r.IntN(3)), DeviceType: int32(r.IntN(5)),
			NDim: int32(n), Code: uint8(r.IntN(8)), Bits: uint8(8 * r.IntN(17)), Lanes: uint16(1 + r.IntN(20)/19),
			Shape: shape[:], Strides: strides[:],
		}
		if r.IntN(10) == 0 {
			spec.Data, spec.ByteOffset = uintptr(interesting[r.IntN(len(interesting))]), uint64(interesting[r.IntN(len(interesting))])
		}
		p := dlpacktest.New(spec)
		tensor := &cptr.To[cManagedVersioned](p).tensor
		pr := tensor.problem(0)
		if tensor.plain() {
			passed++
			if pr.kind != kindOK {
				t.Fatalf("%+v: %s", spec, pr.detail())
			}
		}
		if k, rule := cCheckManaged(p, true); k != pr.kind || k != kindOK && rule != pr.rule {
			t.Fatalf("%+v: Go says %d R%03d, C with its short cut %d R%03d", spec, pr.kind, pr.rule, k, rule)
		}
		dlpacktest.Release(p, true)
	}
	require.Greater(t, passed, 1000)
}
