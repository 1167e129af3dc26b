"""Streams, events and memory of handoff, on whichever driver there is."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
import types
import weakref
from typing import Any

import numpy as np
import pytest
from gpuhelp import read, real_gpu

import handoff
from handoff import Buffer, Device, EventOptions, StreamOptions, StreamView, _core


class Producer:
    """A stream of another library."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return self.stream.__cuda_stream__()


# ---- Devices -----------------------------------------------------------------


def test_device(device: Device) -> None:
    assert Device(0) is device is Device(device)
    assert device.device_id == int(device) == 0
    assert device.name
    assert device.uuid.startswith("GPU-")
    assert device.pci_bus_id.count(":") == 2
    assert device.arch == "".join(map(str, device.compute_capability))
    assert device.properties.multiprocessor_count == device.properties["multiprocessor_count"] > 0
    assert set(device.properties) >= {"warp_size", "compute_capability_major"}
    with pytest.raises(AttributeError):
        device.properties.no_such_thing
    free, total = device.memory_info
    assert 0 < free <= total
    assert device.context > 4096
    assert device in Device.get_all_devices()
    assert repr(device)
    device.sync()


def test_device_current(device: Device) -> None:
    device.set_current()
    assert Device() is device


def test_device_pickles_as_ordinal(device: Device) -> None:
    import pickle

    assert pickle.loads(pickle.dumps(device)) is device


