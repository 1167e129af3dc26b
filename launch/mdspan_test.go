package launch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-handoff/handoff/dlpack"
	"github.com/go-handoff/handoff/internal/testdriver"
	"github.com/go-handoff/handoff/internal/testlib"
	"github.com/go-handoff/handoff/launch"
	"github.com/go-handoff/handoff/memview"
	"github.com/go-handoff/handoff/pathfinder"
)

// mdspanSource has kernels that take NVIDIA's own mdspan by value. part writes
// one of the numbers that it is made of: the address, an extent, a stride.
const mdspanSource = `
#include <cuda/std/mdspan>

template <typename I, int rank, typename L>
using span = cuda::std::mdspan<float, cuda::std::dextents<I, rank>, L>;
using cuda::std::layout_right;
using cuda::std::layout_stride;

template <typename I, int rank, typename L, int what>
__global__ void part(long long *out, span<I, rank, L> s)
{
	if constexpr (what == 0)
		*out = (long long)s.data_handle();
	else if constexpr (what <= rank)
		*out = s.extent(what - 1);
	else
		*out = s.stride(what - rank - 1);
}

template <typename I, typename L>
__global__ void sum(double *out, span<I, 2, L> s)
{
	double t = 0;
	for (I i = 0; i < s.extent(0); i++)
		for (I j = 0; j < s.extent(1); j++)
			t = t * 2 + s.data_handle()[s.mapping()(i, j)];
	*out = t;
}
`

// spans are the kinds of span with the C++ types that they are for.
var spans = []struct {
	name  string
	index string
	word  int
	right bool
	of    func(v memview.StridedMemoryView, rank int) launch.Span
}{
	{"long long, strides", "long long", 8, false, launch.MDSpan},
	{"int, strides", "int", 4, false, launch.MDSpan32},
	{"long long, right", "long long", 8, true, func(v memview.StridedMemoryView, rank int) launch.Span { return launch.MDSpan(v, rank).Right() }},
	{"int, right", "int", 4, true, func(v memview.StridedMemoryView, rank int) launch.Span { return launch.MDSpan32(v, rank).Right() }},
}

func layoutName(right bool) string {
	if right {
		return "layout_right"
	}
	return "layout_stride"
}

// sums are the names of the kernels that add up, one for each of spans.
func sums() (names []string) {
	for _, k := range spans {
		names = append(names, fmt.Sprintf("sum<%s, %s>", k.index, layoutName(k.right)))
	}
	return names
}

// mdspanHeaders skips a test where NVIDIA's headers are not.
func mdspanHeaders(t *testing.T) {
	t.Helper()
	_, err := pathfinder.Default().Headers("cccl")
	testlib.Need(t, "CCCL (pip's nvidia-cuda-cccl)", err)
}

// TestMDSpanIsTheRealOne compares the bytes of a span with cuda::std::mdspan:
// its size is in the machine code, and the places of its parts are in the PTX,
// which loads each from an offset of the parameter.
func TestMDSpanIsTheRealOne(t *testing.T) {
	mdspanHeaders(t)
	type kernel struct {
		expr       string
		kind, rank int
		what       int
	}
	ranks := []int{0, 1, 2, 3, 8}
	var kernels []kernel
	var names []string
	for kind, s := range spans {
		for _, rank := range ranks {
			last := 2 * rank
			if s.right {
				last = rank
			}
			for what := range last + 1 {
				k := kernel{fmt.Sprintf("part<%s, %d, %s, %d>", s.index, rank, layoutName(s.right), what), kind, rank, what}
				kernels, names = append(kernels, k), append(names, k.expr)
			}
		}
	}
	names = append(names, sums()...) // those that a GPU runs compile
	opts := launch.ProgramOptions{ToolkitHeaders: true, Arch: "sm_90"}
	ptx := compile(t, mdspanSource, launch.FormatPTX, opts, names...)
	for _, k := range kernels {
		s := spans[k.kind]
		name := ptx.Symbols()[k.expr]
		params, err := ptx.ParamInfo(k.expr)
		require.NoError(t, err)
		require.Len(t, params, 2)

		shape, strides := make([]int64, k.rank), make([]int64, k.rank)
		step := int64(1)
		for d := k.rank - 1; d >= 0; d-- {
			shape[d], strides[d] = int64(d+2), step
			if step *= shape[d]; !s.right {
				step += 3
			}
		}
		v := tensorView(t, 0x123400, dlpack.Float32, dlpack.Device{Type: dlpack.DeviceCUDA}, shape, strides)
		packed, err := launch.Pack(s.of(v, k.rank), int(params[1].Size))
		if errors.Is(err, launch.ErrNotSupported) {
			t.Skip("needs C memory, which needs cgo on linux")
		}
		require.NoError(t, err, "%s: the parameter has %d bytes", k.expr, params[1].Size)

		begin := strings.Index(string(ptx.Code()), ".entry "+name+"(")
		require.Positive(t, begin, k.expr)
		body, _, _ := strings.Cut(string(ptx.Code()[begin:]), "\n}")
		offset := loadedFrom(t, body, name+"_param_1", s.word)
		word, want := s.word, int64(0x123400)
		switch {
		case k.what == 0:
			word = 8
		case k.what <= k.rank:
			want = shape[k.what-1]
		default:
			want = strides[k.what-k.rank-1]
		}
		have := int64(binary.NativeEndian.Uint32(packed[offset:]))
		if word == 8 {
			have = int64(binary.NativeEndian.Uint64(packed[offset:]))
		}
		require.Equal(t, want, have, "%s at byte %d of % x", k.expr, offset, packed)
	}
}

