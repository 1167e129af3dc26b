"""JAX, Numba and cuda.core on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
from gpuhelp import read, real_gpu

import handoff
from handoff import StreamView, StridedMemoryView

N = 1 << 12


@pytest.fixture
def jax() -> Any:
    if not handoff.Device.get_all_devices():
        pytest.skip("no device")
    module = pytest.importorskip("jax")
    if module.default_backend() != "gpu":
        pytest.skip("jax has no GPU here")
    return module


@pytest.fixture
def numba_cuda() -> Any:
    pytest.importorskip("numba")
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("numba sees no GPU")
    return cuda


needs_gpu = pytest.mark.skipif(not real_gpu(), reason="loads CUDA's driver itself, and there is no GPU")


def test_jax(jax: Any, stream: Any) -> None:
    x = jax.numpy.arange(N) * 2
    v = StridedMemoryView.from_dlpack(x, stream)
    # R014: JAX does not say that its arrays must not be written, and on a GPU nothing else says so.
    assert v.device_id == 0
    assert read(v, stream)[:4] == [0, 2, 4, 6]


@pytest.mark.parametrize("dtype", ["int8", "uint32", "float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_jax_dtypes(dtype: str, jax: Any, stream: Any) -> None:
    x = jax.numpy.ones(8, dtype)
    try:
        v = StridedMemoryView.from_any_interface(x, stream)
    except BufferError:
        pytest.skip("jax does not export the type")
    assert v.itemsize == x.dtype.itemsize
    y = jax.dlpack.from_dlpack(v)
    assert y.dtype == x.dtype


def test_jax_takes_ours(jax: Any, stream: Any) -> None:
    b = handoff.Device().allocate(4 * N, stream=stream)
    b.fill(b"\x03\x00\x00\x00", stream=stream)
    x = jax.dlpack.from_dlpack(StridedMemoryView.from_buffer(b, (N,), dtype="int32"))
    assert int(x.sum()) == 3 * N


def test_numba_streams(numba_cuda: Any, stream: Any) -> None:
    s = numba_cuda.stream()
    v = StreamView(s)
    v.sync()
    stream.wait(s)
    assert StreamView(numba_cuda.default_stream()).handle in (0, 1)


@pytest.mark.parametrize("sync", [True, False])
def test_numba_arrays(sync: bool, numba_cuda: Any, stream: Any) -> None:
    np = pytest.importorskip("numpy")
    s = numba_cuda.stream() if sync else 0
    d = numba_cuda.to_device(np.arange(24, dtype="i4").reshape(4, 6), stream=s)
    for a in (d, d[1:, ::2]):
        v = StridedMemoryView.from_any_interface(a, stream)
        assert v.shape == a.shape
        assert read(v, stream) == a.copy_to_host().tolist()


def test_numba_takes_ours(numba_cuda: Any, stream: Any) -> None:
    b = handoff.Device().allocate(4 * N, stream=stream)
    b.fill(b"\x03\x00\x00\x00", stream=stream)
    a = numba_cuda.as_cuda_array(StridedMemoryView.from_buffer(b, (N,), dtype="int32"))
    assert a.copy_to_host().sum() == 3 * N


@needs_gpu
def test_cuda_core(stream: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    s = device.create_stream()
    v = StreamView(s)
    assert v.handle == int(s.handle)
    assert v.device_id == 0
    assert v.is_nonblocking == s.is_nonblocking
    assert v.priority == s.priority
    stream.wait(s)
    s.wait(stream)  # and ours by its rules
    w = device.create_stream(stream)
    assert int(w.handle) == stream.handle
    assert StreamView(w) == stream
    b = device.allocate(64, stream=s)
    ours = StridedMemoryView.from_dlpack(b, stream)
    assert ours.size == 64
    theirs = core.utils.StridedMemoryView.from_any_interface(ours, stream_ptr=stream.handle)
    assert theirs.ptr == ours.ptr
    again = StridedMemoryView.from_dlpack(theirs, stream)
    assert again.ptr == ours.ptr
    b2 = handoff.Device(0).allocate(64, stream=s)
    assert core.utils.StridedMemoryView.from_any_interface(b2, stream_ptr=int(s.handle)).device_id == 0
    s.sync()


@needs_gpu
def test_cuda_core_events_of_ours(stream: Any) -> None:
    core = pytest.importorskip("cuda.core")
    core.Device(0).set_current()
    e = stream.record()
    assert e.is_done in (True, False)
    e.sync()


def test_bindings(stream: Any) -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    assert StreamView(driver.CUstream(stream.handle)) == stream