@pytest.mark.parametrize(
    ("ordinal", "error"),
    [(-1, ValueError), (999, ValueError), (2**40, ValueError), ("0", TypeError), (True, TypeError)],
)
def test_no_such_device(ordinal: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Device(ordinal)


def test_peers(device: Device) -> None:
    assert device.can_access_peer(device)
    for peer in Device.get_all_devices():
        assert device.can_access_peer(peer) in (True, False)


# ---- Streams -----------------------------------------------------------------


def test_stream(device: Device) -> None:
    s = device.create_stream()
    assert isinstance(s, handoff.Stream)
    assert s.is_nonblocking
    assert s.device is device
    assert s.device_id == 0
    assert s.context == device.context
    assert s.is_done
    assert not s.is_capturing
    assert not s.is_closed
    assert s.__cuda_stream__() == (0, s.handle)
    assert s.handle > 4096
    s.sync()
    with s:
        pass
    assert s.is_closed
    s.close()
    with pytest.raises(handoff.ClosedError):
        s.__cuda_stream__()


def test_stream_options(device: Device) -> None:
    assert not device.create_stream(options=StreamOptions(nonblocking=False)).is_nonblocking
    assert not device.create_stream(options={"nonblocking": False}).is_nonblocking
    assert device.create_stream(options=StreamOptions(priority=-1)).priority == -1
    assert device.create_stream().priority == 0
    for priority in (1000, -1000, 2**40):
        with pytest.raises(ValueError, match="priority"):
            device.create_stream(options=StreamOptions(priority=priority))
    with pytest.raises(ValueError, match="options"):
        device.create_stream(1, StreamOptions())
    assert isinstance(device.create_stream(Producer(device.create_stream())), StreamView)


def test_view_of_stream(stream: Any) -> None:
    v = StreamView(stream)
    assert v == stream
    assert hash(v) == hash(stream)
    assert (v.device_id, v.context, v.priority, v.is_nonblocking) == (0, stream.context, 0, True)
    w = StreamView(Producer(stream))
    assert (w.device_id, w.context, w.priority, w.is_nonblocking) == (0, stream.context, 0, True)
    assert w == stream
    v.close()
    assert not stream.is_closed, "a view never destroys"
    stream.sync()


@pytest.mark.parametrize("handle", [0, 1, 2])
def test_default_streams(handle: int, stream: Any, device: Device) -> None:
    v = StreamView(handle)
    assert v.device is device
    v.sync()
    v.wait(stream)
    stream.wait(v)
    v.record().sync()
    assert v.is_done


def test_wait(stream: Any, other: Any, gate: Any) -> None:
    with gate(stream) as open_gate:
        other.wait(stream)
        assert not stream.is_done
        assert not other.is_done
        open_gate()
    other.sync()
    assert stream.is_done


def test_without_wait_nothing_is_ordered(stream: Any, other: Any, gate: Any) -> None:
    with gate(stream):
        other.sync()
        assert not stream.is_done


@pytest.mark.parametrize("of", [Producer, lambda s: s.handle, StreamView, lambda s: s.record()])
def test_wait_for_anything(of: Any, stream: Any, other: Any, gate: Any) -> None:
    with gate(stream) as open_gate:
        other.wait(of(stream))
        assert not other.is_done
        open_gate()
    other.sync()


def test_wait_for_itself_is_nothing(stream: Any, gate: Any) -> None:
    with gate(stream):
        stream.wait(stream)
        stream.wait(StreamView(stream))


@pytest.mark.parametrize("bad", [None, object(), "x", 1.0, True])
def test_wait_for_what_is_no_stream(bad: Any, stream: Any) -> None:
    with pytest.raises(TypeError):
        stream.wait(bad)


def test_wait_of_and_for_a_closed_stream(device: Device, stream: Any) -> None:
    closed = device.create_stream()
    stream.wait(closed)
    closed.wait(stream)
    closed.close()
    for wait in (lambda: stream.wait(closed), lambda: closed.wait(stream)):
        with pytest.raises(handoff.ClosedError):
            wait()


def test_the_gil_is_given_up(stream: Any, gate: Any) -> None:
    with gate(stream) as open_gate:
        t = threading.Thread(target=open_gate)
        started = time.monotonic()
        timer = threading.Timer(0.05, t.start)
        timer.start()
        stream.sync()  # would never end with the GIL held
        assert time.monotonic() - started < 30
        timer.join()
        t.join()


def test_streams_are_collected(device: Device) -> None:
    for _ in range(100):
        s = device.create_stream()
        s.record()
        del s
    gc.collect()
    device.sync()


def test_constants_are_never_closed(device: Device) -> None:
    for s in (handoff.LEGACY_DEFAULT_STREAM, handoff.PER_THREAD_DEFAULT_STREAM, device.default_stream):
        s.close()
        assert not s.is_closed
        s.sync()
    v = StreamView(handoff.LEGACY_DEFAULT_STREAM)
    v.close()
    assert v.is_closed, "a view of one is the caller's"


def test_default_stream_of_another_device(device: Device) -> None:
    """It is that device's, whatever is current: otherwise it would wait for nothing (B203)."""
    if len(Device.get_all_devices()) < 2:
        pytest.skip("one device")
    device.set_current()
    d = Device(1)
    s = d.default_stream
    assert s is d.default_stream
    assert s.device is d
    assert s.context == d.context
    assert s == device.default_stream == handoff.LEGACY_DEFAULT_STREAM, "equality is by handle"
    blocking = d.create_stream(options=StreamOptions(nonblocking=False))
    key = _core._gate(blocking)
    try:
        b = d.allocate(64, stream=s)
        b.fill(1, stream=s)
        assert not s.is_done
        assert device.default_stream.is_done
        v = handoff.StridedMemoryView.from_any_interface(b, 0)
        assert v.stream is not None
        assert v.stream.device is d
        assert not v.stream.is_done
    finally:
        _core._gate_open(key)
    s.sync()
    with pytest.raises(handoff.DriverError, match="INVALID_DEVICE"):
        device.allocate(64, stream=s)


@pytest.mark.parametrize(("text", "handle"), [("0", 1), ("1", 2), ("2x", 2), ("x", 1), ("", 1), (" 1", 2)])
def test_default_stream_by_the_environment(
    text: str, handle: int, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", text)
    monkeypatch.setattr(device, "_default", None)
    s = device.default_stream
    assert s.handle == handle
    t = threading.Thread(target=s.sync)  # each thread has its own
    t.start()
    t.join()
    s.sync()


def test_numbers_of_numpy(device: Device, stream: Any) -> None:
    assert handoff.Stream.from_handle(np.uint64(stream.handle)) == stream  # type: ignore[arg-type]
    assert Device(np.int64(0)) is device  # type: ignore[arg-type]
    for wrong in (np.float64(0), np.bool_(False)):
        with pytest.raises(handoff.InvalidTypeError):
            handoff.Stream.from_handle(wrong)  # type: ignore[arg-type]
        with pytest.raises(handoff.InvalidTypeError):
            Device(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [5, "x", [], {"priorty": 1}, {"timing_enabled": True}, EventOptions(), object()])
def test_options_that_are_none_for_a_stream(options: Any, device: Device) -> None:
    with pytest.raises(handoff.InvalidTypeError, match="StreamOptions"):
        device.create_stream(options=options)


@pytest.mark.parametrize("options", [5, "x", [], {"timing": True}, {"priority": 1}, StreamOptions(), object()])
def test_options_that_are_none_for_an_event(options: Any, device: Device, stream: Any) -> None:
    for make in (lambda: device.create_event(options), lambda: stream.record(options=options)):
        with pytest.raises(handoff.InvalidTypeError, match="EventOptions"):
            make()


def test_options_are_any_mapping(device: Device, stream: Any) -> None:
    timing = types.MappingProxyType({"timing_enabled": True})
    assert stream.record(options=timing).is_timing_enabled
    assert device.create_event(timing).is_timing_enabled


@pytest.mark.parametrize("what", ["streams", "events"])
def test_closed_while_another_thread_waits(what: str, device: Device, gate: Any) -> None:
    """The handle stays the driver's until the wait is over."""

    def alive() -> int:  # of the software device; 0 on a GPU
        return json.loads(_core._inject(""))[what]  # type: ignore[no-any-return]

    s = device.create_stream()
    errors: list[BaseException] = []
    with gate(s) as open_gate:
        waited: Any = s if what == "streams" else s.record()

        def wait() -> None:
            try:
                waited.sync()
            except BaseException as e:
                errors.append(e)

        t = threading.Thread(target=wait)
        if real_gpu():
            t.start()
            time.sleep(0.5)  # by now it waits
        else:
            _core._inject("edges:0")
            t.start()
            while _core._inject("edges:waits") == "0" and t.is_alive():
                time.sleep(0.001)
            _core._inject("edges:end")
        before = alive()
        waited.close()
        assert waited.is_closed
        assert alive() == before, "it is in use"
        open_gate()
        t.join()
    assert errors == []
    assert real_gpu() or alive() == before - 1


# ---- Events ------------------------------------------------------------------


def test_events(device: Device, stream: Any, gate: Any) -> None:
    e = device.create_event()
    assert e.is_done, "never recorded"
    assert not e.is_timing_enabled
    with gate(stream) as open_gate:
        assert stream.record(e) is e
        assert not e.is_done
        open_gate()
        e.sync()
    assert e.is_done
    assert e.context == device.context
    assert e.device is device
    assert e.handle
    assert repr(e) == f"<handoff.Event {e.handle:#x}>"
    assert e == e
    assert e != stream.record()
    assert len({e, e}) == 1
    e.close()
    e.close()
    assert e.is_closed
    assert repr(e) == "<handoff.Event, closed>"
    for use in (lambda: e.handle, lambda: e.is_done, e.sync, lambda: stream.wait(e), lambda: stream.record(e)):
        with pytest.raises(handoff.ClosedError):
            use()


def test_elapsed(stream: Any) -> None:
    timing = EventOptions(timing_enabled=True)
    a = stream.record(options=timing)
    b = stream.record(options={"timing_enabled": True, "blocking_sync": True})
    assert b.is_blocking_sync
    stream.sync()
    assert 0 <= b - a < 60_000
    with pytest.raises(RuntimeError, match="timing"):
        b - stream.record()
    c = handoff.Device(0).create_event(timing)
    with pytest.raises(RuntimeError, match="recorded"):
        c - a
    with pytest.raises(TypeError):
        b - 1


def test_elapsed_of_pending_work(stream: Any, gate: Any) -> None:
    a = stream.record(options={"timing_enabled": True})
    with gate(stream):
        b = stream.record(options={"timing_enabled": True})
        with pytest.raises(handoff.DriverError, match="NOT_READY") as info:
            b - a
        assert info.value.name == "CUDA_ERROR_NOT_READY"
        assert info.value.code == 600


CHILD = """
import pickle, sys
import handoff
from handoff import _core
e = handoff.Event.from_ipc_descriptor(pickle.load(sys.stdin.buffer))
assert e.is_ipc_enabled and not e.is_timing_enabled and e.device.create_stream() is not None
s = e.device.create_stream()
s.wait(e)
assert not s.is_done, "it does not wait for the other process"
assert not e.is_done
print("waits", flush=True)
s.sync()
assert e.is_done
key = _core._gate(s)
s.record(e)
print("recorded", flush=True)
sys.stdin.buffer.readline()
_core._gate_open(key)
s.sync()
e.close()
"""


def test_event_of_another_process(device: Device, stream: Any, other: Any, gate: Any) -> None:
    with pytest.raises(TypeError, match="timing"):  # B298
        stream.record(options=EventOptions(ipc_enabled=True, timing_enabled=True))
    with pytest.raises(RuntimeError, match="ipc_enabled"):
        stream.record().ipc_descriptor
    assert not stream.record().is_ipc_enabled
    invented = handoff.IPCEventDescriptor(bytes(64), device.uuid)
    if not real_gpu():  # its events are one process's
        for make in (
            lambda: stream.record(options={"ipc_enabled": True}),
            lambda: device.create_event(EventOptions(ipc_enabled=True)),
            lambda: handoff.Event.from_ipc_descriptor(invented),
        ):
            with pytest.raises(handoff.DriverError, match="NOT_SUPPORTED"):
                make()
        return
    with pytest.raises(handoff.DriverError):
        handoff.Event.from_ipc_descriptor(invented)
    with gate(stream) as open_gate:
        e = stream.record(options={"ipc_enabled": True})
        assert e.is_ipc_enabled
        descriptor = e.ipc_descriptor
        assert descriptor.device_uuid == device.uuid
        assert pickle.loads(pickle.dumps(descriptor)) == descriptor
        p = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert p.stdin is not None
        assert p.stdout is not None
        p.stdin.write(pickle.dumps(descriptor))
        p.stdin.flush()
        assert p.stdout.readline() == b"waits\n"
        open_gate()
        assert p.stdout.readline() == b"recorded\n"
        other.wait(e)
        assert not other.is_done
        p.stdin.write(b"\n")
        p.stdin.close()
        other.sync()
    assert p.wait(60) == 0
    p.stdout.close()
    e.close()
    with pytest.raises(handoff.ClosedError):
        e.ipc_descriptor


@pytest.mark.parametrize("bad", [None, b"", bytes(64), {"handle": bytes(64)}, object()])
def test_descriptors_of_no_event(bad: Any, device: Device) -> None:
    with pytest.raises(handoff.InvalidTypeError, match="IPCEventDescriptor"):
        handoff.Event.from_ipc_descriptor(bad)
    for wrong in (bytes(63), bytes(65), b""):
        with pytest.raises(handoff.InvalidValueError, match="64"):
            handoff.Event.from_ipc_descriptor(handoff.IPCEventDescriptor(wrong, device.uuid))
    with pytest.raises(handoff.InvalidTypeError):
        handoff.Event.from_ipc_descriptor(handoff.IPCEventDescriptor("x" * 64, device.uuid))  # type: ignore[arg-type]
    with pytest.raises(handoff.InvalidValueError, match="not visible"):
        handoff.Event.from_ipc_descriptor(handoff.IPCEventDescriptor(bytes(64), "GPU-0"))


def test_record_what_is_no_event(stream: Any) -> None:
    with pytest.raises(TypeError):
        stream.record(object())


# ---- Memory ------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "type_"), [("device", 2), ("pinned", 3), ("managed", 13)])
def test_buffer(kind: Any, type_: int, device: Device, stream: Any) -> None:
    b = device.allocate(256, stream=stream, kind=kind)
    assert b.size == 256
    assert b.handle % 256 == 0
    assert b.__dlpack_device__() == (type_, 0)
    assert b.device_id == (-1 if kind == "pinned" else 0)
    assert b.is_device_accessible
    assert b.is_host_accessible == (kind != "device")
    assert b.is_managed == (kind == "managed")
    b.fill(7, stream=stream)
    v = handoff.StridedMemoryView.from_buffer(b, (256,), dtype="uint8")
    assert v.exporting_obj is b
    assert v.device_id == 0
    assert read(v, stream) == [7] * 256
    b.fill(b"\x01\x02\x03\x04", stream=stream)
    assert read(v, stream) == [1, 2, 3, 4] * 64
    b.fill(b"\x05\x06", stream=stream)
    assert read(v, stream) == [5, 6] * 128
    if kind != "device":
        assert bytes(memoryview(v)[:4]) == b"\x05\x06\x05\x06"
    b.close()
    assert b.is_closed
    assert read(v, stream)[:2] == [5, 6], "views keep the memory"
    with pytest.raises(handoff.ClosedError):
        b.fill(1, stream=stream)


def test_buffer_errors(device: Device, stream: Any) -> None:
    b = device.allocate(6, stream=stream)
    for value, error in ((256, OverflowError), (-1, OverflowError), (b"abc", ValueError), (b"abcd", ValueError)):
        with pytest.raises(error):
            b.fill(value, stream=stream)
    with pytest.raises(TypeError):
        b.fill(1.5, stream=stream)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        device.allocate(1, stream=None)
    with pytest.raises(ValueError):
        device.allocate(-1, stream=stream)
    with pytest.raises(ValueError):
        device.allocate(1, stream=stream, kind="other")  # type: ignore[arg-type]
    with pytest.raises(handoff.DriverError, match="OUT_OF_MEMORY") as info:
        device.allocate(1 << 50, stream=stream)
    assert info.value.code == 2
    assert info.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
    with pytest.raises(TypeError):
        Buffer()


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [
        (np.uint8(3), b"\x03"),
        (np.int8(-1), b"\xff"),
        (np.uint16(4), b"\x04\x00"),  # bytes() would take it for a length
        (np.float32(1), b"\x00\x00\x80\x3f"),
        (np.array([1, 2], "u1"), b"\x01\x02"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd"), b"abcd"),
        (True, b"\x01"),
    ],
)
def test_fill_with_any_pattern(value: Any, bytes_: bytes, device: Device, stream: Any) -> None:
    b = device.allocate(8, stream=stream)
    b.fill(value, stream=stream)
    assert bytes(read(handoff.StridedMemoryView.from_buffer(b, (8,), dtype="uint8"), stream)) == bytes_ * (
        8 // len(bytes_)
    )


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (np.int64(2), ValueError),
        (b"", ValueError),
        (1.5, handoff.InvalidTypeError),
        ("a", handoff.InvalidTypeError),
        (None, TypeError),
    ],
)
def test_fill_with_what_is_no_pattern(value: Any, error: type[Exception], device: Device, stream: Any) -> None:
    with pytest.raises(error):
        device.allocate(8, stream=stream).fill(value, stream=stream)


