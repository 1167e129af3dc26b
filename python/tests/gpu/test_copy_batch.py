"""Copies of many buffers in one call, and copies with options."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpuhelp import read, real_gpu

import handoff
from handoff import Buffer, Device, StreamView, StridedMemoryView, _copy, _core
from handoff.utils import CopyOptions, MemcpyOverlapMode, MemcpySrcAccessOrder, copy_batch

N = 64
DURING = CopyOptions("during_api_call")


def blocks(device: Device, stream: Any, n: int, kind: Any = "device", first: int = 0) -> list[Buffer]:
    """Buffers that hold first, first + 1 and so on."""
    out = []
    for i in range(n):
        out.append(device.allocate(N, stream=stream, kind=kind))
        out[-1].fill(first + i, stream=stream)
    return out


def content(b: Buffer, stream: Any) -> list[int]:
    return read(StridedMemoryView.from_buffer(b, (N,), dtype="uint8"), stream)


@contextmanager
def capturing(stream: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stream that captures; the software device is begun from Go alone, there it only says so."""
    if not real_gpu():
        with monkeypatch.context() as m:
            m.setattr(_copy, "StreamView", lambda s: SimpleNamespace(handle=StreamView(s).handle, is_capturing=True))
            yield
        return
    cuda = ctypes.CDLL("libcuda.so.1")
    s, graph = ctypes.c_void_p(stream.handle), ctypes.c_void_p()
    assert cuda.cuStreamBeginCapture_v2(s, 2) == 0
    try:
        yield
    finally:
        assert cuda.cuStreamEndCapture(s, ctypes.byref(graph)) == 0
        cuda.cuGraphDestroy(graph)


@pytest.mark.parametrize("to", ["device", "pinned", "managed"])
@pytest.mark.parametrize("come", ["device", "pinned", "managed"])
def test_batch(come: Any, to: Any, device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 5, come, 1), blocks(device, stream, 5, to, 100)
    copy_batch(stream, srcs, dsts)
    assert [content(b, stream) for b in dsts] == [[i] * N for i in range(1, 6)]


def test_batch_of_arrays(device: Device, stream: Any) -> None:
    srcs = [np.full(16, i, "int32") for i in range(3)]
    on_gpu = blocks(device, stream, 3)
    views = [StridedMemoryView.from_buffer(b, (4, 4), dtype="int32") for b in on_gpu]
    back = [handoff.Array.zeros((8,), "int64") for _ in srcs]
    copy_batch(stream, srcs, views)
    copy_batch(stream, views, back)
    stream.sync()
    assert [np.asarray(a).view("int32").tolist() for a in back] == [s.tolist() for s in srcs]


def test_batch_of_nothing(device: Device, stream: Any) -> None:
    copy_batch(stream, [], [])
    copy_batch(stream, [], [], options=[])
    empty = [device.allocate(0, stream=stream) for _ in range(4)]
    copy_batch(stream, empty[:2], empty[2:], options=DURING)


def test_the_host_does_not_wait(device: Device, stream: Any, gate: Any) -> None:
    srcs, dsts = blocks(device, stream, 3, "pinned", 1), blocks(device, stream, 3)
    with gate(stream) as opened:
        copy_batch(stream, srcs, dsts)
        assert not stream.is_done
        opened()
    assert [content(b, stream) for b in dsts] == [[i] * N for i in (1, 2, 3)]


def test_R103_buffers_of_another_stream(device: Device, stream: Any, other: Any, gate: Any) -> None:
    """They are ordered as by Buffer.copy_to: the copy comes after what was queued on theirs."""
    srcs, dsts = blocks(device, other, 3), blocks(device, stream, 3)
    views = [StridedMemoryView.from_dlpack(b, other) for b in srcs]
    with gate(other) as opened:
        for i, b in enumerate(srcs):
            b.fill(50 + i, stream=other)
        copy_batch(stream, views, dsts)
        assert not stream.is_done
        opened()
    assert [content(b, stream) for b in dsts] == [[50 + i] * N for i in range(3)]


def test_B220_memory_that_the_batch_uses_is_kept(device: Device, stream: Any, gate: Any) -> None:
    dsts = blocks(device, stream, 2)
    views = [StridedMemoryView.from_buffer(b, (N,), dtype="uint8") for b in dsts]
    with gate(stream) as opened:
        copy_batch(stream, [np.full(N, i, "uint8") for i in (7, 8)], dsts)
        for b in dsts:
            b.close()
        opened()
    assert [read(v, stream) for v in views] == [[7] * N, [8] * N]


