"""Views of GPU memory: order, values, protocols; producers are our own classes."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import pytest
from gpuhelp import read

import handoff
from handoff import Buffer, Device, StreamView, StridedMemoryView, args_viewable_as_strided_memory, utils

SIZE = 1024


class Owner:
    """Memory of another library, which works on its own stream and speaks one protocol."""

    def __init__(self, buffer: Buffer, stream: Any, dtype: str = "uint8") -> None:
        self.buffer, self.stream = buffer, stream
        self.view = StridedMemoryView.from_buffer(buffer, (buffer.size,), dtype=dtype)
        self.calls: list[dict[str, Any]] = []


class Dlpack(Owner):
    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        return self.view.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


class Cai(Owner):
    version = 3
    extra: dict[str, Any] = {}

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = self.stream.handle
        d = {
            "shape": (self.buffer.size,),
            "typestr": "|u1",
            "data": (self.buffer.handle, False),
            "version": self.version,
            "stream": stream if stream else 1,
        }
        return {k: v for k, v in (d | self.extra).items() if v is not ...}


class OldCai(Cai):
    version = 2


PRODUCERS = {"dlpack": Dlpack, "cai": Cai, "view": None}


def take(kind: str, buffer: Buffer, producer: Any, on: Any) -> StridedMemoryView:
    if kind == "view":
        v = StridedMemoryView.from_buffer(buffer, (buffer.size,), dtype="uint8")
        return StridedMemoryView.from_any_interface(v, on)
    return StridedMemoryView.from_any_interface(PRODUCERS[kind](buffer, producer), on)  # type: ignore[misc]


# ---- Order -------------------------------------------------------------------


@pytest.mark.parametrize("kind", PRODUCERS)
@pytest.mark.parametrize("as_arg", [lambda s: s, StreamView, lambda s: s.handle], ids=["stream", "view", "int"])
def test_slow_producer_then_consumer(
    kind: str, as_arg: Any, device: Device, stream: Any, other: Any, gate: Any
) -> None:
    b = device.allocate(SIZE, stream=stream)
    b.fill(1, stream=stream)
    host = device.allocate(SIZE, stream=other, kind="pinned")
    with gate(stream) as open_gate:
        b.fill(2, stream=stream)
        v = take(kind, b, stream, as_arg(other))
        assert v.stream == other
        assert (v.device_id, v.is_device_accessible, v.is_host_accessible) == (0, True, False)
        host.copy_from(v, stream=other)
        assert not other.is_done, "the consumer waits"
        open_gate()
    other.sync()
    assert set(memoryview(StridedMemoryView.from_buffer(host, (SIZE,), dtype="uint8")).tolist()) == {2}


@pytest.mark.racy
@pytest.mark.parametrize("kind", PRODUCERS)
def test_without_the_edge_it_is_wrong(kind: str, device: Device, stream: Any, other: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    b.fill(1, stream=stream)
    stream.sync()
    # Pinned, so that the copy needs no host function: the gate is one, and a GPU runs one at a time.
    host = device.allocate(SIZE, stream=other, kind="pinned")
    with gate(stream):
        b.fill(2, stream=stream)
        v = take(kind, b, stream, -1)
        # The address alone: what nobody orders.
        raw = StridedMemoryView.from_cuda_array_interface(Plain(v.ptr, SIZE), other)
        host.copy_from(raw, stream=other)
        other.sync()
        seen = memoryview(StridedMemoryView.from_buffer(host, (SIZE,), dtype="uint8"))[0]
        assert seen == 1, "the producer's work is not done, and nobody waits for it"


class Plain:
    def __init__(self, ptr: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,), "typestr": "|u1", "data": (ptr, False), "version": 3, "stream": None,
        }  # fmt: skip


@pytest.mark.parametrize("kind", PRODUCERS)
def test_same_stream_needs_no_edge(kind: str, device: Device, stream: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    with gate(stream):
        v = take(kind, b, stream, stream)
        assert v.stream == stream
        assert not stream.is_done


def test_dlpack_is_told_the_stream(device: Device, stream: Any, other: Any) -> None:
    p = Dlpack(device.allocate(SIZE, stream=stream), stream)
    for on, said in ((other, other.handle), (other.handle, other.handle), (0, 1), (1, 1), (2, 2), (-1, -1)):
        StridedMemoryView.from_dlpack(p, on)
        assert p.calls[-1]["stream"] == said
    for bad, error in ((None, BufferError), (-2, ValueError), (3, ValueError), (True, TypeError), ("1", TypeError)):
        with pytest.raises(error):
            StridedMemoryView.from_dlpack(p, bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["dlpack", "cai"])
def test_R126_the_order_must_be_said(kind: str, device: Device, stream: Any, raises: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    with raises(BufferError, "R126"):
        take(kind, b, stream, None)


def test_producer_stream(device: Device, stream: Any, other: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    v = take("cai", b, stream, other)
    assert v.producer_stream == stream
    assert v.stream == other
    v = take("cai", b, stream, -1)
    assert v.producer_stream == v.stream == stream
    v = take("dlpack", b, stream, other)
    assert v.producer_stream is None, "the protocol does not tell"
    assert v.view((SIZE // 2,) and ((SIZE // 2,), None)).stream == other
    host = StridedMemoryView.from_dlpack(handoff.Array.zeros(3))
    assert host.producer_stream is host.stream is None


# ---- CUDA array interface ----------------------------------------------------


def test_old_versions_name_no_stream(device: Device, stream: Any, other: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    with gate(stream):
        for version in (0, 1, 2):
            p = OldCai(b, stream)
            p.version = version
            v = StridedMemoryView.from_cuda_array_interface(p, other)
            assert v.producer_stream is None
            assert other.is_done, "nothing to order on"
    p = OldCai(b, stream)
    p.version = 4
    assert StridedMemoryView.from_cuda_array_interface(p, other).producer_stream == stream


@pytest.mark.parametrize(
    ("change", "error", "rule"),
    [
        ({"shape": ...}, ValueError, "R167"),
        ({"typestr": ...}, ValueError, "R167"),
        ({"data": ...}, ValueError, "R167"),
        ({"version": ...}, ValueError, "R167"),
        ({"version": "3"}, TypeError, "R197"),
        ({"version": -1}, BufferError, "R197"),
        ({"shape": [8]}, TypeError, "R169"),
        ({"shape": (1.0,)}, TypeError, "R169"),
        ({"shape": (-1,)}, ValueError, "R169"),
        ({"shape": (2**63,)}, ValueError, "R169"),
        ({"shape": (1,) * 65}, ValueError, "R169"),
        ({"shape": (2**62, 4)}, BufferError, "R034"),
        ({"typestr": 3}, TypeError, "R168"),
        ({"typestr": ">f4"}, BufferError, "R171"),
        ({"strides": [1]}, TypeError, "R178"),
        ({"strides": (1, 1)}, ValueError, "R179"),
        ({"typestr": "<i4", "shape": (4,), "strides": (3,)}, BufferError, "R281"),
        ({"mask": object()}, BufferError, "R181"),
        ({"stream": 0}, ValueError, "R184"),
        ({"stream": -1}, OverflowError, "R187"),
        ({"stream": 2**64}, OverflowError, "R187"),
        ({"stream": 3}, ValueError, "R187"),
        ({"stream": "1"}, TypeError, "R187"),
        ({"stream": True}, TypeError, "R187"),
        ({"data": (1,)}, TypeError, "R172"),
        ({"data": 4096}, TypeError, "R172"),
        ({"data": ("x", False)}, TypeError, "R172"),
        ({"data": (-1, False)}, OverflowError, "R172"),
        ({"data": (0, False)}, BufferError, "R172"),
        ({"data": (64, False)}, BufferError, "R172"),
    ],
    ids=repr,
)
def test_malformed(change: Any, error: type[Exception], rule: str, device: Device, stream: Any, raises: Any) -> None:
    p = Cai(device.allocate(SIZE, stream=stream), stream)
    p.extra = change
    with raises(error, rule):
        StridedMemoryView.from_cuda_array_interface(p, -1)


@pytest.mark.parametrize("value", [None, [], (), "x", 1])
def test_R166_not_a_dict(value: Any, raises: Any) -> None:
    p = type("P", (), {"__cuda_array_interface__": value})()
    with raises(TypeError, "R166"):
        StridedMemoryView.from_cuda_array_interface(p, -1)


def test_exceptions_of_the_producer_pass_through() -> None:
    class P:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        StridedMemoryView.from_cuda_array_interface(P(), -1)


@pytest.mark.parametrize("pointer", [0, 64, 2**64 - 1])
def test_R174_empty(pointer: int, stream: Any) -> None:
    class P:
        __cuda_array_interface__ = {"shape": (0, 3), "typestr": "<f4", "data": (pointer, False), "version": 3}

    v = StridedMemoryView.from_cuda_array_interface(P(), stream)
    assert v.shape == (0, 3)
    assert v.size == 0
    assert v.__cuda_array_interface__["data"][0] == 0  # R287


@pytest.mark.parametrize(("kind", "type_"), [("device", 2), ("pinned", 3), ("managed", 13)])
def test_R288_kinds_of_memory(kind: Any, type_: int, device: Device, stream: Any) -> None:
    b = device.allocate(SIZE, stream=stream, kind=kind)
    v = StridedMemoryView.from_cuda_array_interface(Cai(b, stream), stream)
    assert v.__dlpack_device__() == (type_, 0)
    assert v.is_device_accessible
    assert v.is_host_accessible == (kind != "device")
    assert v.device_id == 0


def test_R172_host_memory_is_no_device_memory(raises: Any) -> None:
    a = handoff.Array.zeros(16)

    class P:
        __cuda_array_interface__ = {"shape": (16,), "typestr": "<f8", "data": (a.ptr, False), "version": 3}

    with raises(BufferError, "R172"):
        StridedMemoryView.from_cuda_array_interface(P(), -1)


def test_R194_the_exporter_is_kept(device: Device, stream: Any) -> None:
    p = Cai(device.allocate(SIZE, stream=stream), stream)
    r = weakref.ref(p)
    v = StridedMemoryView.from_cuda_array_interface(p, stream)
    assert v.exporting_obj is p
    del p
    gc.collect()
    assert r() is not None
    del v
    gc.collect()
    assert r() is None


def test_strides_and_read_only(device: Device, stream: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    p = Cai(b, stream)
    p.extra = {"shape": (4, 8), "typestr": "<i4", "strides": (64, 8), "data": (b.handle, True)}
    v = StridedMemoryView.from_cuda_array_interface(p, stream)
    assert (v.shape, v.strides, v.readonly, v.itemsize) == ((4, 8), (16, 2), True, 4)
    want = {"shape": (4, 8), "typestr": "<i4", "strides": (64, 8), "data": (b.handle, True), "version": 3}
    stream.sync()
    assert v.__cuda_array_interface__ == want | {"stream": None}  # nothing is pending (R192)
    with gate(stream):
        assert v.__cuda_array_interface__ == want | {"stream": stream.handle}  # R190, R191
    with pytest.raises(BufferError):
        v.copy_from(v, stream)
    with pytest.raises(BufferError):  # read-only memory has no legacy capsule
        v.__dlpack__(stream=-1)


def test_structured_types_are_bytes(device: Device, stream: Any) -> None:
    np = pytest.importorskip("numpy")
    p = Cai(device.allocate(SIZE, stream=stream), stream)
    p.extra = {"shape": (4,), "typestr": "|V12"}
    v = StridedMemoryView.from_cuda_array_interface(p, -1)
    assert v.itemsize == 12
    with pytest.raises(BufferError):
        v.__dlpack__(stream=-1)
    assert v.dtype is None or v.dtype == np.dtype("V12")


def test_absent_where_it_cannot_be(device: Device, stream: Any) -> None:
    assert not hasattr(handoff.Array.zeros(1), "__cuda_array_interface__")
    assert not hasattr(StridedMemoryView.from_dlpack(handoff.Array.zeros(1)), "__cuda_array_interface__")
    b = device.allocate(SIZE, stream=stream)
    assert not hasattr(StridedMemoryView.from_buffer(b, (8,), dtype="bfloat16"), "__cuda_array_interface__")
    assert not hasattr(StridedMemoryView.from_buffer(b, (8,), dtype="uint8"), "__array_interface__")


# ---- Export ------------------------------------------------------------------


@pytest.mark.parametrize("consumer", ["handle", 1, 2, None])
def test_R137_export_orders_the_consumer(consumer: Any, device: Device, stream: Any, other: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    v = take("cai", b, stream, stream)
    c = StreamView(other.handle if consumer == "handle" else 1 if consumer is None else consumer)
    with gate(stream) as open_gate:
        v.__dlpack__(stream=-1, max_version=(1, 0))
        assert c.is_done, "R127"
        v.__dlpack__(stream=other.handle if consumer == "handle" else consumer, max_version=(1, 0))
        assert not c.is_done
        open_gate()
    c.sync()


def test_export_keeps_the_memory(device: Device, stream: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    b.fill(3, stream=stream)
    capsule = b.__dlpack__(stream=-1, max_version=(1, 0))
    b.close()
    v = StridedMemoryView.from_dlpack(capsule, stream)  # type: ignore[arg-type]
    assert read(v, stream) == [3] * SIZE


def test_R145_R146_to_the_host(device: Device, stream: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    b.fill(5, stream=stream)
    host = handoff.from_dlpack(b, device="cpu")  # type: ignore[arg-type]
    assert host.device_id == -1
    assert memoryview(host).tolist() == [5] * SIZE
    assert handoff.from_dlpack(b, device=(1, 0), copy=True).device_id == -1  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        handoff.from_dlpack(b, device="cpu", copy=False)  # type: ignore[arg-type]
    with pytest.raises(BufferError):
        handoff.from_dlpack(b, device=(2, 77))  # type: ignore[arg-type]


def test_R153_a_copy_leaves_the_source_where_it_was(device: Device, stream: Any, other: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    b.fill(0, stream=stream)
    v = StridedMemoryView.from_buffer(b, (SIZE,), dtype="uint8")
    v.__dlpack__(stream=other.handle, max_version=(1, 0), copy=True)
    assert v.stream is not None
    assert v.stream.handle == stream.handle
    stream.sync()
    other.sync()
    with gate(stream):
        b.fill(9, stream=stream)
        copy = v.__dlpack__(stream=other.handle, max_version=(1, 0), copy=True)
        assert not other.is_done  # the copy comes after the write
        shared = v.__dlpack__(stream=other.handle, max_version=(1, 0))
        assert not other.is_done  # and so does what is handed out later
    assert read(StridedMemoryView.from_dlpack(copy, other), other) == [9] * SIZE  # type: ignore[arg-type]
    del shared


@pytest.mark.parametrize("kind", ["device", "pinned", "managed"])
@pytest.mark.parametrize("on", ["other", "none", "unsaid"])
def test_R150_copy_on_the_device(kind: Any, on: str, device: Device, stream: Any, other: Any, gate: Any) -> None:
    b = device.allocate(SIZE, stream=stream, kind=kind)
    b.fill(0, stream=stream)
    v = StridedMemoryView.from_buffer(b, (SIZE // 8, 2), (4, 2), dtype="int16", is_readonly=True)
    stream.sync()
    with gate(stream) as opened:
        b.fill(9, stream=stream)
        arg = {"other": other.handle, "none": None, "unsaid": -1}[on]
        capsule = v.__dlpack__(stream=arg, max_version=(1, 0), copy=True)
        user = {"other": other, "none": device.default_stream, "unsaid": stream}[on]
        copy = StridedMemoryView.from_dlpack(capsule, -1)  # type: ignore[arg-type]
        assert copy.__dlpack_device__() == v.__dlpack_device__()
        assert (copy.shape, copy.strides, copy.readonly) == (v.shape, None, False)
        assert copy.ptr != v.ptr
        host = device.allocate(SIZE // 2, stream=user, kind="pinned")
        to = StridedMemoryView.from_buffer(host, v.shape, dtype="int16")
        to.copy_from(copy, user)
        opened()
        user.sync()
    with gate(stream):
        b.fill(1, stream=stream)  # the copy is of its own
    assert memoryview(handoff.from_dlpack(to, device="cpu")).tolist() == [[0x0909] * 2] * (SIZE // 8)  # type: ignore[arg-type]
    assert handoff.from_dlpack(v, copy=False).ptr == v.ptr  # type: ignore[arg-type]


def test_pinned_memory_that_says_cpu(device: Device, stream: Any) -> None:
    # As pinned tensors of PyTorch do (B263): what the driver knows counts.
    pinned = device.allocate(SIZE, stream=stream, kind="pinned")
    says_cpu = StridedMemoryView.from_dlpack(pinned.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))  # type: ignore[arg-type]
    assert says_cpu.__dlpack_device__() == (1, 0)
    assert (says_cpu.is_device_accessible, says_cpu.is_host_accessible, says_cpu.device_id) == (True, True, -1)
    host = handoff.Array.zeros((4,), "uint8")
    assert not host.is_device_accessible
    assert not handoff.Array.zeros((0,), "uint8").is_device_accessible
    assert not StridedMemoryView.from_buffer(host, (2,), dtype="uint8").is_device_accessible


def test_R150_empty_copy(device: Device, stream: Any) -> None:
    b = device.allocate(0, stream=stream)
    v = StridedMemoryView.from_buffer(b, (0, 3), dtype="float32")
    assert StridedMemoryView.from_dlpack(v.__dlpack__(copy=True), stream).shape == (0, 3)  # type: ignore[arg-type]


def test_R144_R151_to_another_device(device: Device, stream: Any, gate: Any) -> None:
    if len(Device.get_all_devices()) < 2:
        pytest.skip("one device")
    there = Device(1).create_stream()
    b = device.allocate(SIZE, stream=stream)
    with gate(stream) as opened:
        b.fill(4, stream=stream)
        copy = StridedMemoryView.from_dlpack(
            b.__dlpack__(stream=there.handle, max_version=(1, 0), dl_device=(2, 1)),  # type: ignore[arg-type]
            -1,
        )
        assert copy.__dlpack_device__() == (2, 1)
        assert not there.is_done
        opened()
    assert read(copy, there) == [4] * SIZE
    with pytest.raises(handoff.CopyError, match="R151"):
        b.__dlpack__(dl_device=(2, 1), copy=False)


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_R146_the_host_waits(kind: Any, device: Device, stream: Any, gate: Any) -> None:
    import threading

    b = device.allocate(SIZE, stream=stream, kind=kind)
    v = StridedMemoryView.from_buffer(b, (SIZE,), dtype="uint8")
    with gate(stream) as open_gate:
        b.fill(6, stream=stream)
        threading.Timer(0.05, open_gate).start()
        host = handoff.from_dlpack(b, device="cpu")  # type: ignore[arg-type]
        assert host.ptr == b.handle, "no copy"
        assert memoryview(host).tolist() == [6] * SIZE
    with gate(stream) as open_gate:
        b.fill(7, stream=stream)
        v = StridedMemoryView.from_buffer(b, (SIZE,), dtype="uint8")
        threading.Timer(0.05, open_gate).start()
        assert memoryview(v).tolist() == [7] * SIZE


def test_exchange_table(device: Device, stream: Any, other: Any, raises: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    v = take("cai", b, stream, other)
    import ctypes

    api = StridedMemoryView.__dlpack_c_exchange_api__
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(api, b"dlpack_exchange_api")
    at = lambda offset: ctypes.c_void_p.from_address(table + offset).value  # noqa: E731
    from_py = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(at(24))
    current = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(at(48))

    def work_stream() -> int:
        out = ctypes.c_void_p()
        assert current(2, 0, ctypes.byref(out)) == 0
        return out.value or 0

    managed = ctypes.c_void_p()
    assert work_stream() == 0
    with raises(BufferError, "R103"):
        from_py(v, ctypes.byref(managed))
    with handoff.use_stream(other) as s:
        assert s == other
        assert work_stream() == other.handle
        with handoff.use_stream(stream):
            assert work_stream() == stream.handle
        assert work_stream() == other.handle
        assert from_py(v, ctypes.byref(managed)) == 0
    assert work_stream() == 0
    # deleter is the fourth word of DLManagedTensorVersioned
    deleter = ctypes.c_void_p.from_address(managed.value + 16).value  # type: ignore[operator]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed.value)  # type: ignore[arg-type]


# ---- Copies ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "complex128"])
@pytest.mark.parametrize("strides", [None, (1, 4), (16, 2)])
def test_copies(dtype: str, strides: Any, device: Device, stream: Any) -> None:
    b = device.allocate(4096, stream=stream)
    v = StridedMemoryView.from_buffer(b, (4, 8), strides, dtype=dtype)
    src = handoff.Array.zeros((4, 8), dtype)
    for i in range(4):
        for j in range(8):
            src[i, j] = i * 8 + j
    v.copy_from(src, stream)
    back = handoff.Array.zeros((4, 8), dtype)
    v.copy_to(back, stream)
    stream.sync()
    assert back.tolist() == src.tolist()


def test_copies_between_devices_views(device: Device, stream: Any, other: Any, gate: Any) -> None:
    a, b = device.allocate(SIZE, stream=stream), device.allocate(SIZE, stream=stream)
    b.fill(0, stream=stream)
    with gate(stream) as open_gate:
        a.fill(8, stream=stream)
        va = StridedMemoryView.from_buffer(a, (SIZE,), dtype="uint8")
        vb = StridedMemoryView.from_buffer(b, (SIZE,), dtype="uint8")
        vb.copy_from(va, other)
        assert not other.is_done, "ordered after the pending work of both"
        assert vb.stream == other
        open_gate()
    assert read(vb, other) == [8] * SIZE


def test_copies_need_a_stream(device: Device, stream: Any) -> None:
    v = StridedMemoryView.from_buffer(device.allocate(8, stream=stream), (8,), dtype="uint8")
    host = handoff.Array.zeros((8,), "uint8")
    for bad in (None, -1):
        with pytest.raises(TypeError):
            v.copy_from(host, bad)
    with pytest.raises(BufferError):
        v.copy_from(handoff.Array.zeros((9,), "uint8"), stream)
    with pytest.raises(BufferError):
        v.copy_from(handoff.Array.zeros((8,), "int8"), stream)
    with pytest.raises(ValueError, match="R135"):
        host_view = StridedMemoryView.from_dlpack(host)
        host_view.copy_from(host, stream)


# ---- Release -----------------------------------------------------------------


def test_release_on_makes_the_producer_wait(device: Device, stream: Any, other: Any, gate: Any) -> None:
    p = Cai(device.allocate(SIZE, stream=stream), stream)
    r = weakref.ref(p)
    v = StridedMemoryView.from_cuda_array_interface(p, other)
    del p
    with gate(other) as open_gate:
        v.release_on(other)
        gc.collect()
        assert r() is None, "given up at once"
        assert not stream.is_done, "the producer waits"
        open_gate()
    stream.sync()
    v.release_on(other)  # twice is no matter
    for use in (
        lambda: v.__dlpack__(stream=-1),
        lambda: v.__cuda_array_interface__,
        lambda: v.copy_from(v, stream),
        lambda: StridedMemoryView.from_dlpack(v, -1),
    ):
        with pytest.raises(handoff.ClosedError):
            use()


def test_release_on_keeps_until_the_event(device: Device, stream: Any, other: Any, gate: Any) -> None:
    p = Dlpack(device.allocate(SIZE, stream=stream), stream)
    v = StridedMemoryView.from_dlpack(p, other)
    r = weakref.ref(p)
    del p
    assert v.producer_stream is None
    live = handoff._core._stats()["live_exports"]
    with gate(other) as open_gate:
        v.release_on(other)
        gc.collect()
        assert handoff._core._stats()["live_exports"] == live, "held back"
        open_gate()
    handoff._core._flush()
    for _ in range(1000):
        if handoff._core._stats()["live_exports"] < live:
            break
        other.sync()
        handoff._core._device_sync(0)
    assert r() is None


def test_release_on_host_memory() -> None:
    v = StridedMemoryView.from_dlpack(handoff.Array.zeros(3))
    v.release_on(1)
    with pytest.raises(handoff.ClosedError):
        memoryview(v)


# ---- from_buffer, decorator --------------------------------------------------


def test_from_buffer(device: Device, stream: Any) -> None:
    b = device.allocate(SIZE, stream=stream)
    v = StridedMemoryView.from_buffer(b, (4, 8), dtype="float32", is_readonly=True)
    assert (v.ptr, v.shape, v.readonly, v.device_id, v.exporting_obj) == (b.handle, (4, 8), True, 0, b)
    assert v.stream == stream, "the allocation is pending there"
    with pytest.raises(ValueError, match="1024"):
        StridedMemoryView.from_buffer(b, (SIZE + 1,), dtype="uint8")
    b.close()
    with pytest.raises(handoff.ClosedError):
        StridedMemoryView.from_buffer(b, (1,), dtype="uint8")


def test_decorator(device: Device, stream: Any, other: Any, raises: Any) -> None:
    @args_viewable_as_strided_memory((0, 2))
    def f(a: Any, factor: int, b: Any, *, on: Any) -> tuple[StridedMemoryView, StridedMemoryView]:
        """Doc."""
        assert factor == 5
        assert (a.has_dlpack, b.has_dlpack) == (True, False)
        return a.view(on), b.view(on)

    assert f.__doc__ == "Doc."
    assert utils.args_viewable_as_strided_memory is args_viewable_as_strided_memory
    p, q = Dlpack(device.allocate(8, stream=stream), stream), Cai(device.allocate(8, stream=stream), stream)
    a, b = f(p, 5, q, on=other)
    assert a.exporting_obj is p
    assert b.exporting_obj is q
    assert a.stream == b.stream == other
    with raises(TypeError, "R158"):
        f(object(), 5, q, on=other)


def test_decorator_by_name_and_from_the_end(device: Device, stream: Any) -> None:
    def kinds(*args: Any, **named: Any) -> list[str]:
        return [type(a).__name__ for a in (*args, *named.values())]

    p, q = Dlpack(device.allocate(8, stream=stream), stream), Dlpack(device.allocate(8, stream=stream), stream)
    assert args_viewable_as_strided_memory((-1,))(kinds)(p, q) == ["Dlpack", "ViewableArgument"]
    assert args_viewable_as_strided_memory((0, -1))(kinds)(p) == ["ViewableArgument"]

    @args_viewable_as_strided_memory((0, 1))
    def f(a: Any, b: Any = None) -> tuple[Any, ...]:
        return kinds(a, b)[0], b if b is None else b.obj

    assert f(p) == ("ViewableArgument", None)
    assert f(p, b=q) == ("ViewableArgument", q)
    assert f(b=q, a=p) == ("ViewableArgument", q)
    with pytest.raises(TypeError):
        args_viewable_as_strided_memory(("a",))  # type: ignore[arg-type]


def test_a_released_view_is_no_memory(device: Device, stream: Any) -> None:
    v = StridedMemoryView.from_any_interface(device.allocate(8, stream=stream), stream)
    v.release_on(stream)
    assert "ptr=0x0," in repr(v)
    for use in (lambda: v.view(dtype="uint8"), lambda: v.view(((2, 4), None))):
        with pytest.raises(handoff.ClosedError):
            use()


def test_the_deprecated_constructor(device: Device, stream: Any, other: Any) -> None:
    b = device.allocate(8, stream=stream)
    for make in (
        lambda x: StridedMemoryView(x, other),
        lambda x: StridedMemoryView(x, stream_ptr=other),
        lambda x: StridedMemoryView(stream_ptr=other.handle, obj=x),
    ):
        for x in (Dlpack(b, stream), Cai(b, stream)):
            with pytest.warns(DeprecationWarning, match="from_any_interface") as seen:
                v = make(x)
            assert seen[0].filename == __file__
            assert (v.ptr, v.stream, v.exporting_obj) == (b.handle, other, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            StridedMemoryView(b, other)
    warnings.simplefilter("ignore")
    with pytest.raises(BufferError, match="R158"):
        StridedMemoryView(object(), -1)  # type: ignore[call-overload]
    with pytest.raises(BufferError, match="R126"):
        StridedMemoryView(b)
    with pytest.raises(ValueError, match="layout"):
        StridedMemoryView()  # type: ignore[call-arg]
    for bad in ((b, -1, 5), (b, -1)):
        with pytest.raises(TypeError):
            StridedMemoryView(*bad, **({"stream_ptr": 1} if len(bad) == 2 else {}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="obj and stream_ptr"):
        StridedMemoryView(b, stream=other)  # type: ignore[call-arg]


# ---- Devices -----------------------------------------------------------------


def test_two_devices(gate: Any) -> None:
    if len(Device.get_all_devices()) < 2:
        pytest.skip("one device")
    a, b = Device(0), Device(1)
    sa, sb = a.create_stream(), b.create_stream()
    assert (sa.device_id, sb.device_id) == (0, 1)
    buf = b.allocate(SIZE, stream=sb)
    assert buf.device_id == 1
    with gate(sb) as open_gate:
        buf.fill(4, stream=sb)
        v = StridedMemoryView.from_cuda_array_interface(Cai(buf, sb), sa)
        assert v.device_id == 1
        assert not sa.is_done
        open_gate()
    sa.sync()
    assert read(v, sb) == [4] * SIZE


def test_R278_ordered_on_the_per_thread_stream(device: Device, stream: Any) -> None:
    import threading

    v = take("cai", device.allocate(SIZE, stream=stream), stream, 2)
    v.__dlpack__(stream=1, max_version=(1, 0))
    seen: list[Any] = []

    def use() -> None:
        try:
            v.__dlpack__(stream=1, max_version=(1, 0))
        except handoff.StreamError as e:
            seen.append(e.rule)

    t = threading.Thread(target=use)
    t.start()
    t.join()
    assert seen == ["R278"]


def test_a_dict_that_changes_while_it_is_read(device: Device, stream: Any) -> None:
    class Index:
        def __init__(self, d: dict[str, Any]) -> None:
            self.d = d

        def __index__(self) -> int:
            self.d.clear()
            gc.collect()
            return 8

    b = device.allocate(SIZE, stream=stream)
    d: dict[str, Any] = {"typestr": "|u1", "data": (b.handle, False), "version": 3, "strides": (8, 1)}
    d["shape"] = (Index(d), Index(d))
    p = type("P", (), {"__cuda_array_interface__": d})()
    assert StridedMemoryView.from_cuda_array_interface(p, stream).shape == (8, 8)