def test_empty_buffer(device: Device, stream: Any) -> None:
    b = device.allocate(0, stream=stream)
    assert b.size == 0
    b.fill(1, stream=stream)
    b.close()


def test_copies_between_buffers(device: Device, stream: Any) -> None:
    a, b = device.allocate(64, stream=stream), device.allocate(64, stream=stream, kind="pinned")
    a.fill(9, stream=stream)
    b.copy_from(a, stream=stream)
    stream.sync()
    assert bytes(memoryview(handoff.StridedMemoryView.from_buffer(b, (64,), dtype="uint8"))) == b"\x09" * 64
    host = handoff.Array.full((16,), 5, "int32")
    a.copy_from(host, stream=stream)
    back = handoff.Array.zeros((16,), "int32")
    a.copy_to(back, stream=stream)
    stream.sync()
    assert back.tolist() == [5] * 16
    with pytest.raises(BufferError):
        a.copy_from(device.allocate(32, stream=stream), stream=stream)


def test_close_on_another_stream(device: Device, stream: Any, other: Any, gate: Any) -> None:
    with gate(other) as open_gate:
        b = device.allocate(1 << 20, stream=stream)
        b.used_on(other)
        b.close(other)
        assert not other.is_done
        open_gate()
    other.sync()


def test_the_stream_of_a_buffer_may_be_closed_first(device: Device) -> None:
    s = device.create_stream()
    b = device.allocate(64, stream=s)
    s.close()
    b.close()
    device.sync()


