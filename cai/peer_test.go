package cai_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/cai"
	"github.com/go-handoff/handoff/dlpack"
)

// python finds the interpreter that the peer tests use: the one that
// HANDOFF_PYTHON names, else that of the repository's virtual environment.
func python(t *testing.T) string {
	t.Helper()
	if math.MaxUint == math.MaxUint32 {
		t.Skip("this program has 32-bit addresses, the interpreter 64-bit ones")
	}
	p := os.Getenv("HANDOFF_PYTHON")
	if p == "" {
		var err error
		p, err = filepath.Abs("../.venv/bin/python")
		require.NoError(t, err)
		if _, err := os.Stat(p); err != nil {
			t.Skip("no .venv/bin/python (make creates it) and no HANDOFF_PYTHON")
		}
	}
	if out, err := exec.Command(p, "-c", "import numpy").CombinedOutput(); err != nil {
		t.Skipf("NumPy is not installed there: %s", out)
	}
	return p
}

// toJSON writes tuples as {"t": [...]}.
func toJSON(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = toJSON(e)
		}
		return map[string]any{"t": out}
	case cai.List:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = toJSON(e)
		}
		return out
	}
	return v
}

func fromJSON(t *testing.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := []any{}
		for _, e := range v["t"].([]any) {
			out = append(out, fromJSON(t, e))
		}
		return out
	case []any:
		out := cai.List{}
		for _, e := range v {
			out = append(out, fromJSON(t, e))
		}
		return out
	case json.Number:
		n, err := v.Int64()
		require.NoError(t, err)
		return n
	}
	return v
}

type verdict struct {
	Error    string
	Str      string
	ItemSize int64
	Calcsize int64
	Shape    []int64
	Strides  []int64
	Address  uintptr
	Writable bool
}

type numpyArray struct {
	Interface map[string]any
	ItemSize  int64
	Str       string
	Shape     []int64
	Strides   []int64
	Writable  bool
	DLPack    bool
	Buffer    *struct {
		Format         string
		ItemSize, Len  int64
		NDim           int
		Shape, Strides []int64
		ReadOnly       bool
	}
}

type answer struct {
	NumPy             string
	TypeStrs, Formats []verdict
	Maps              []verdict
	Arrays            []numpyArray
}

