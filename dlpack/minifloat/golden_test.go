package minifloat_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack/minifloat"
)

// anyType lets the tests loop over the types.
type anyType struct {
	name   string
	bits   int
	info   minifloat.Info
	encode func(float32) uint16
	decode func(uint16) float32
	isNaN  func(uint16) bool
	isInf  func(uint16, int) bool
	sign   func(uint16) bool
	str    func(uint16) string
	parse  func(string) (uint16, error)
	wide   func(float64) uint16
}

type methods[T any] interface {
	Float32() float32
	IsNaN() bool
	IsInf(int) bool
	Signbit() bool
	String() string
	MarshalText() ([]byte, error)
}

type pointer[T any] interface {
	*T
	UnmarshalText([]byte) error
}

func typeOf[T interface {
	minifloat.Float
	methods[T]
}, P pointer[T]](to func(float32) T) anyType {
	info := minifloat.InfoOf[T]()
	return anyType{
		name: info.Name, bits: info.Bits, info: info,
		encode: func(f float32) uint16 { return uint16(to(f)) },
		decode: func(c uint16) float32 { return T(c).Float32() },
		isNaN:  func(c uint16) bool { return T(c).IsNaN() },
		isInf:  func(c uint16, s int) bool { return T(c).IsInf(s) },
		sign:   func(c uint16) bool { return T(c).Signbit() },
		str:    func(c uint16) string { return T(c).String() },
		parse: func(s string) (uint16, error) {
			var v T
			err := P(&v).UnmarshalText([]byte(s))
			return uint16(v), err
		},
		wide: func(f float64) uint16 { return uint16(minifloat.FromFloat64[T](f)) },
	}
}

var types = []anyType{
	typeOf(minifloat.ToBFloat16),
	typeOf(minifloat.ToFloat8E3M4),
	typeOf(minifloat.ToFloat8E4M3),
	typeOf(minifloat.ToFloat8E4M3B11FNUZ),
	typeOf(minifloat.ToFloat8E4M3FN),
	typeOf(minifloat.ToFloat8E4M3FNUZ),
	typeOf(minifloat.ToFloat8E5M2),
	typeOf(minifloat.ToFloat8E5M2FNUZ),
	typeOf(minifloat.ToFloat8E8M0FNU),
	typeOf(minifloat.ToFloat6E2M3FN),
	typeOf(minifloat.ToFloat6E3M2FN),
	typeOf(minifloat.ToFloat4E2M1FN),
}

func typeNamed(t *testing.T, name string) anyType {
	t.Helper()
	for _, a := range types {
		if a.name == name {
			return a
		}
	}
	require.Failf(t, "unknown type", "%q", name)
	return anyType{}
}

// patterns reads hexadecimal numbers of the given digits.
func patterns(t *testing.T, s string, digits int) []uint32 {
	t.Helper()
	raw, err := hex.DecodeString(s)
	require.NoError(t, err)
	n := digits / 2
	out := make([]uint32, 0, len(raw)/n)
	for ; len(raw) > 0; raw = raw[n:] {
		var v uint32
		for _, b := range raw[:n] {
			v = v<<8 | uint32(b)
		}
		out = append(out, v)
	}
	return out
}

// check compares the package with what golden.py printed; inputs are those of
// the file, if it names any.
func check(t *testing.T, r io.Reader, inputs []uint32) {
	var decodes, encodes, infos int
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch f[0] {
		case "#":
			t.Log(lines.Text())
		case "input":
			inputs = patterns(t, f[1], 8)
			require.Greater(t, len(inputs), 3000)
		case "decode":
			a := typeNamed(t, f[1])
			want := patterns(t, f[2], 8)
			require.Len(t, want, 1<<a.bits)
			for c, w := range want {
				got := math.Float32bits(a.decode(uint16(c)))
				if got != w {
					t.Fatalf("%s code %#x: %#08x, want %#08x", a.name, c, got, w)
				}
			}
			decodes++
		case "finfo":
			a := typeNamed(t, f[1])
			numbers := []int{a.info.Bits, a.info.ExponentBits, a.info.MantissaBits}
			for i, n := range numbers {
				w, err := strconv.Atoi(f[2+i])
				require.NoError(t, err)
				require.Equalf(t, w, n, "%s", lines.Text())
			}
			values := []float32{a.info.Max, a.info.Lowest, a.info.SmallestNormal, a.info.SmallestSubnormal, a.info.Epsilon}
			for i, w := range patterns(t, f[5], 8) {
				require.Equalf(t, math.Float32frombits(w), values[i], "%s value %d", a.name, i)
			}
			infos++
		case "encode":
			a := typeNamed(t, f[1])
			digits := 2
			if a.bits == 16 {
				digits = 4
			}
			want := patterns(t, f[2], digits)
			require.Len(t, want, len(inputs))
			for i, w := range want {
				f := math.Float32frombits(inputs[i])
				if got := uint32(a.encode(f)); got != w {
					t.Fatalf("%s of %#08x (%v): %#x, want %#x", a.name, inputs[i], f, got, w)
				}
			}
			encodes++
		default:
			require.Failf(t, "line", "%q", f[0])
		}
	}
	require.NoError(t, lines.Err())
	require.Equal(t, len(types), encodes)
	require.Equal(t, len(types), infos)
	require.GreaterOrEqual(t, decodes, len(types)-1) // the file leaves bfloat16 to the formula
}

// TestGolden compares with the table that ml_dtypes made.
func TestGolden(t *testing.T) {
	f, err := os.Open("testdata/ml_dtypes.txt")
	require.NoError(t, err)
	defer f.Close()
	check(t, f, nil)
}

// TestLive compares with the ml_dtypes of the Python that HANDOFF_PYTHON names,
// else of the repository's virtual environment, on numbers that differ from run
// to run.
func TestLive(t *testing.T) {
	python := os.Getenv("HANDOFF_PYTHON")
	if python == "" {
		var err error
		python, err = filepath.Abs("../../.venv/bin/python")
		require.NoError(t, err)
		if _, err := os.Stat(python); err != nil {
			t.Skip("no .venv/bin/python (make creates it) and no HANDOFF_PYTHON; the checked-in table was tested")
		}
	}
	if out, err := exec.Command(python, "-c", "import ml_dtypes").CombinedOutput(); err != nil {
		t.Skipf("ml_dtypes is not installed there: %s", out)
	}
	inputs := make([]uint32, 200_000)
	var in bytes.Buffer
	for i := range inputs {
		inputs[i] = rand.Uint32()
		if i%2 == 0 { // the range of the small types
			inputs[i] = math.Float32bits(float32(math.Ldexp(rand.Float64()*2-1, rand.IntN(50)-30)))
		}
		require.NoError(t, binary.Write(&in, binary.LittleEndian, inputs[i]))
	}
	cmd := exec.Command(python, "testdata/golden.py", "--live")
	cmd.Stdin = &in
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	check(t, bytes.NewReader(out), inputs)
}