def test_memory_goes_back_without_close(device: Device, stream: Any) -> None:
    """The second allocation on a stream is the buffer's own until somebody wants more of it."""
    seen = set()
    for _ in range(50):
        b = device.allocate(1 << 20, stream=stream)
        seen.add(b.handle)
        weak = weakref.ref(b)
        del b
        assert weak() is None
    assert len(seen) < 25, "memory that was given back in stream order is used again"


def test_facts_of_own_memory(device: Device, stream: Any) -> None:
    device.allocate(1, stream=stream).close()
    with device.allocate(100, stream=stream) as b:
        address = b.handle
        assert (b.size, b.device_id, b.is_closed, b.is_managed, b.is_host_accessible) == (100, 0, False, False, False)
        assert repr(b) == f"<handoff.Buffer of 100 bytes, device, at {address:#x}>"
        view = b._handoff_view
        assert view is b._handoff_view
        assert (view.ptr, view.size) == (address, 100)
        assert (b.handle, b.size) == (address, 100), "a view moves nothing"
    assert b.is_closed
    assert view.ptr == address
    for of in (lambda: b.handle, lambda: b.size, lambda: b.device_id, lambda: b._handoff_view, b.__dlpack_device__):
        with pytest.raises(handoff.ClosedError):
            of()
    b.close()
    assert repr(b) == "<handoff.Buffer, closed>"
    with pytest.raises(TypeError):
        b.close(1, 2)
    with pytest.raises(TypeError):
        device.allocate(1, stream)  # type: ignore[misc]
    with pytest.raises(TypeError):
        device.allocate("1", stream=stream)  # type: ignore[arg-type]