class Lent(handoff.MemoryResource):
    """A resource of a program, which hears when memory comes back."""

    device_id, is_device_accessible, is_host_accessible = 0, True, False

    def __init__(self, block: Buffer) -> None:
        self.block = block
        self.back: list[int] = []

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        return Buffer.from_handle(self.block.handle, size, self, stream=stream)

    def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
        self.back.append(ptr)


@pytest.mark.parametrize("how", ["src of copy_from", "dst of copy_to", "src of a batch", "dst of a batch"])
def test_B220_imported_memory_goes_back_after_the_copy(
    how: str, device: Device, stream: Any, other: Any, gate: Any
) -> None:
    block, mine = blocks(device, stream, 2)
    stream.sync()
    mr = Lent(block)
    b = mr.allocate(N, stream=stream)
    with gate(other) as opened:
        if how == "src of copy_from":
            mine.copy_from(b, stream=other)
        elif how == "dst of copy_to":
            mine.copy_to(b, stream=other)
        else:
            pair = ([b], [mine]) if how == "src of a batch" else ([mine], [b])
            copy_batch(other, *pair)
        b.close()
        del b
        assert mr.back == []
        opened()
    other.sync()
    end = time.monotonic() + 10
    while not mr.back and time.monotonic() < end:
        _core._flush()
        time.sleep(0.001)
    assert mr.back == [block.handle]


# ---- Options ----------------------------------------------------------------


def test_options() -> None:
    o = CopyOptions()
    assert (o.src_access_order, o.src_location_hint, o.dst_location_hint, o.overlap_mode) == (
        MemcpySrcAccessOrder.STREAM, None, None, MemcpyOverlapMode.DEFAULT,
    )  # fmt: skip
    assert CopyOptions("any") == CopyOptions(src_access_order=MemcpySrcAccessOrder.ANY)
    assert {str(w) for w in MemcpyOverlapMode} == {"default", "prefer_overlap_with_compute"}
    assert {str(w) for w in MemcpySrcAccessOrder} == {"stream", "during_api_call", "any"}
    assert len({o, CopyOptions("stream")}) == 1
    with pytest.raises(AttributeError):
        o.overlap_mode = "default"  # type: ignore[misc]
    for wrong in ("streams", None, 1, []):
        with pytest.raises(ValueError, match="src_access_order"):
            CopyOptions(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="overlap_mode"):
            CopyOptions(overlap_mode=wrong)  # type: ignore[arg-type]
        if wrong is not None:
            with pytest.raises(TypeError, match="location_hint"):
                CopyOptions(dst_location_hint=wrong)


@pytest.mark.parametrize("order", ["stream", "any"])
def test_with_options(order: str, device: Device, stream: Any) -> None:
    o = CopyOptions(order, device, "host", "prefer_overlap_with_compute")
    srcs, dsts = blocks(device, stream, 3, "managed", 1), blocks(device, stream, 3, "pinned")
    copy_batch(stream, srcs, dsts, options=o)
    assert [content(b, stream) for b in dsts] == [[i] * N for i in (1, 2, 3)]
    copy_batch(stream, dsts, srcs, options=(o, CopyOptions(), DURING))
    dsts[0].copy_from(srcs[1], stream=stream, options=o)
    assert dsts[0].copy_to(dsts[1], stream=stream, options=o) is dsts[1]
    assert content(dsts[1], stream) == [2] * N


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_sources_read_during_the_call(kind: str, device: Device, stream: Any, gate: Any) -> None:
    """What is written to them afterwards does not arrive."""
    if kind == "pinned":
        held = blocks(device, stream, 3, "pinned", 1)
        stream.sync()
        arrays = [np.asarray(memoryview(StridedMemoryView.from_buffer(b, (N,), dtype="uint8"))) for b in held]
        srcs: list[Any] = list(held)
    else:
        srcs = arrays = [np.full(N, i, "uint8") for i in (1, 2, 3)]
    dsts = blocks(device, stream, 3)
    with gate(stream) as opened:
        copy_batch(stream, srcs[:2], dsts[:2], options=DURING)
        dsts[2].copy_from(srcs[2], stream=stream, options=DURING)
        for a in arrays:
            a[:] = 99
        assert not stream.is_done
        opened()
    assert [content(b, stream) for b in dsts] == [[i] * N for i in (1, 2, 3)]


