"""Every driver call of every operation fails once, with several codes: B140, B183, B279."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faultwalk import Walk
from gpuhelp import real_gpu

import handoff
from handoff import Buffer, Device, Event, Stream, StreamView, StridedMemoryView, args_viewable_as_strided_memory
from handoff.utils import CopyOptions, copy_batch

SIZE = 256

pytestmark = pytest.mark.skipif(real_gpu(), reason="needs the software device: a GPU does not fail to order")


class World:
    """What the operations use."""

    def __init__(self, device: Device, s: Stream, q: Stream) -> None:
        self.device, self.s, self.q = device, s, q
        self.foreign = StreamView(s.handle)
        self.a, self.b = device.allocate(SIZE, stream=s), device.allocate(SIZE, stream=s)
        self.pinned = device.allocate(SIZE, stream=s, kind="pinned")
        self.host = handoff.Array.zeros((SIZE,), "uint8")
        self.start, self.end = s.record(None, {"timing_enabled": True}), s.record(None, {"timing_enabled": True})
        s.sync()

    def view(self, b: Buffer, dtype: str = "uint8") -> StridedMemoryView:
        return StridedMemoryView.from_buffer(b, (SIZE,), dtype=dtype)

    def turned(self, b: Buffer) -> StridedMemoryView:
        return StridedMemoryView.from_buffer(b, (16, 16), (1, 16), dtype="uint8")


class Producer:
    """An array of another library."""

    def __init__(self, view: StridedMemoryView) -> None:
        self.view = view

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.view.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


class Cai:
    def __init__(self, view: StridedMemoryView, stream: int) -> None:
        self.__cuda_array_interface__ = dict(view.__cuda_array_interface__, stream=stream)


@args_viewable_as_strided_memory((0,))
def takes_views(x: Any, stream: Any) -> None:
    x.view(stream)


OPERATIONS: dict[str, Callable[[World], Any]] = {}
COVERED: set[str] = set()


def op(*covers: str) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    def add(f: Callable[[World], Any]) -> Callable[[World], Any]:
        OPERATIONS[f.__name__] = f
        COVERED.update(covers)
        return f

    return add


@op("Device.memory_info", "Device.can_access_peer", "Device.sync", "Device.default_stream", "Device.context")
def device_questions(w: World) -> None:
    assert w.device.memory_info[1] > 0
    w.device.can_access_peer(1)
    w.device.sync()
    w.device.default_stream.sync()


@op("Device.create_stream", "Stream.close")
def create_stream(w: World) -> None:
    w.device.create_stream().close()
    with w.device.create_stream():
        pass
    w.device.create_stream()  # left to the collector


@op("Device.create_event", "Event.close", "Event.handle")
def create_event(w: World) -> None:
    w.device.create_event().close()
    w.device.create_event()


@op(
    "Stream.is_done",
    "Stream.is_capturing",
    "Stream.is_nonblocking",
    "Stream.priority",
    "Stream.device",
    "Stream.device_id",
)
def stream_questions(w: World) -> None:
    for s in (w.s, StreamView(w.s.handle), handoff.LEGACY_DEFAULT_STREAM):
        assert s.is_done in (True, False)
        assert not s.is_capturing
        s.is_nonblocking, s.priority, s.device, s.device_id, s.context


@op("Stream.sync")
def stream_sync(w: World) -> None:
    w.a.fill(1, stream=w.s)
    w.s.sync()
    w.foreign.sync()


@op("Stream.wait", "Stream.record", "Event.sync", "Event.is_done", "Event.device")
def stream_order(w: World) -> None:
    w.q.wait(w.s)
    w.q.wait(w.foreign)
    e = w.s.record()
    w.q.wait(e)
    e.sync()
    assert e.is_done
    assert e.device == w.device
    w.s.record(e)
    handoff.LEGACY_DEFAULT_STREAM.wait(w.s)


@op("Event.__sub__")
def elapsed(w: World) -> None:
    assert w.end - w.start >= 0


@op("Device.allocate", "Buffer.allocate", "Buffer.close", "Buffer.used_on", "Buffer.set_deallocation_stream")
def allocate(w: World) -> None:
    for kind in ("device", "pinned", "managed"):
        b = w.device.allocate(SIZE, stream=w.s, kind=kind)  # type: ignore[arg-type]
        b.used_on(w.q)
        b.set_deallocation_stream(w.q)
        b.close()
        Buffer.allocate(SIZE, stream=w.s).close(w.q)
    w.device.allocate(SIZE, stream=w.s)  # left to the collector


class Mine(handoff.MemoryResource):
    """A resource of a program: it lends one block out."""

    device_id, is_device_accessible, is_host_accessible = 0, True, False

    def __init__(self, block: Buffer) -> None:
        self.block, self.lent = block, 0

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        b = Buffer.from_handle(self.block.handle, size, mr=self, stream=stream)
        self.lent += 1
        return b

    def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
        self.lent -= 1


@op("Buffer.from_handle", "Buffer.owner", "Device.memory_resource")
def memory_of_others(w: World) -> None:
    mr = Mine(w.a)
    w.device.memory_resource = mr
    try:
        b = w.device.allocate(SIZE, stream=w.s)
        b.fill(1, stream=w.q)
        b.close()
        assert mr.lent == 0
        w.device.allocate(SIZE, stream=w.s)
        assert mr.lent == 0
    finally:
        w.device.memory_resource = None
    owner = object()
    assert Buffer.from_handle(w.b.handle, SIZE, owner=owner).owner is owner


@op()
def resources_with_options(w: World) -> None:
    pool = handoff.DeviceMemoryResource(0, {"max_size": 1 << 20})
    b = pool.allocate(SIZE, stream=w.s)
    assert pool.attributes.used_mem_current >= SIZE
    pool.peer_accessible_by = [1]
    pool.peer_accessible_by = []
    b.close()
    pool.close()
    handoff.ManagedMemoryResource({"preferred_location": 0}).allocate(SIZE, stream=w.s).close()


@op("Buffer.fill", "Buffer.copy_from", "Buffer.copy_to")
def buffer_copies(w: World) -> None:
    w.a.fill(3, stream=w.s)
    w.b.copy_from(w.a, stream=w.s)
    w.b.copy_to(w.pinned, stream=w.s)
    w.s.sync()
    assert set(memoryview(w.view(w.pinned)).tolist()) == {3}


@op()
def batches(w: World) -> None:
    w.a.fill(6, stream=w.s)
    copy_batch(w.s, [w.a, w.a], [w.b, w.pinned])
    w.s.sync()
    assert set(memoryview(w.view(w.pinned)).tolist()) == {6}
    copy_batch(w.q, [w.host], [w.b], options=CopyOptions("during_api_call"))
    w.pinned.copy_to(w.a, stream=w.s, options=CopyOptions("any"))
    w.q.sync()
    w.s.sync()


@op("StridedMemoryView.copy_from", "StridedMemoryView.copy_to")
def view_copies(w: World) -> None:
    w.a.fill(5, stream=w.s)
    b = w.device.allocate(SIZE, stream=w.s)  # of its own, so that a claim that is left shows
    w.turned(b).copy_from(StridedMemoryView.from_buffer(w.a, (16, 16), dtype="uint8"), w.s)
    w.view(b).copy_to(w.host, w.s)
    w.s.sync()
    assert w.host.tolist() == [5] * SIZE
    w.view(w.a).copy_from(w.host, w.s, blocking=True)
    w.s.sync()


@op("StridedMemoryView.from_dlpack", "StridedMemoryView.from_any_interface", "StridedMemoryView.release_on")
def consume_dlpack(w: World) -> None:
    w.a.fill(1, stream=w.q)
    v = StridedMemoryView.from_dlpack(Producer(w.view(w.a)), w.s)
    u = StridedMemoryView.from_any_interface(v, w.q)
    u.release_on(w.q)
    v.release_on(w.s)


@op("StridedMemoryView.from_cuda_array_interface", "StridedMemoryView.__cuda_array_interface__")
def consume_cai(w: World) -> None:
    w.a.fill(1, stream=w.q)
    c = Cai(w.view(w.a), w.q.handle)
    v = StridedMemoryView.from_cuda_array_interface(c, w.s)
    assert v.__cuda_array_interface__["data"][0] == w.a.handle
    v.release_on(w.s)


@op("StridedMemoryView.__dlpack__", "Buffer.__dlpack__", "Buffer.__cuda_array_interface__")
def produce(w: World) -> None:
    w.a.fill(1, stream=w.q)
    v = w.view(w.a)
    v.__dlpack__(stream=w.s.handle)
    v.__dlpack__(stream=1, max_version=(1, 3))
    w.a.__dlpack__(stream=w.s.handle)
    w.a.__cuda_array_interface__


@op("from_dlpack")
def to_the_host(w: World) -> None:
    w.a.fill(9, stream=w.q)
    v = handoff.from_dlpack(Producer(w.view(w.a)), device="cpu", copy=True)
    assert memoryview(v).tolist() == [9] * SIZE


@op("StridedMemoryView.from_buffer", "StridedMemoryView.__buffer__")
def host_view(w: World) -> None:
    w.pinned.fill(4, stream=w.s)
    assert memoryview(w.view(w.pinned))[0] == 4


@op("args_viewable_as_strided_memory")
def decorated(w: World) -> None:
    w.a.fill(1, stream=w.q)
    takes_views(Producer(w.view(w.a)), w.s)


@op("use_stream")
def used_stream(w: World) -> None:
    with handoff.use_stream(w.s):
        StridedMemoryView.from_dlpack(w.view(w.a), w.q)


EXEMPT = {
    "fields": """
        Stream.handle Stream.context Stream.is_closed Stream.exporting_obj Stream.from_handle Event.context
        Event.is_closed Event.is_timing_enabled Event.is_blocking_sync Event.is_ipc_enabled Buffer.handle Buffer.size
        Buffer.device_id Buffer.is_device_accessible Buffer.is_host_accessible Buffer.is_managed
        Buffer.is_closed Buffer.is_mapped Buffer.memory_resource Buffer.__dlpack_device__
        StridedMemoryView.__dlpack_device__ StridedMemoryView.ptr
        StridedMemoryView.shape StridedMemoryView.strides StridedMemoryView.size StridedMemoryView.ndim
        StridedMemoryView.itemsize StridedMemoryView.nbytes StridedMemoryView.dtype
        StridedMemoryView.dlpack_dtype StridedMemoryView.device_id StridedMemoryView.is_device_accessible
        StridedMemoryView.is_host_accessible StridedMemoryView.producer_stream StridedMemoryView.stream
        StridedMemoryView.readonly StridedMemoryView.exporting_obj StridedMemoryView.view Device.device_id
    """,
    "asked once in a process, and by package device, whose walk does": """
        Device.get_all_devices Device.name Device.uuid Device.pci_bus_id Device.compute_capability
        Device.arch Device.properties
    """,
    "changes the current context on purpose, see test_set_current": """
        Device.set_current
    """,
    "the software device has no events between processes": """
        Event.ipc_descriptor Event.from_ipc_descriptor
    """,
    "host memory only": """
        StridedMemoryView.from_array_interface StridedMemoryView.__array_interface__
    """,
    "the C exchange table is data": """
        StridedMemoryView.__dlpack_c_exchange_api__ StridedMemoryView.__c_dlpack_exchange_api__
    """,
}


def public() -> Iterator[str]:
    for cls in (Device, Stream, Event, Buffer, StridedMemoryView):
        for name in dir(cls):
            special = name.startswith("__") and name.strip("_") in (
                "dlpack", "dlpack_device", "cuda_array_interface", "array_interface", "sub", "buffer",
                "dlpack_c_exchange_api", "c_dlpack_exchange_api",
            )  # fmt: skip
            if (special and name not in dir(object)) or not name.startswith("_"):
                yield f"{cls.__name__}.{name}"
    for name in handoff.__all__:
        if inspect.isroutine(getattr(handoff, name)):
            yield name


def test_everything_is_walked() -> None:
    exempt = {name for names in EXEMPT.values() for name in names.split()}
    have = set(public())
    assert not exempt & COVERED
    assert exempt | COVERED == have | {"StridedMemoryView.__buffer__"}  # which 3.12 shows


@pytest.fixture
def world(device: Device, stream: Stream, other: Stream) -> World:
    return World(device, stream, other)


walked = Walk()

# A producer whose own stream cannot be asked whether it is idle names it in the interface.
ASKED = frozenset(("cuStreamGetCtx", "cuCtxGetDevice"))
GOOD = {
    "consume_cai": ASKED,
    "produce": ASKED,
    "view_copies": frozenset(("cuPointerGetAttributes",)),  # memory of which nobody knows is waited for
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_fault_walk(name: str, world: World) -> None:
    walked.watch = [world.a, world.b, world.pinned, world.host, world.s, world.q, world.foreign]
    f = OPERATIONS[name]
    try:
        walked.walk(name, lambda: f(world), GOOD.get(name, frozenset()))
    finally:
        walked.watch = []


def test_the_walk_was_one() -> None:
    """After the others: the walk was not empty."""
    if walked.runs == 0:
        pytest.skip("the walk was not selected")
    print(walked)
    assert walked.failed > 1000
    assert len(walked.apis) > 25


def test_set_current(device: Device, world: World) -> None:
    from handoff import _core

    was = _core._device_current()
    _core._inject("*:1:2")
    try:
        with pytest.raises(handoff.DriverError) as info:
            device.set_current()
    finally:
        _core._inject("")
    assert info.value.code == 2
    assert _core._device_current() == was


PROGRAM = """
import handoff
device = handoff.Device(0)
s = device.create_stream()
for n in (1, 2, 3):
    try:
        device.create_stream()
        print(n, "made")
    except handoff.DriverError as e:
        print(n, e.code, e.name)
try:
    device.allocate(1 << 20, stream=s, kind="pinned")
except handoff.DriverError as e:
    print(e.name)
device.allocate(1 << 10, stream=s, kind="pinned")
"""


def test_faults_of_the_environment() -> None:
    """Programs set faults before they begin: the second and third stream, and large memory."""
    faults = "cuStreamCreateWithPriority:3:999,cuStreamCreateWithPriority:2:46,*:1+:2:min=65536"
    p = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"HANDOFF_DRIVER": "soft", "HANDOFF_SOFT_FAULT": faults},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert p.returncode == 0, p.stderr
    assert p.stdout.splitlines() == [
        "1 46 CUDA_ERROR_DEVICE_UNAVAILABLE",
        "2 999 CUDA_ERROR_UNKNOWN",
        "3 made",
        "CUDA_ERROR_OUT_OF_MEMORY",
    ]