@pytest.mark.parametrize("use", ["close", "collect", "view", "fill", "used_on"])
@pytest.mark.parametrize("of", [lambda s: s, StreamView])
def test_own_memory_holds_a_closed_stream(device: Device, of: Any, use: str) -> None:
    """The stream is given up with the last buffer that goes back on it."""
    made = device.create_stream()
    device.allocate(1, stream=made).close()
    s = of(made)
    assert s.device_id == 0  # asked: from now on its place is known
    buffers = [device.allocate(4096, stream=s) for _ in range(3)]
    other = device.create_stream()
    made.sync()  # the memory is there for other, too
    s.close()
    made.close()
    assert s.is_closed
    assert s.exporting_obj is None
    with pytest.raises(handoff.ClosedError):
        s.sync()
    with pytest.raises(handoff.ClosedError):
        device.allocate(1, stream=s)
    for b in buffers:
        if use == "view":
            assert b._handoff_view.size == 4096
        elif use == "fill":
            b.fill(3, stream=other)
        elif use == "used_on":
            b.used_on(other)
        if use != "collect":
            b.close()
    del buffers
    other.sync()
    device.sync()


def test_close_of_own_memory_on_other_streams(device: Device, stream: Any, other: Any, gate: Any) -> None:
    device.allocate(1, stream=stream).close()
    for on in (stream, StreamView(stream), stream.handle, None):
        b = device.allocate(64, stream=stream)
        b.close(on)
        assert b.is_closed
    b = device.allocate(64, stream=stream)
    with pytest.raises(TypeError):
        b.close(object())  # type: ignore[arg-type]
    assert not b.is_closed
    with gate(stream):
        b.close(other)
        assert not other.is_done, "it goes back after the work of its first stream"
    other.sync()


