package dlpack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
)

// TestOneTypeForATriple is B093: code, bits and lanes together name a type. Every
// triple that is known has a name of its own, which gives that triple back, and no
// two triples share one; there is no table in which a second type could be
// registered for a triple.
func TestOneTypeForATriple(t *testing.T) {
	names := map[string]dlpack.DataType{}
	known := 0
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 4} {
				d := dlpack.DataType{Code: dlpack.TypeCode(code), Bits: uint8(bits), Lanes: lanes}
				name := d.String()
				if other, taken := names[name]; taken {
					t.Fatalf("%s is %v and %v", name, other, d)
				}
				names[name] = d
				if !d.Known() {
					continue
				}
				known++
				back, err := dlpack.ParseDataType(name)
				require.NoError(t, err, name)
				require.Equal(t, d, back, name)
			}
		}
	}
	require.Greater(t, known, 90)
	require.NotEqual(t, dlpack.BFloat16, dlpack.UInt16)
	require.NotEqual(t, dlpack.BFloat16.String(), dlpack.DataType{Code: dlpack.CodeBfloat, Bits: 16, Lanes: 2}.String())
}
