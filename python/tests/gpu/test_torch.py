"""PyTorch on a GPU: streams, tensors as producers and consumers, order, capture."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from gpuhelp import library, read

import handoff
from handoff import StreamView, StridedMemoryView

torch = library("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)

N = 1 << 16
CYCLES = 200_000_000  # about a tenth of a second

NAMES = """
    uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool
    uint16 uint32 uint64 float8_e4m3fn float8_e5m2
"""
DTYPES = [n for n in NAMES.split() if hasattr(torch, n)]


@pytest.fixture
def streams() -> Any:
    pair = torch.cuda.Stream(), torch.cuda.Stream()
    yield pair
    torch.cuda.synchronize()


def slow(stream: Any, value: float) -> Any:
    """A tensor of zeros that a slow kernel on the stream sets to value."""
    t = torch.zeros(N, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(CYCLES)
        t.fill_(value)
    return t


# ---- Streams -----------------------------------------------------------------


def test_wrap(streams: Any) -> None:
    s = streams[0]
    v = StreamView(s)
    assert v.handle == s.cuda_stream
    assert v.device_id == s.device_index
    assert v.exporting_obj is s
    assert StreamView(torch.cuda.default_stream()).handle == 0
    r = weakref.ref(s)
    assert r() is s
    v.close()
    s.synchronize()  # still alive


def test_wait_for_torch(streams: Any, stream: Any) -> None:
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(CYCLES)
    stream.wait(streams[0])
    assert not stream.is_done
    stream.sync()
    assert StreamView(streams[0]).is_done


def test_torch_waits_for_us(stream: Any, gate: Any) -> None:
    e = torch.cuda.ExternalStream(stream.handle)
    with gate(stream) as open_gate:
        t = torch.cuda.Stream()
        t.wait_stream(e)
        assert not t.query()
        open_gate()
    t.synchronize()


def test_record_and_elapsed(streams: Any) -> None:
    v = StreamView(streams[0])
    a = v.record(options={"timing_enabled": True})
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(CYCLES)
    b = v.record(options={"timing_enabled": True})
    b.sync()
    assert b - a > 1


# ---- Order -------------------------------------------------------------------


@pytest.mark.parametrize("how", ["from_dlpack", "from_cuda_array_interface", "from_any_interface"])
def test_slow_producer(how: str, streams: Any, stream: Any) -> None:
    t = slow(streams[0], 7)
    with torch.cuda.stream(streams[0]):
        v = getattr(StridedMemoryView, how)(t, stream)
    if v.producer_stream is None:
        pytest.skip("this torch tells no stream this way")
    assert v.producer_stream == StreamView(streams[0])
    assert set(read(v, stream)) == {7.0}


def test_without_the_edge_it_is_wrong(streams: Any, stream: Any) -> None:
    t = slow(streams[0], 7)
    with torch.cuda.stream(streams[0]):
        v = StridedMemoryView.from_dlpack(t, -1)
    raw = type("Raw", (), {"__cuda_array_interface__": v.__cuda_array_interface__ | {"stream": None}})()
    assert set(read(StridedMemoryView.from_cuda_array_interface(raw, stream), stream)) == {0.0}


def test_torch_as_consumer(streams: Any, stream: Any) -> None:
    b = handoff.Device().allocate(4 * N, stream=stream)
    b.fill(0, stream=stream)
    with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):
        torch.cuda._sleep(CYCLES)
    b.fill(1, stream=stream)
    v = StridedMemoryView.from_buffer(b, (N,), dtype="int32")
    with torch.cuda.stream(streams[1]):
        t = torch.from_dlpack(v)
        s = t.sum()
    b.close()
    streams[1].synchronize()
    assert t.data_ptr() == v.ptr
    assert s.item() == 0x01010101 * N


def test_round_trip_keeps_the_memory(stream: Any) -> None:
    t = torch.arange(N, device="cuda")
    v = StridedMemoryView.from_dlpack(t, stream)
    r = weakref.ref(t)
    u = torch.from_dlpack(v)
    del t, v
    gc.collect()
    assert u[-1].item() == N - 1
    del u
    gc.collect()
    assert r() is None


def test_release_on(streams: Any, stream: Any, gate: Any) -> None:
    with torch.cuda.stream(streams[0]):
        t = torch.zeros(N, device="cuda")
        v = StridedMemoryView.from_dlpack(t, stream)
    del t
    with gate(stream) as open_gate:
        v.release_on(stream)
        assert not streams[0].query(), "torch's stream waits, and with it the reuse of the memory"
        open_gate()


# ---- What a tensor can be ----------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str, stream: Any) -> None:
    t = torch.ones(8, device="cuda").to(getattr(torch, dtype))
    v = StridedMemoryView.from_dlpack(t, stream)
    assert v.ptr == t.data_ptr()
    assert v.itemsize == t.element_size()
    assert v.dlpack_dtype is not None
    try:
        u = torch.from_dlpack(v)
    except BufferError:
        return  # torch does not take the type back
    assert u.dtype == t.dtype
    assert torch.equal(u.view(torch.uint8), t.view(torch.uint8))


LAYOUTS = {
    "contiguous": lambda t: t,
    "sliced": lambda t: t[::2, 1:],
    "transposed": lambda t: t.T,
    "broadcast": lambda t: t[:, :1].expand(-1, 5),
    "0-d": lambda t: t[0, 0],
    "empty": lambda t: t[:, :0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, stream: Any) -> None:
    t = LAYOUTS[layout](torch.arange(24, device="cuda", dtype=torch.int32).reshape(4, 6))
    v = StridedMemoryView.from_any_interface(t, stream)
    assert v.shape == tuple(t.shape)
    assert (v.strides is None) or v.strides == tuple(t.stride())
    assert read(v, stream) == t.tolist()


def test_pinned_and_cpu(stream: Any) -> None:
    p = torch.arange(8).pin_memory()
    assert StridedMemoryView.from_dlpack(p).device_id == -1
    v = StridedMemoryView.from_dlpack(torch.empty(8, dtype=torch.int64, device="cuda"), stream)
    v.copy_from(p, stream)
    assert read(v, stream) == list(range(8))


def test_copy_from_a_strided_tensor(stream: Any) -> None:
    t = torch.arange(64, device="cuda", dtype=torch.float32).reshape(8, 8)
    u = torch.zeros(8, 8, device="cuda")
    StridedMemoryView.from_dlpack(u, stream).copy_from(t.T, stream)
    stream.sync()
    assert torch.equal(u, t.T)


def test_refused_tensors(stream: Any) -> None:
    with pytest.raises((BufferError, RuntimeError, TypeError, AttributeError)):
        StridedMemoryView.from_dlpack(torch.ones(2, device="cuda").to_sparse(), stream)


def test_a_tensor_with_a_gradient(stream: Any) -> None:
    # R157: PyTorch's __dlpack__ refuses it, its exchange table does not; either is an answer.
    t = torch.ones(2, device="cuda", requires_grad=True)
    try:
        v = StridedMemoryView.from_dlpack(t, stream)
    except BufferError:
        return
    assert v.ptr == t.data_ptr()


def test_threads_have_their_own_current_stream(streams: Any, stream: Any) -> None:
    import threading

    t = torch.ones(4, device="cuda")
    seen: list[Any] = []

    def work(s: Any) -> None:
        with torch.cuda.stream(s):
            seen.append((StridedMemoryView.from_dlpack(t, stream).producer_stream, StreamView(s)))

    threads = [threading.Thread(target=work, args=(s,)) for s in streams]
    for x in threads:
        x.start()
        x.join()
    assert all(a is None or a == b for a, b in seen)


# ---- Capture -----------------------------------------------------------------


def test_under_capture(stream: Any) -> None:
    t = torch.zeros(N, device="cuda", dtype=torch.int32)
    u = torch.zeros(N, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        here = torch.cuda.current_stream()
        assert StreamView(here).is_capturing
        t.add_(1)
        stream.wait(here)
        assert stream.is_capturing
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)):
            pass
        v = StridedMemoryView.from_dlpack(u, stream)
        v.copy_from(StridedMemoryView.from_dlpack(t, stream), stream)
        with pytest.raises(handoff.DriverError, match="CAPTURE"):
            _ = stream.is_done
        here.wait_stream(torch.cuda.ExternalStream(stream.handle))
    for _ in range(3):
        g.replay()
    torch.cuda.synchronize()
    assert u.unique().tolist() == [3]


@pytest.mark.parametrize("asking", [1, 2, 3], ids=["ask", "never", "measure"])
def test_capture_of_another_stream_is_left_alone(stream: Any, asking: int) -> None:
    # B231: in global mode, a question about any stream invalidates the capture.
    before = handoff._core._asking(asking)
    v = StridedMemoryView.from_dlpack(torch.arange(8, device="cuda"), stream)
    other = handoff.Device().create_stream()
    t = torch.zeros(N, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        t.add_(1)
        w = StridedMemoryView.from_dlpack(v, other)
        other.wait(stream)
        t.add_(1)
    g.replay()
    torch.cuda.synchronize()
    assert t.unique().tolist() == [2]
    assert read(w, other) == list(range(8))
    handoff._core._asking(before)


def test_no_measurement_under_capture(stream: Any) -> None:
    other = handoff.Device().create_stream()
    other.wait(stream)
    t = torch.zeros(N, device="cuda", dtype=torch.int32)
    torch.cuda.synchronize()
    before = handoff._core._asking(3)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        here = StridedMemoryView.from_dlpack(t, stream).producer_stream
        assert here is not None
        stream.wait(here)
        assert stream.is_capturing
        other.wait(stream)
        assert other.is_capturing
        assert handoff._core._asking() == 3, "measured where every edge is one of the graph"
        torch.cuda.current_stream().wait_stream(torch.cuda.ExternalStream(stream.handle))
        torch.cuda.current_stream().wait_stream(torch.cuda.ExternalStream(other.handle))
    g.replay()
    for _ in range(64):  # later
        torch.cuda.synchronize()
        other.wait(stream)
    assert handoff._core._asking() in (1, 2)
    handoff._core._asking(before)


def test_export_under_use_stream(streams: Any, stream: Any) -> None:
    v = StridedMemoryView.from_dlpack(torch.arange(8, device="cuda"), stream)
    with handoff.use_stream(stream):
        assert torch.from_dlpack(v).tolist() == list(range(8))


def test_second_device(stream: Any) -> None:
    if torch.cuda.device_count() < 2 or len(handoff.Device.get_all_devices()) < 2:
        pytest.skip("one device")
    t = torch.arange(8, device="cuda:1")
    s = handoff.Device(1).create_stream()
    v = StridedMemoryView.from_dlpack(t, s)
    assert v.device_id == 1
    assert read(v, s) == list(range(8))
    w = StridedMemoryView.from_dlpack(t, stream)  # a stream of device 0
    assert w.stream == stream
    stream.sync()