def test_own_memory_in_threads(device: Device, stream: Any) -> None:
    """Many threads want the view of one buffer, and close it: one of them makes it, all see the same."""
    device.allocate(1, stream=stream).close()
    failures: list[BaseException] = []
    for _ in range(30):
        b = device.allocate(256, stream=stream)
        barrier = threading.Barrier(4)
        views: list[Any] = []

        def work(b: Buffer = b, barrier: threading.Barrier = barrier, views: list[Any] = views) -> None:
            try:
                barrier.wait()
                views.append(b._handoff_view)
                barrier.wait()
                b.close()
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures, failures[0]
        assert len({id(v) for v in views}) == 1
        assert b.is_closed


def test_buffers_survive_threads(device: Device) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            s = device.create_stream()
            for i in range(20):
                b = device.allocate(1024, stream=s)
                b.fill(i, stream=s)
                v = handoff.StridedMemoryView.from_buffer(b, (1024,), dtype="uint8")
                b.close()
                assert read(v, s)[0] == i
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures[0]


# ---- Fork --------------------------------------------------------------------


def test_fork(device: Device, stream: Any) -> None:
    import os

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for call in (stream.sync, lambda: stream.is_done, lambda: device.allocate(1, stream=stream), Device):
                try:
                    call()
                except handoff.ForkError:
                    continue
                break
            else:
                code = 0
            stream.close()  # no driver call
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    stream.sync()