def test_pinned_source_read_during_copy_to(device: Device, stream: Any) -> None:
    (src,) = blocks(device, stream, 1, "pinned", 5)
    stream.sync()
    assert content(src.copy_to(device.allocate(N, stream=stream), stream=stream, options=DURING), stream) == [5] * N


@pytest.mark.parametrize("kind", ["device", "managed"])
def test_memory_of_a_device_is_read_in_stream_order(kind: Any, device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 2, kind, 1), blocks(device, stream, 2, first=8)
    for f in (
        lambda: copy_batch(stream, srcs, dsts, options=[CopyOptions(), DURING]),
        lambda: dsts[0].copy_from(srcs[0], stream=stream, options=DURING),
        lambda: srcs[0].copy_to(stream=stream, options=DURING),
    ):
        with pytest.raises(RuntimeError, match="DURING_API_CALL"):
            f()
    assert [content(b, stream) for b in dsts] == [[8] * N, [9] * N], "nothing was copied"


# ---- Errors -----------------------------------------------------------------


def test_lengths_and_sizes(device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 3, first=1), blocks(device, stream, 3, first=8)
    small = device.allocate(N - 1, stream=stream)
    for a, b, o in (
        (srcs, dsts[1:], None),
        (srcs[1:], dsts, None),
        (srcs, [*dsts[:2], small], None),
        ([*srcs[:2], small], dsts, None),
        (srcs, dsts, [CopyOptions()] * 2),
    ):
        with pytest.raises(ValueError, match="copy_batch"):
            copy_batch(stream, a, b, options=o)
    assert [content(b, stream) for b in dsts] == [[i] * N for i in (8, 9, 10)], "nothing was copied"


def test_types(device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 1), blocks(device, stream, 1)
    for bad in (srcs[0], b"ab", "ab", 1, None, iter(srcs)):
        with pytest.raises(TypeError, match="sequence"):
            copy_batch(stream, bad, dsts)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="sequence"):
            copy_batch(stream, srcs, bad)  # type: ignore[arg-type]
    for none in ({}, "any", [None], 1):
        with pytest.raises((TypeError, ValueError), match="options"):
            copy_batch(stream, srcs, dsts, options=none)  # type: ignore[arg-type]
    for f in (srcs[0].copy_from, srcs[0].copy_to):
        with pytest.raises(TypeError, match="options"):
            f(dsts[0], stream=stream, options={})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        copy_batch(None, srcs, dsts)  # type: ignore[arg-type]
    for item in (None, object(), 5):
        with pytest.raises(BufferError if item is None else (BufferError, TypeError)):
            copy_batch(stream, [item], dsts)  # type: ignore[list-item]


def test_closed_buffers(device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 2), blocks(device, stream, 2, first=8)
    srcs[1].close()
    with pytest.raises(handoff.ClosedError):
        copy_batch(stream, srcs, dsts)
    assert content(dsts[0], stream) == [8] * N


def test_R015_read_only_destinations(device: Device, stream: Any) -> None:
    srcs, dsts = blocks(device, stream, 2, first=1), blocks(device, stream, 2, first=8)
    view = StridedMemoryView.from_buffer(dsts[1], (N,), dtype="uint8", is_readonly=True)
    with pytest.raises(handoff.ReadOnlyError):
        copy_batch(stream, srcs, [dsts[0], view])
    assert content(dsts[0], stream) == [8] * N


def test_arrays_that_are_not_contiguous(device: Device, stream: Any) -> None:
    (b,) = blocks(device, stream, 1)
    with pytest.raises(handoff.LayoutError):
        copy_batch(stream, [np.zeros(2 * N, "uint8")[::2]], [b])


def test_memory_without_streams(stream: Any) -> None:
    with pytest.raises(ValueError, match="without streams"):
        copy_batch(stream, [np.zeros(4)], [np.zeros(4)])


def test_aliases(device: Device, stream: Any) -> None:
    big = device.allocate(4 * N, stream=stream)
    big.fill(1, stream=stream)

    def part(start: int, size: int = N) -> Buffer:
        return Buffer.from_handle(big.handle + start, size, owner=big)

    a, b = blocks(device, stream, 2)
    for srcs, dsts in (
        ([a, b], [part(0), part(N - 1)]),
        ([a, b], [part(2 * N), part(2 * N)]),
        ([part(0)], [part(0)]),
        ([part(0), part(3 * N)], [part(N), part(1)]),
        ([a, part(N + 1)], [part(N), b]),
        ([part(2 * N - 1), a], [b, part(N)]),
    ):
        with pytest.raises(ValueError, match="overlap"):
            copy_batch(stream, srcs, dsts)
    copy_batch(stream, [a, b], [part(0), part(N)])
    copy_batch(stream, [part(0), part(0)], [part(N), part(2 * N)])  # a source may be read twice
    stream.sync()


