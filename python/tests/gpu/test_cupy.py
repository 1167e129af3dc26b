"""CuPy on a GPU: streams, arrays by both protocols, order."""

from __future__ import annotations

from typing import Any

import pytest
from gpuhelp import library, read

import handoff
from handoff import StreamView, StridedMemoryView, _core

cp = library("cupy")

N = 1 << 16
HOW = ["from_dlpack", "from_cuda_array_interface", "from_any_interface"]

SLEEP = r"""
extern "C" __global__ void set_late(int *p, int n, int value, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = value;
}
"""


def slow(stream: Any, value: int) -> Any:
    """An array of zeros that a slow kernel on the stream sets to value."""
    kernel = cp.RawKernel(SLEEP, "set_late")
    a = cp.zeros(N, "i4")
    kernel((1,), (256,), (a, cp.int32(0), cp.int32(0), cp.int64(0)))  # compiled and loaded now
    cp.cuda.Device().synchronize()
    with stream:
        kernel((1,), (256,), (a, cp.int32(N), cp.int32(value), cp.int64(200_000_000)))
    return a


def test_wrap() -> None:
    s = cp.cuda.Stream(non_blocking=True)
    v = StreamView(s)
    assert v.handle == s.ptr
    assert v.is_nonblocking
    assert StreamView(cp.cuda.Stream.null).handle == 0
    v.sync()


def test_cupy_takes_ours(stream: Any) -> None:
    wrap = getattr(cp.cuda.Stream, "from_external", None)
    s = wrap(stream) if wrap is not None else cp.cuda.ExternalStream(stream.handle)
    with s:
        a = cp.arange(8)
    stream.sync()
    assert a.tolist() == list(range(8))


@pytest.mark.parametrize("how", HOW)
def test_slow_producer(how: str, stream: Any) -> None:
    s = cp.cuda.Stream(non_blocking=True)
    a = slow(s, 7)
    with s:
        v = getattr(StridedMemoryView, how)(a, stream)
    assert v.stream == stream
    assert set(read(v, stream)) == {7}


def test_without_the_edge_it_is_wrong(stream: Any) -> None:
    s = cp.cuda.Stream(non_blocking=True)
    a = slow(s, 7)
    with s:
        d = dict(a.__cuda_array_interface__, stream=None)
    raw = type("Raw", (), {"__cuda_array_interface__": d})()
    assert set(read(StridedMemoryView.from_cuda_array_interface(raw, stream), stream)) == {0}
    s.synchronize()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("dtype", ["?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "F", "D"])
def test_dtypes(how: str, dtype: str, stream: Any) -> None:
    a = cp.ones((3, 4), dtype)
    v = getattr(StridedMemoryView, how)(a, stream)
    assert (v.ptr, v.shape, v.strides, v.dtype) == (a.data.ptr, (3, 4), None, a.dtype)
    assert read(v, stream) == a.tolist()
    b = cp.from_dlpack(v)
    assert b.data.ptr == a.data.ptr
    assert (b == a).all()


LAYOUTS = {
    "sliced": lambda a: a[::2, 1:],
    "reversed": lambda a: a[::-1, ::-1],
    "fortran": lambda a: cp.asfortranarray(a),
    "broadcast": lambda a: cp.broadcast_to(a[:, :1], (4, 5)),
    "0-d": lambda a: a[0, 0],
    "empty": lambda a: a[:, :0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", HOW)
def test_layouts(how: str, layout: str, stream: Any) -> None:
    a = LAYOUTS[layout](cp.arange(24, dtype="i4").reshape(4, 6))
    v = getattr(StridedMemoryView, how)(a, stream)
    assert v.shape == a.shape
    assert v.strides is None or v.strides == tuple(s // 4 for s in a.strides)
    assert read(v, stream) == a.tolist()


def test_arrays_are_read_directly(stream: Any) -> None:
    StridedMemoryView.from_dlpack(cp.arange(4), stream)
    assert _core._stats()["cupy_direct"] == 2


def test_reversed_by_dlpack(raises: Any) -> None:
    # R034, R053: CuPy's DLPack strides of a reversed array are no negative numbers. Refused, not misread.
    capsule = cp.arange(24, dtype="i4").reshape(4, 6)[::-1, ::-1].__dlpack__(max_version=(1, 0))
    with raises(handoff.LayoutError, "R034"):
        StridedMemoryView.from_dlpack(capsule, -1)


def test_consumes_ours(stream: Any) -> None:
    b = handoff.Device().allocate(4 * N, stream=stream)
    b.fill(b"\x05\x00\x00\x00", stream=stream)
    v = StridedMemoryView.from_buffer(b, (N,), dtype="int32")
    assert int(cp.from_dlpack(v).sum()) == 5 * N
    assert int(cp.asarray(v).sum()) == 5 * N
    assert cp.asarray(b).nbytes == 4 * N


def test_managed(stream: Any) -> None:
    pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
    with cp.cuda.using_allocator(pool.malloc):
        a = cp.arange(8)
    v = StridedMemoryView.from_cuda_array_interface(a, stream)
    assert v.__dlpack_device__() == (13, 0)
    assert v.is_host_accessible
    assert read(v, stream) == list(range(8))