def test_record_with_an_event_and_options(device: Device, stream: Any) -> None:
    e = device.create_event()
    with pytest.raises(handoff.InvalidValueError, match="new event"):
        stream.record(e, {"timing_enabled": True})
    assert stream.record(e, None) is e
    assert stream.record(None, {"timing_enabled": True}).is_timing_enabled


def test_a_stream_that_is_closed_by_the_one_it_waits_for(device: Device, stream: Any) -> None:
    """What is given for a stream may be any code: close() waits until nobody uses the handle."""

    class Closes:
        def __cuda_stream__(self) -> tuple[int, int]:
            s.close()
            return 0, stream.handle

    for _ in range(3):
        s = device.create_stream()
        s.wait(Closes())
        assert s.is_closed
        with pytest.raises(handoff.ClosedError):
            s.wait(Closes())


class Closes:
    """An array whose producer closes a stream when it is asked."""

    def __init__(self, array: Any, stream: Any) -> None:
        self.array, self.stream = array, stream

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.stream.close()
        return self.array.__dlpack__(**kwargs)


def test_a_stream_that_is_closed_by_the_array_that_is_copied(device: Device) -> None:
    # The memory is of another stream: its own would not be closed as long as it is there.
    home = device.create_stream()
    b = device.allocate(64, stream=home)
    view = handoff.StridedMemoryView.from_any_interface(b, home)
    s = device.create_stream()
    view.copy_from(Closes(handoff.Array.full(64, 3, "int8"), s), s)
    assert s.is_closed
    device.sync()
    assert read(handoff.StridedMemoryView.from_buffer(b, (64,), dtype="int8"), home) == [3] * 64


