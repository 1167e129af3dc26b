package launch

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/pathfinder"
)

// TestCutOffCode cuts machine code at every length. The driver, which is told
// no length, would read beyond the end.
func TestCutOffCode(t *testing.T) {
	code, err := os.ReadFile("testdata/small.cubin")
	require.NoError(t, err)
	require.NoError(t, checkWhole(FormatCubin, code))
	// The end of what there is, as another reader of such files finds it.
	other := bytes.Clone(code)
	binary.LittleEndian.PutUint32(other[20:], uint32(elf.EV_CURRENT))
	f, err := elf.NewFile(bytes.NewReader(other))
	require.NoError(t, err)
	end := binary.LittleEndian.Uint64(code[40:]) + 64*uint64(len(f.Sections))
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	end = max(end, binary.LittleEndian.Uint64(code[32:])+56*uint64(len(f.Progs)))
	require.NotZero(t, len(f.Progs))
	for n := range int(end) {
		require.ErrorIs(t, checkWhole(FormatCubin, code[:n]), ErrImage, "%d of %d bytes", n, len(code))
	}
	require.NoError(t, checkWhole(FormatCubin, code[:end]))

	fatbin := make([]byte, 16+40)
	binary.LittleEndian.PutUint32(fatbin, magicFatbin)
	binary.LittleEndian.PutUint16(fatbin[6:], 16)
	binary.LittleEndian.PutUint64(fatbin[8:], 40)
	require.NoError(t, checkWhole(FormatFatbin, fatbin))
	for n := range fatbin {
		require.ErrorIs(t, checkWhole(FormatFatbin, fatbin[:n]), ErrImage)
	}
	binary.LittleEndian.PutUint64(fatbin[8:], 1<<64-1)
	require.ErrorIs(t, checkWhole(FormatFatbin, fatbin), ErrImage)

	c, err := NewObjectCode(code[:len(code)/2], &ObjectOptions{Name: "half.cubin"})
	require.NoError(t, err)
	_, err = c.Kernel("k")
	require.ErrorIs(t, err, ErrImage)
	require.ErrorContains(t, err, "cut off")
	c, err = NewObjectCode([]byte("\x7fELF\x02\x01\x01"+strings.Repeat("\x00", 11)+"\xbe\x00"+strings.Repeat("\x00", 64)), nil)
	require.NoError(t, err)
	_, err = c.Kernel("k")
	require.ErrorIs(t, err, ErrImage)
	require.ErrorContains(t, err, "without sections")
}

// TestWholeFatbin takes the fatbin of NVIDIA's device runtime, out of the
// library to link with, and cuts it.
func TestWholeFatbin(t *testing.T) {
	testlib.Setup()
	at, err := pathfinder.Default().Static("cudadevrt")
	testlib.Need(t, "the device runtime", err)
	library, err := os.ReadFile(at.Path)
	require.NoError(t, err)
	object := library[bytes.Index(library, []byte("\x7fELF")):]
	f, err := elf.NewFile(bytes.NewReader(object))
	require.NoError(t, err)
	section := f.Section("__nv_relfatbin")
	require.NotNil(t, section)
	code, err := section.Data()
	require.NoError(t, err)
	require.Equal(t, FormatFatbin, DetectFormat(code))
	require.NoError(t, checkWhole(FormatFatbin, code))
	require.ErrorIs(t, checkWhole(FormatFatbin, code[:len(code)-1]), ErrImage)
}

// FuzzCheckWhole looks for bytes that are read beyond their end.
func FuzzCheckWhole(f *testing.F) {
	code, err := os.ReadFile("testdata/small.cubin")
	require.NoError(f, err)
	f.Add(byte(FormatCubin), code)
	f.Add(byte(FormatFatbin), code[:64])
	f.Fuzz(func(_ *testing.T, format byte, code []byte) {
		_ = checkWhole(Format(format), code)
	})
}