// loadedFrom returns the offset in a parameter of the one number that a kernel
// in PTX reads from it. The compiler may load two of word bytes at once, of
// which the kernel uses one.
func loadedFrom(t *testing.T, body, param string, word int) int {
	t.Helper()
	loads := regexp.MustCompile(`ld\.param\S*\s+(\{.*\}|%\w+), \[`+regexp.QuoteMeta(param)+`(?:\+(\d+))?\];`).FindAllStringSubmatch(body, -1)
	require.Len(t, loads, 1, body)
	offset, _ := strconv.Atoi("0" + loads[0][2])
	registers := strings.Split(strings.Trim(loads[0][1], "{}"), ", ")
	used := slices.IndexFunc(registers, func(r string) bool {
		return len(regexp.MustCompile(regexp.QuoteMeta(r)+`\b`).FindAllString(body, -1)) > 1
	})
	require.GreaterOrEqual(t, used, 0, body)
	return offset + used*word
}

// TestMDSpanValues runs kernels with NVIDIA's own mdspan.
func TestMDSpanValues(t *testing.T) {
	if !testdriver.Real() {
		t.Skip("needs a GPU: the software device runs no C++")
	}
	mdspanHeaders(t)
	s := newStream(t, 0)
	arch, err := s.Device().Arch()
	require.NoError(t, err)
	names := sums()
	code := compile(t, mdspanSource, launch.FormatCubin, launch.ProgramOptions{ToolkitHeaders: true, Arch: "sm_" + arch}, names...)
	x := make([]float32, 12)
	for i := range x {
		x[i] = float32(i + 1)
	}
	b, out := upload(t, s, x...), upload(t, s, 0.0)
	for i, k := range spans {
		t.Run(k.name, func(t *testing.T) {
			kernel, err := code.Kernel(names[i])
			require.NoError(t, err)
			closeLater(t, kernel)
			v := floats(t, b, 3, 4)
			if !k.right {
				v = v.Transpose()
			}
			want := 0.0
			for i := range v.Shape()[0] {
				for j := range v.Shape()[1] {
					want = want*2 + float64(x[i*v.Stride(0)+j*v.Stride(1)])
				}
			}
			require.NoError(t, launch.Launch(s, one, kernel, out, k.of(v, 2)))
			require.Equal(t, []float64{want}, download[float64](t, s, out))
		})
	}
}

// TestMDSpanRight refuses views in other orders, and fills up with zeros.
func TestMDSpanRight(t *testing.T) {
	at := func(shape, strides []int64) memview.StridedMemoryView {
		return tensorView(t, 0x1000, dlpack.Float32, dlpack.Device{Type: dlpack.DeviceCUDA}, shape, strides)
	}
	packed, err := launch.Pack(launch.MDSpan32(at([]int64{5}, nil), 1).Right(), 16)
	if errors.Is(err, launch.ErrNotSupported) {
		t.Skip("needs C memory, which needs cgo on linux")
	}
	require.NoError(t, err)
	require.Equal(t, []byte{0, 0x10, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}, packed)
	for name, v := range map[string]memview.StridedMemoryView{
		"transposed": at([]int64{2, 3}, []int64{1, 2}), "with gaps": at([]int64{2, 3}, []int64{4, 1}), "broadcast": at([]int64{2, 3}, []int64{0, 1}),
	} {
		_, err := launch.Pack(launch.MDSpan(v, 2).Right(), 24)
		require.ErrorIs(t, err, dlpack.ErrLayout, name)
	}
	_, err = launch.Pack(launch.MDSpan(at([]int64{2, 3}, nil), 2).Right(), 40)
	require.ErrorContains(t, err, "a span of 2 axes has 24 bytes, the parameter has 40")
	_, err = launch.Pack(launch.MDSpan32(at([]int64{1 << 32, 1}, nil), 2).Right(), 16)
	require.ErrorIs(t, err, dlpack.ErrOverflow)
}