def test_a_view_keeps_the_stream_that_it_is_ordered_on(device: Device, stream: Any) -> None:
    """close() of it takes the handle away only when nobody is ordered after it any more."""
    array = handoff.Array.full(64, 5, "int8")

    def ordered() -> tuple[handoff.StridedMemoryView, Any]:
        view = handoff.StridedMemoryView.from_any_interface(device.allocate(64, stream=stream), stream)
        with device.create_stream() as s:
            view.copy_from(array, s)
        assert s.is_closed
        return view, weakref.ref(s)

    for use in (
        lambda v: v,
        lambda v: v.view(dtype="uint8"),
        lambda v: handoff.StridedMemoryView.from_dlpack(v, stream),
        lambda v: handoff.StridedMemoryView.from_any_interface(v, -1),
        lambda v: handoff.StridedMemoryView.from_buffer(v, (64,), dtype="int8"),
    ):
        view, kept = ordered()
        other = use(view)
        if other is not view:
            view.copy_to(handoff.Array.full(64, 0, "int8"), stream)  # view lets go of it
        assert set(read(other, stream)) == {5}
        del view, other
        gc.collect()
        assert kept() is None


def test_a_stream_that_is_closed_by_the_array_that_is_imported(device: Device, stream: Any) -> None:
    view = handoff.StridedMemoryView.from_any_interface(device.allocate(64, stream=stream), stream)
    for take in (handoff.StridedMemoryView.from_dlpack, handoff.StridedMemoryView.from_any_interface):
        s = device.create_stream()
        taken = take(Closes(view, s), s)
        assert s.is_closed
        taken.copy_from(handoff.Array.full(64, 3, "int8"), stream)
        assert set(read(taken, stream)) == {3}


def test_a_stream_is_closed_while_a_view_is_copied_to_the_host(device: Device) -> None:
    """The copy is made, and nothing is kept."""
    before = _core._stats()["live_exports"]
    wrong: list[handoff.Error] = []

    def copy(view: handoff.StridedMemoryView, together: threading.Barrier) -> None:
        together.wait()
        try:
            view.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
        except handoff.Error as e:
            wrong.append(e)

    for _ in range(200):
        s, together = device.create_stream(), threading.Barrier(2)
        view = handoff.StridedMemoryView.from_any_interface(device.allocate(64, stream=s), s)
        copier = threading.Thread(target=copy, args=(view, together))
        copier.start()
        together.wait()
        s.close()
        copier.join()
        del view
    assert not wrong
    end = time.monotonic() + 10
    while _core._stats()["live_exports"] > before and time.monotonic() < end:
        gc.collect()
        _core._flush()
    assert _core._stats()["live_exports"] <= before


def test_weak_references(device: Device) -> None:
    gone: list[Any] = []
    s, e = device.create_stream(), device.create_event()
    v = StreamView(s)
    names = weakref.WeakKeyDictionary({s: "s"})
    refs = [weakref.ref(o, gone.append) for o in (s, e, v)]
    assert [r() for r in refs] == [s, e, v]
    s.close()
    assert names[s] == "s"
    del s, e, v
    gc.collect()
    assert [r() for r in refs] == [None] * 3
    assert len(gone) == 3
    assert len(names) == 0
    assert weakref.ref(handoff.LEGACY_DEFAULT_STREAM)() is handoff.LEGACY_DEFAULT_STREAM


@pytest.mark.skipif(real_gpu(), reason="the program asks for the software device")
@pytest.mark.parametrize("before", ["", "none"])
def test_the_environment_is_that_of_now(before: str) -> None:
    """A program may set HANDOFF_DRIVER itself, before the first use."""
    program = "import os, handoff; os.environ['HANDOFF_DRIVER'] = 'soft'; print(handoff.Device(0).name)"
    environment = {k: v for k, v in os.environ.items() if k != "HANDOFF_DRIVER"} | (
        {"HANDOFF_DRIVER": before} if before else {}
    )
    out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert "software" in out.stdout, out.stderr


def test_driver_version() -> None:
    assert _core._driver_version() >= 12000