func TestNumPyPeer(t *testing.T) {
	interpreter := python(t)
	typestrs := []string{
		"<f4", "=f8", "f8", "|f8", "|b1", "<u1", "<U3", "|S5", "|V4", "<V2", "|O8", "<M8[ns]", ">m8[25s]", "<m8[generic]", "<f16", "<c32",
		"<f3", "<i16", "|b2", "<c2", "<x4", "", "<", "<M8[]", "<M8[fortnight]", "<f-4", "<<f4", "|t8",
	}
	gen := genTypestr()
	for i := range 300 {
		ts := gen.Example(i)
		if ts.Unit.Num > math.MaxInt32 || ts.Unit.Den > 1 {
			ts.Unit.Num, ts.Unit.Den = 7, 1 // larger ones and odd divisors kill the NumPy process
		}
		typestrs = append(typestrs, ts.String())
	}
	formats := []string{
		"i", "l", "<l", "=q", "=L", "@L", "^q", "e", "?", "c", "Zf", "Zd", "Zg", "g", "3i", "(2,3)i", "5s", "3w", "4x", "T{i:a:d:b:}", "T{i:a:=d:b:}",
		"T{T{b:x:i:y:}:a:b:c:}", ">i", "!h", "<Zd", "bi", "^bi", "=bi", "bq", "bhiq", "=bhiq", "b:a:xxxi:b:", "O", "t", "&i", "u", "X{}", "P", "n", "=n", "Z", "y", "",
	}
	var maps []map[string]any
	var descs []dlpack.Desc
	for i := range 100 {
		d := genDesc().Example(i)
		a, err := cai.ArrayFromDesc(&d)
		require.NoError(t, err)
		m := map[string]any{}
		for k, v := range a.Map() {
			m[k] = toJSON(v)
		}
		maps, descs = append(maps, m), append(descs, d)
	}
	in, err := json.Marshal(map[string]any{"typestrs": typestrs, "formats": formats, "maps": maps})
	require.NoError(t, err)
	cmd := exec.Command(interpreter, "testdata/numpy_peer.py")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var got answer
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&got))
	t.Log("NumPy", got.NumPy)

	t.Run("typestrings", func(t *testing.T) {
		for i, s := range typestrs {
			v := got.TypeStrs[i]
			ts, err := cai.ParseTypestr(s)
			if v.Error != "" {
				// NumPy has no bit fields, no single-byte or 12-byte floats, no complex
				// of two halves and no pointers of the other word size.
				if err == nil && (ts.Kind == 't' || ts.Kind == 'f' || ts.Kind == 'c' || ts.Kind == 'O') {
					continue
				}
				require.Error(t, err, "%q: NumPy %s", s, v.Error)
				continue
			}
			if s == "<M8[]" {
				continue // NumPy takes it; R220 wants a unit
			}
			require.NoError(t, err, "%q", s)
			if ts.Unit.Name == "generic" || ts.Kind == 'O' {
				continue // NumPy leaves the unit out when it writes, and takes every size for a pointer's
			}
			require.Equal(t, v.ItemSize, ts.ItemSize(), "%q", s)
			want, err := cai.ParseTypestr(v.Str) // NumPy normalises | to its own order
			require.NoError(t, err)
			require.Equal(t, want.Kind, ts.Kind)
			require.Equal(t, want.Native(), ts.Native(), "%q", s)
			require.Equal(t, want.Unit, ts.Unit)
		}
	})
	t.Run("formats", func(t *testing.T) {
		for i, s := range formats {
			v := got.Formats[i]
			f, err := cai.ParseFormat(s)
			if v.Calcsize >= 0 {
				require.NoError(t, err, "%q", s)
				require.Equal(t, v.Calcsize, f.Size, "%q by the struct module", s)
			}
			if v.Error != "" {
				continue // the reader of NumPy knows fewer types
			}
			require.NoError(t, err, "%q", s)
			padded := (f.Size + f.Align - 1) / f.Align * f.Align
			require.True(t, v.ItemSize == f.Size || v.ItemSize == padded || len(f.Items) == 1 && f.Items[0].Fields != nil,
				"%q: NumPy %d, ours %d", s, v.ItemSize, f.Size)
			if d, err := f.DType(v.ItemSize); err == nil {
				if s == "c" {
					continue // S1 for NumPy, a raw byte for us
				}
				ts, err := cai.ParseTypestr(v.Str)
				require.NoError(t, err)
				want, err := ts.DType(nil)
				require.NoError(t, err, "%q %s", s, v.Str)
				require.Equal(t, want, d, "%q", s)
			}
		}
	})
	t.Run("dictionaries that we write", func(t *testing.T) {
		for i, d := range descs {
			v := got.Maps[i]
			require.Empty(t, v.Error, "%v", &d)
			require.Equal(t, d.Shape, append([]int64{}, v.Shape...))
			require.Equal(t, !d.Flags.Has(dlpack.FlagReadOnly), v.Writable)
			s, err := cai.FormatTypestr(d.DType)
			require.NoError(t, err)
			require.Equal(t, s, v.Str)
			if d.Size() == 0 {
				continue
			}
			require.Equal(t, d.Addr(), v.Address)
			strides := d.Strides
			if strides == nil {
				strides, err = dlpack.RowMajor(nil, d.Shape)
				require.NoError(t, err)
			}
			for k, n := range d.Shape {
				if n > 1 {
					require.Equal(t, strides[k]*int64(d.DType.ItemSize()), v.Strides[k], "%v", &d)
				}
			}
		}
	})
	t.Run("dictionaries and buffers that NumPy writes", func(t *testing.T) {
		converted := 0
		for _, a := range got.Arrays {
			m := map[string]any{}
			for k, v := range a.Interface {
				m[k] = fromJSON(t, v)
			}
			i, err := cai.ParseArrayInterface(m, nil)
			require.NoError(t, err, "%v", m)
			if a.Str != "|O" { // read as "|O8"
				require.Equal(t, a.Str, i.Typestr.String())
			}
			require.Equal(t, a.ItemSize, i.Typestr.ItemSize())
			require.Equal(t, a.Writable, !i.ReadOnly)
			d, err := i.Desc(dlpack.CPU, nil)
			if a.DLPack || !a.Writable && err == nil {
				require.NoError(t, err, "NumPy exports %s by DLPack", a.Str)
				converted++
			} else {
				require.Error(t, err, "NumPy refuses to export %s %v %v by DLPack", a.Str, a.Shape, a.Strides)
			}
			if a.Buffer == nil {
				continue
			}
			b := cai.Buffer{
				Addr: i.Data, Len: a.Buffer.Len, ItemSize: a.Buffer.ItemSize, ReadOnly: a.Buffer.ReadOnly, NDim: a.Buffer.NDim,
				Format: a.Buffer.Format, HasFormat: true, Shape: a.Buffer.Shape, Strides: a.Buffer.Strides,
			}
			f, ferr := cai.ParseFormat(b.Format)
			require.NoError(t, ferr, "%q", b.Format)
			require.Contains(t, []int64{f.Size, (f.Size + f.Align - 1) / f.Align * f.Align}, b.ItemSize, "%q", b.Format)
			bd, berr := b.Desc(dlpack.CPU)
			require.Equal(t, err == nil, berr == nil, "%q: %v, %v", b.Format, err, berr)
			if err == nil && d.Size() > 0 {
				require.Equal(t, d.DType, bd.DType)
				require.Equal(t, d.Flags, bd.Flags)
				require.Equal(t, a.Shape, append([]int64{}, bd.Shape...))
			}
		}
		require.Greater(t, converted, 100)
	})
}
