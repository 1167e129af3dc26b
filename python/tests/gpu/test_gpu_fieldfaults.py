"""Faults seen in the field that have no better place."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import handoff
from handoff import Device, StridedMemoryView, _core

SIZE = 256


def view(b: handoff.Buffer) -> StridedMemoryView:
    return StridedMemoryView.from_buffer(b, (SIZE,), dtype="uint8")


BLOCKING: dict[str, Callable[..., Any]] = {
    "Stream.sync": lambda w: w.s.sync(),
    "StreamView.sync": lambda w: handoff.StreamView(w.s.handle).sync(),
    "Event.sync": lambda w: w.event.sync(),
    "Device.sync": lambda w: w.device.sync(),
    "memoryview": lambda w: memoryview(view(w.pinned)),
    "from_dlpack to the host": lambda w: handoff.from_dlpack(view(w.b), device="cpu", copy=True),
    "__dlpack__ to the host": lambda w: view(w.b).__dlpack__(dl_device=(1, 0), copy=True),
    "flush": lambda w: (view(w.b).release_on(w.s), _core._flush()),
}


@pytest.mark.parametrize("name", BLOCKING)
def test_B161_B167_the_gil_is_free_while_the_driver_blocks(name: str, device: Device, stream: Any, gate: Any) -> None:
    """The work that is waited for ends only because this thread runs Python meanwhile."""

    class World:
        pass

    w: Any = World()
    w.device, w.s = device, stream
    w.b, w.pinned = device.allocate(SIZE, stream=stream), device.allocate(SIZE, stream=stream, kind="pinned")
    stream.sync()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            BLOCKING[name](w)
        except BaseException as e:
            errors.append(e)

    with gate(stream) as opened:
        w.b.fill(1, stream=stream)
        w.pinned.fill(1, stream=stream)
        w.event = stream.record()
        t = threading.Thread(target=work)
        t.start()
        turns = 0
        begin = time.monotonic()
        while (late := time.monotonic() - begin) < 0.1 or (turns <= 1000 and late < 60):  # on a busy machine, too
            turns += 1
        assert t.is_alive(), "it did not wait"
        assert turns > 1000, "this thread stood still"
        opened()
        t.join(20)
    assert not t.is_alive()
    assert not errors


def test_B161_a_deleter_of_python_runs_on_no_driver_thread(device: Device, stream: Any, gate: Any) -> None:
    """A deleter that takes the GIL runs while this thread holds it and calls the driver."""
    b = device.allocate(SIZE, stream=stream)
    stream.sync()
    ran = threading.Event()

    class Owner:
        def __dlpack__(self, **kwargs: Any) -> Any:
            return view(b).__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __del__(self) -> None:
            time.sleep(0.02)  # a deleter that takes its time, and the GIL
            ran.set()

    v = StridedMemoryView.from_dlpack(Owner(), stream)
    with gate(stream) as opened:
        b.fill(1, stream=stream)
        v.release_on(stream)
        del v
        opened()
        until = time.monotonic() + 20
        while not ran.is_set() and time.monotonic() < until:
            stream.is_done
            b.fill(2, stream=stream)
    assert ran.wait(20)


def test_B211_the_current_stream_is_the_threads_own(device: Device) -> None:
    streams = [device.create_stream() for _ in range(4)]
    barrier = threading.Barrier(4)
    seen: dict[int, list[int]] = {}
    capsule = StridedMemoryView.__dlpack_c_exchange_api__
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = ctypes.c_void_p.from_address(get(capsule, b"dlpack_exchange_api") + 48).value
    assert at is not None
    current = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(at)

    def work_stream() -> int:
        out = ctypes.c_void_p()
        assert current(2, 0, ctypes.byref(out)) == 0
        return out.value or 0

    def work(i: int) -> None:
        seen[i] = [work_stream()]
        with handoff.use_stream(streams[i]):
            barrier.wait(20)  # all four have said their own
            seen[i].append(work_stream())
            barrier.wait(20)
        seen[i].append(work_stream())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert seen == {i: [0, s.handle, 0] for i, s in enumerate(streams)}