def test_streams_that_batches_are_not_for(device: Device, stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (a,), (b,) = blocks(device, stream, 1, first=3), blocks(device, stream, 1)
    stream.sync()
    o = CopyOptions()
    for s in (handoff.LEGACY_DEFAULT_STREAM, 0, 1):
        for f in (
            lambda s=s: copy_batch(s, [a], [b]),
            lambda s=s: b.copy_from(a, stream=s, options=o),
            lambda s=s: a.copy_to(b, stream=s, options=o),
        ):
            with pytest.raises(TypeError, match="legacy"):
                f()
    with capturing(stream, monkeypatch):
        for f in (
            lambda: copy_batch(stream, [a], [b]),
            lambda: b.copy_from(a, stream=stream, options=o),
            lambda: a.copy_to(b, stream=stream, options=o),
            lambda: a.copy_to(stream=stream, options=o),
        ):
            with pytest.raises(TypeError, match="captures"):
                f()
    copy_batch(handoff.PER_THREAD_DEFAULT_STREAM, [a], [b])
    handoff.PER_THREAD_DEFAULT_STREAM.sync()
    assert content(b, stream) == [3] * N


# ---- Copies of views that wait ------------------------------------------------


def test_blocking(device: Device, stream: Any) -> None:
    (b,) = blocks(device, stream, 1, first=4)
    view, host = StridedMemoryView.from_buffer(b, (N,), dtype="uint8"), handoff.Array.zeros((N,), "uint8")
    view.copy_to(host, stream, None, True)
    assert stream.is_done
    assert host.tolist() == [4] * N
    view.copy_from(np.full(N, 6, "uint8"), stream, allocator=None, blocking=True)
    assert stream.is_done
    view.copy_to(host, stream=stream, blocking=True)
    assert host.tolist() == [6] * N


def test_blocking_by_default(device: Device, stream: Any) -> None:
    """As in cuda.core: with host memory the copy is done at return."""
    (b,) = blocks(device, stream, 1, first=4)
    view, host = StridedMemoryView.from_buffer(b, (N,), dtype="uint8"), handoff.Array.zeros((N,), "uint8")
    view.copy_to(host, stream)
    assert stream.is_done
    assert host.tolist() == [4] * N
    view.copy_from(np.full(N, 6, "uint8"), stream)
    assert stream.is_done


@pytest.mark.parametrize("where", ["host", "device", "pinned"])
def test_not_blocking(where: str, device: Device, stream: Any, gate: Any) -> None:
    """Where it was asked for, and by default between memories that the GPU reaches."""
    b, c = blocks(device, stream, 2, first=4)
    view = StridedMemoryView.from_buffer(b, (N,), dtype="uint8")
    if where == "pinned":
        c = handoff.PinnedMemoryResource().allocate(N, stream=stream)
    to: Any = handoff.Array.zeros((N,), "uint8")
    if where != "host":
        to = StridedMemoryView.from_buffer(c, (N,), dtype="uint8")
    with gate(stream) as opened:
        view.copy_to(to, stream, blocking=False if where == "host" else None)
        assert not stream.is_done
        opened()
    stream.sync()
    if where == "host":
        assert to.tolist() == [4] * N


def test_blocking_is_asked_for_its_truth(device: Device, stream: Any) -> None:
    class Neither:
        def __bool__(self) -> bool:
            raise ZeroDivisionError

    (b,) = blocks(device, stream, 1)
    view = StridedMemoryView.from_buffer(b, (N,), dtype="uint8")
    with pytest.raises(ZeroDivisionError):
        view.copy_to(handoff.Array.zeros((N,), "uint8"), stream, blocking=Neither())  # type: ignore[arg-type]


def test_a_sequence_that_lies_about_its_length(device: Device, stream: Any) -> None:
    class Longer(list[Any]):
        def __len__(self) -> int:
            return 7

    copy_batch(stream, Longer(blocks(device, stream, 2, first=3)), to := Longer(blocks(device, stream, 2)))
    assert [read(StridedMemoryView.from_buffer(b, (N,), dtype="uint8"), stream)[0] for b in to] == [3, 4]
    with pytest.raises(handoff.InvalidValueError, match="2 sources and 1 destinations"):
        copy_batch(stream, Longer(blocks(device, stream, 2)), Longer(blocks(device, stream, 1)))
