"""Memory resources by cuda.core's names."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import pickle
import sys
import threading
import time
import weakref
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from gpuhelp import read, real_gpu

import handoff
from handoff import (
    Buffer,
    Device,
    DeviceMemoryResource,
    DeviceMemoryResourceOptions,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    ManagedMemoryResourceOptions,
    MemoryResource,
    PinnedMemoryResource,
    PinnedMemoryResourceOptions,
    StreamView,
    StridedMemoryView,
    _core,
)

MAKE: dict[str, Any] = {
    "device": lambda: DeviceMemoryResource(0),
    "pinned": PinnedMemoryResource,
    "legacy pinned": LegacyPinnedMemoryResource,
    "managed": ManagedMemoryResource,
}


@pytest.mark.parametrize("name", MAKE)
def test_allocate(name: str, stream: Any) -> None:
    mr = MAKE[name]()
    with mr.allocate(64, stream=stream) as b:
        assert (mr.is_device_accessible, mr.is_host_accessible) == (b.is_device_accessible, b.is_host_accessible)
        assert mr.is_managed == b.is_managed
        assert mr.device_id == (0 if name == "device" else -1)
        assert b.memory_resource == mr
        assert hash(b.memory_resource) == hash(mr)
        b.fill(2, stream=stream)
        assert read(StridedMemoryView.from_buffer(b, (64,), dtype="uint8"), stream) == [2] * 64
        assert type(mr).__name__ in repr(mr)
    assert b.is_closed


def test_objects_are_used_again(device: Device, stream: Any) -> None:
    device.allocate(64, stream=stream).close()
    gone = []
    for i in range(200):
        held = [device.allocate(64 + k, stream=stream) for k in range(i % 20)]
        refs = [weakref.ref(b, gone.append) for b in held]
        assert [b.size for b in held] == [64 + k for k in range(i % 20)]
        assert not any(b.is_closed or b.is_managed or b.is_host_accessible for b in held)
        if held:
            view = StridedMemoryView.from_buffer(held[0], (64,), dtype="uint8")
            held[0].fill(i, stream=stream)
            held[-1].close()
            assert held[-1].is_closed
            with pytest.raises(handoff.ClosedError):
                _ = held[-1].handle
            if len(held) > 1:
                assert read(view, stream) == [i] * 64
        before = len(gone)
        del held
        view = None  # which keeps what it is of
        assert len(gone) == before + len(refs)
        assert all(r() is None for r in refs)
    pinned = device.allocate(32, stream=stream, kind="pinned")
    assert pinned.is_host_accessible and pinned.device_id == -1  # noqa: PT018


def test_arguments_of_allocate(device: Device, stream: Any) -> None:
    assert device.allocate(size=64, stream=stream).size == 64
    assert device.allocate(64, kind="device", stream=stream).size == 64
    for wrong in (
        lambda: device.allocate(64),
        lambda: device.allocate(stream=stream),
        lambda: device.allocate(64, stream),
        lambda: device.allocate(64, size=64, stream=stream),
        lambda: device.allocate(64, other=stream),
        lambda: device.allocate(64, 64, stream=stream),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_resources_differ() -> None:
    assert len({f() for f in MAKE.values()}) == 3  # pinned memory has two names
    if len(Device.get_all_devices()) > 1:
        assert DeviceMemoryResource(0) != DeviceMemoryResource(Device(1))
        assert DeviceMemoryResource(1).device_id == 1
    assert PinnedMemoryResource() != object()
    with pytest.raises(ValueError):
        DeviceMemoryResource(99)


def test_the_stream_tells_the_device() -> None:
    if len(Device.get_all_devices()) < 2:
        pytest.skip("one device")
    s = Device(1).create_stream()
    b = ManagedMemoryResource().allocate(16, stream=s)
    assert b.device_id == 1 or b.is_managed
    with pytest.raises(handoff.Error):
        DeviceMemoryResource(0).allocate(16, stream=s)
    b.close()


# ---- Pools of one's own ------------------------------------------------------


def test_a_pool_of_its_own(stream: Any) -> None:
    mr = DeviceMemoryResource(0, DeviceMemoryResourceOptions(max_size=1 << 22))
    same = DeviceMemoryResource(0)
    assert mr != same
    assert mr == mr
    assert mr.is_handle_owned
    assert not same.is_handle_owned
    assert mr.handle != same.handle
    b = mr.allocate(1000, stream=stream)
    assert b.memory_resource is mr
    assert isinstance(b, Buffer)
    assert (b.device_id, b.is_device_accessible, b.is_host_accessible) == (0, True, False)
    a = mr.attributes
    assert a.used_mem_current >= 1000
    assert a.reserved_mem_current >= a.used_mem_current
    assert (a.used_mem_high, a.reserved_mem_high) >= (a.used_mem_current, a.reserved_mem_current)
    assert a.release_threshold > 0
    assert a.reuse_follow_event_dependencies
    assert isinstance(a.reuse_allow_opportunistic, bool)
    assert isinstance(a.reuse_allow_internal_dependencies, bool)
    assert str(a.used_mem_current) in repr(a)
    address = b.handle
    b.close()
    again = mr.allocate(1000, stream=stream)
    assert again.handle == address, "a stream gets the memory back that it freed"
    with pytest.raises(handoff.DriverError):
        mr.allocate(1 << 30, stream=stream)
    view = StridedMemoryView.from_buffer(again, (1000,), dtype="uint8")
    mr.close()
    mr.close()
    assert mr.is_closed
    with pytest.raises(handoff.ClosedError):
        mr.allocate(16, stream=stream)
    with pytest.raises(handoff.ClosedError):
        _ = mr.handle
    again.fill(7, stream=stream)
    assert read(view, stream)[:2] == [7, 7], "what was allocated lives on"
    del view
    again.close()
    stream.sync()


def test_the_pool_of_the_device(stream: Any) -> None:
    mr = DeviceMemoryResource(0)
    b = mr.allocate(4096, stream=stream)
    assert mr.attributes.used_mem_current >= 4096
    assert mr.handle == DeviceMemoryResource(0).handle != 0
    mr.close()
    assert mr.handle, "it is not ours to close"
    assert (mr.is_ipc_enabled, mr.is_mapped, mr.uuid, b.is_mapped) == (False, False, None, False)
    b.close()


def test_options() -> None:
    assert DeviceMemoryResource(0, {"max_size": 1 << 20}).is_handle_owned
    for cls, bad in ((DeviceMemoryResource, (0,)), (PinnedMemoryResource, ()), (ManagedMemoryResource, ())):
        with pytest.raises(TypeError):
            cls(*bad, 5)
        with pytest.raises(TypeError):
            cls(*bad, {"size": 5})
    with pytest.raises(ValueError, match="other processes"):
        DeviceMemoryResource(0, DeviceMemoryResourceOptions(ipc_enabled=True))
    with pytest.raises(ValueError, match="other processes"):
        PinnedMemoryResource(PinnedMemoryResourceOptions(ipc_enabled=True))
    with pytest.raises(ValueError, match="numa_id"):
        PinnedMemoryResource(PinnedMemoryResourceOptions(numa_id=0))
    with pytest.raises(ValueError):
        DeviceMemoryResource(0, DeviceMemoryResourceOptions(max_size=-1))
    with pytest.raises(ValueError, match="no pool"):
        _ = PinnedMemoryResource().attributes.used_mem_current


def test_peers_of_a_pool(stream: Any) -> None:
    mr = DeviceMemoryResource(0, DeviceMemoryResourceOptions())
    assert set(mr.peer_accessible_by) == set()
    assert 0 not in mr.peer_accessible_by
    if len(Device.get_all_devices()) < 2 or not Device(0).can_access_peer(1):
        return
    mr.peer_accessible_by = [1]
    assert set(mr.peer_accessible_by) == {Device(1)}
    assert len(mr.peer_accessible_by) == 1
    assert "1" in repr(mr.peer_accessible_by)
    assert Device(1) in mr.peer_accessible_by
    for none in ("1", 99, -1, True, 1.0):
        assert none not in mr.peer_accessible_by
        mr.peer_accessible_by.discard(none)  # type: ignore[arg-type]
    assert set(mr.peer_accessible_by) == {Device(1)}
    with pytest.raises(handoff.Error):
        mr.peer_accessible_by.add(99)
    mr.peer_accessible_by.discard(1)
    mr.peer_accessible_by.add(Device(0))
    assert not mr.peer_accessible_by
    mr.peer_accessible_by = {Device(1)}
    mr.peer_accessible_by = ()
    assert not mr.peer_accessible_by


def test_a_pool_of_pinned_memory(stream: Any) -> None:
    if not Device(0).properties.get("host_memory_pools_supported", 0):
        with pytest.raises(handoff.DriverError):
            PinnedMemoryResource(PinnedMemoryResourceOptions())
        return
    mr = PinnedMemoryResource(PinnedMemoryResourceOptions(max_size=1 << 24))
    with mr.allocate(64, stream=stream) as b:
        assert (b.device_id, b.is_host_accessible, mr.numa_id) == (-1, True, -1)
        b.fill(4, stream=stream)
        assert read(StridedMemoryView.from_buffer(b, (64,), dtype="uint8"), stream) == [4] * 64
        assert mr.attributes.used_mem_current >= 64


@pytest.mark.parametrize(
    ("given", "place", "where"),
    [
        ({}, None, -1),
        ({"preferred_location": 0}, ("device", 0), 0),
        ({"preferred_location": -1}, ("host", None), -1),
        ({"preferred_location_type": "host"}, ("host", None), -1),
        ({"preferred_location": 0, "preferred_location_type": "device"}, ("device", 0), 0),
        ({"preferred_location": 0, "preferred_location_type": "host_numa"}, ("host_numa", 0), -1),
    ],
)
def test_where_managed_memory_would_rather_be(given: Any, place: Any, where: int, stream: Any) -> None:
    mr = ManagedMemoryResource(ManagedMemoryResourceOptions(**given))
    assert (mr.preferred_location, mr.device_id, mr.is_managed) == (place, where, True)
    with mr.allocate(4096, stream=stream) as b:
        assert b.is_managed
        assert b.memory_resource is mr
        b.fill(3, stream=stream)
        assert read(StridedMemoryView.from_buffer(b, (4096,), dtype="uint8"), stream) == [3] * 4096


def test_places_that_are_none() -> None:
    for bad in (
        {"preferred_location": -2},
        {"preferred_location": 0, "preferred_location_type": "host"},
        {"preferred_location_type": "device"},
        {"preferred_location": 0, "preferred_location_type": "moon"},
        {"preferred_location": 99},
    ):
        with pytest.raises(ValueError):
            ManagedMemoryResource(bad)


# ---- Memory of others --------------------------------------------------------


class Mine(MemoryResource):
    """A resource of a program, over the device's pool."""

    def __init__(self) -> None:
        self.under = DeviceMemoryResource(0)
        self.alive: dict[int, Buffer] = {}
        self.freed: list[tuple[int, int, Any]] = []

    def allocate(self, size: int, *, stream: Any) -> Buffer:
        b = self.under.allocate(size, stream=stream)
        self.alive[b.handle] = b
        return Buffer.from_handle(b.handle, size, mr=self, stream=stream)

    def deallocate(self, ptr: int, size: int, *, stream: Any) -> None:
        self.freed.append((ptr, size, stream))
        self.alive.pop(ptr).close(stream)

    device_id = 0
    is_device_accessible = True
    is_host_accessible = False


def settled(freed: list[Any], n: int) -> bool:
    """Whether n are freed: what was dropped on a thread without the GIL takes a moment."""
    for _ in range(1000):
        gc.collect()
        if len(freed) >= n:
            return True
        threading.Event().wait(0.01)
    return False


def test_a_resource_of_a_program(stream: Any, other: Any) -> None:
    mr = Mine()
    b = mr.allocate(64, stream=stream)
    assert b.memory_resource is mr
    assert b.owner is None
    assert (b.size, b.device_id, b.is_closed) == (64, 0, False)
    b.fill(5, stream=stream)
    address = b.handle
    v = StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
    b.close()
    assert b.is_closed
    assert mr.freed == [], "a view keeps the memory"
    assert read(v, stream) == [5] * 64
    del v
    assert settled(mr.freed, 1)
    assert mr.freed == [(address, 64, StreamView(stream))]
    mr.freed.clear()
    for close in (lambda b: b.close(other), lambda b: b.set_deallocation_stream(other)):
        b = mr.allocate(64, stream=stream)
        b.fill(1, stream=stream)
        close(b)
        del b
        assert settled(mr.freed, 1)
        assert mr.freed.pop()[2] == StreamView(other), "where the memory goes back"
    b = mr.allocate(64, stream=stream)
    b.used_on(other)
    other.wait(stream)  # the memory is there after that
    b.copy_from(mr.under.allocate(64, stream=other), stream=other)
    del b
    assert settled(mr.freed, 1)
    assert mr.freed.pop()[2] == StreamView(stream)
    assert mr.alive == {}


def test_streams_that_are_closed_before_the_memory_goes_back(stream: Any) -> None:
    mr, d = Mine(), Device(0)
    user = d.create_stream()
    b = mr.allocate(64, stream=stream)
    user.wait(stream)
    b.fill(5, stream=user)
    user.close()
    b.close()  # the host waits: nothing can be ordered after a stream that is gone
    assert [s for _, _, s in mr.freed] == [StreamView(stream)]

    home = d.create_stream()
    b = mr.allocate(64, stream=home)
    b.fill(6, stream=home)
    home.close()
    del b
    assert settled(mr.freed, 2)
    assert mr.freed[1][2] == handoff.LEGACY_DEFAULT_STREAM, "not a handle that is no stream's, or another's"
    assert mr.alive == {}

    home = d.create_stream()
    b = mr.allocate(64, stream=home)
    home.close()
    b.set_deallocation_stream(stream)
    b.close()
    assert mr.freed[2][2] == StreamView(stream)


@pytest.mark.racy  # a wait would make the moment rare that this is about
def test_a_stream_is_closed_while_others_use_it() -> None:
    """Its handle stays until the calls that have it are over; later ones say that it is closed."""
    d = Device(0)
    streams = [d.create_stream() for _ in range(2)]
    wrong: list[BaseException] = []
    ended = threading.Event()

    def use(home: Any) -> None:
        while not ended.is_set():
            for s in streams:
                with contextlib.suppress(handoff.ClosedError):
                    try:
                        b, c = d.allocate(64, stream=home), d.allocate(64, stream=home)
                        b.fill(1, stream=s)
                        v = StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
                        v.copy_from(StridedMemoryView.from_buffer(c, (64,), dtype="uint8"), s)
                        v.release_on(s)
                    except handoff.DriverError as e:
                        wrong.append(e)

    users = [threading.Thread(target=use, args=(d.create_stream(),)) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for u in users:
            u.start()
        for i in range(3000):
            old, streams[i % 2] = streams[i % 2], d.create_stream()
            old.close()
    finally:
        ended.set()
        for u in users:
            u.join()
        sys.setswitchinterval(before)
    assert wrong == []


def test_a_buffer_is_closed_while_its_view_is_made(device: Device) -> None:
    """The last use of a stream that is closed gives the GIL up, and another thread closes the buffer."""
    buffers: list[Buffer] = []
    there = threading.Semaphore(0)

    def close() -> None:
        while there.acquire() and buffers:
            buffers[-1].close()

    closer = threading.Thread(target=close)
    closer.start()
    try:
        for _ in range(2000):
            s = device.create_stream()
            buffers[:] = [device.allocate(64, stream=s)]
            s.close()  # which the buffer puts off
            there.release()
            with contextlib.suppress(handoff.ClosedError):
                view = StridedMemoryView.from_any_interface(buffers[0], -1)
                assert view.size == 64
            del s
    finally:
        buffers.clear()
        there.release()
        closer.join()


def test_a_device_takes_a_resource(stream: Any) -> None:
    d = Device(0)
    assert d.memory_resource == DeviceMemoryResource(0)
    mr = Mine()
    d.memory_resource = mr
    try:
        assert d.memory_resource is mr
        with d.allocate(32, stream=stream) as b:
            assert b.memory_resource is mr
        assert len(mr.freed) == 1
        with d.allocate(32, stream=stream, kind="device") as b:
            assert b.memory_resource == DeviceMemoryResource(0)
        with pytest.raises(TypeError):
            d.memory_resource = 5  # type: ignore[assignment]
    finally:
        d.memory_resource = DeviceMemoryResource(0)
    assert d.memory_resource is not mr
    with d.allocate(32, stream=stream) as b:
        assert b.memory_resource == DeviceMemoryResource(0)


def test_memory_of_others(stream: Any) -> None:
    theirs = Device(0).allocate(64, stream=stream)
    theirs.fill(9, stream=stream)

    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    b = Buffer.from_handle(theirs.handle, 64, owner=owner)
    del owner
    assert b.owner is gone()
    assert b.memory_resource is None
    assert (b.handle, b.device_id, b.is_host_accessible) == (theirs.handle, 0, False)
    view = StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
    assert read(view, stream) == [9] * 64
    b.set_deallocation_stream(stream)
    b.used_on(stream)
    b.close(stream)
    assert gone() is not None, "a view keeps the owner"
    del view
    end = time.monotonic() + 10  # a thread of Go may have it for a moment
    while gone() is not None and time.monotonic() < end:
        gc.collect()
    assert gone() is None
    bare = Buffer.from_handle(theirs.handle, 64)
    assert bare.owner is None
    assert bare.memory_resource is None
    with pytest.raises(ValueError, match="destination"):
        bare.copy_to(stream=stream)
    bare.close()
    with pytest.raises(handoff.ClosedError):
        _ = bare.handle
    assert read(StridedMemoryView.from_buffer(theirs, (64,), dtype="uint8"), stream) == [9] * 64
    assert Buffer.from_handle(0, 0).size == 0


@pytest.mark.parametrize(
    "bad",
    [
        *(True, 4096.0, np.float64(4096), np.float32(4096), np.array(4096.5), Decimal("4096.5"), Fraction(4096)),
        *("4096", b"4096", bytearray(b"4096"), memoryview(b"4096"), None, [], -1, 2**64),
        *(Device, handoff.LEGACY_DEFAULT_STREAM),
    ],
)
def test_addresses_that_are_none(bad: Any) -> None:
    if bad is Device:
        bad = Device(0)
    with pytest.raises((TypeError, handoff.RangeError)):
        Buffer.from_handle(bad, 8)


@pytest.mark.parametrize("size", [True, 8.0, "8", None, float("nan")])
def test_sizes_that_are_none(size: Any, device: Device, stream: Any) -> None:
    mr = DeviceMemoryResource(0)
    for make in (
        lambda: device.allocate(size, stream=stream),
        lambda: device.allocate(size, stream=stream, kind="pinned"),
        lambda: mr.allocate(size, stream=stream),
        lambda: mr.deallocate(4096, size, stream=stream),
        lambda: Buffer.from_handle(4096, size),
        lambda: Buffer.from_handle(4096, size, mr, stream=stream),
        lambda: Buffer.from_handle(4096, size, Mine(), stream=stream),
    ):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize("size", [2**63, 2**70, -(2**70)])
def test_sizes_that_are_too_large(size: int, device: Device, stream: Any) -> None:
    for make in (
        lambda: device.allocate(size, stream=stream),
        lambda: device.allocate(size, stream=stream, kind="pinned"),
        lambda: handoff.DeviceMemoryResource(0).allocate(size, stream=stream),
        lambda: Buffer.from_handle(4096, size),
    ):
        with pytest.raises(handoff.RangeError, match="64 bits"):
            make()


def test_host_memory_of_others(stream: Any) -> None:
    host = (ctypes.c_uint8 * 64)(*range(64))
    b = Buffer.from_handle(ctypes.addressof(host), 64, owner=host)
    assert (b.device_id, b.is_host_accessible, b.is_managed) == (-1, True, False)
    if not real_gpu():
        assert not b.is_device_accessible
    view = StridedMemoryView.from_buffer(b, (64,), dtype="uint8")
    assert (view.device_id, memoryview(view).tolist()) == (-1, list(range(64)))
    d = Device(0).allocate(64, stream=stream)
    d.copy_from(b, stream=stream)
    assert read(StridedMemoryView.from_buffer(d, (64,), dtype="uint8"), stream) == list(range(64))


def orphan(mr: Any, size: int, stream: Any) -> int:
    """The address of memory of a resource that no buffer owns: the driver refused to take it back."""
    b = mr.allocate(size, stream=stream)
    address: int = b.handle
    _core._inject("cuMemFreeAsync:1:999,cuMemFreeHost:1:999,cuMemFree:1:999")
    try:
        with contextlib.suppress(handoff.DriverError):
            b.close()
    finally:
        _core._inject("")
    return address


@pytest.mark.skipif(real_gpu(), reason="a GPU takes back what it is given")
@pytest.mark.parametrize("how", ["from_handle", "deallocate"])
def test_memory_comes_back_to_a_resource_of_ours(how: str, stream: Any) -> None:
    for mr in (DeviceMemoryResource(0, {}), DeviceMemoryResource(0, {"max_size": 1 << 24})):
        address = orphan(mr, 256, stream)
        assert mr.attributes.used_mem_current >= 256
        if how == "deallocate":
            mr.deallocate(address, 256, stream=stream)
        else:
            b = Buffer.from_handle(address, 256, mr, stream=stream)
            assert (b.handle, b.size, b.device_id) == (address, 256, 0)
            assert b.memory_resource == mr
            assert type(b.owner) is type(None)
            b.fill(2, stream=stream)
            assert read(StridedMemoryView.from_buffer(b, (256,), dtype="uint8"), stream) == [2] * 256
            b.close()
        stream.sync()
        _core._flush()
        assert mr.attributes.used_mem_current == 0
        mr.deallocate(0, 0, stream=stream)


@pytest.mark.skipif(real_gpu(), reason="what is not noticed would be freed; how a driver rounds sizes is its own")
@pytest.mark.parametrize("name", MAKE)
def test_memory_that_is_not_of_a_resource(name: str, stream: Any) -> None:
    """B155: what a resource is given back has to be what it gave, as far as the driver knows."""
    others = {k: f().allocate(1000, stream=stream) for k, f in MAKE.items() if k.split()[-1] != name.split()[-1]}
    if name == "device" and len(Device.get_all_devices()) > 1:
        there = Device(1)
        others["there"] = there.allocate(1000, stream=there.default_stream)
    mr = MAKE[name]()
    b = mr.allocate(1000, stream=stream)
    host = (ctypes.c_uint8 * 1000)()
    wrong = [(ctypes.addressof(host), 1000, "no memory"), (b.handle, 5000, "there are"), (0, 1000, "no memory")]
    wrong += (
        [(b.handle + 8, 992, "begins at")] if name in ("legacy pinned", "managed") else []
    )  # else the driver's to say
    wrong += [(b.handle, -1, "-1 bytes")]
    wrong += [(o.handle, 1000, "memory at") for o in others.values()]
    for address, size, text in wrong:
        with pytest.raises(handoff.InvalidValueError, match=text):
            mr.deallocate(address, size, stream=stream)
        if size >= 0:
            with pytest.raises(handoff.InvalidValueError, match=text):
                Buffer.from_handle(address, size, mr, stream=stream)
    b.fill(7, stream=stream)
    assert read(StridedMemoryView.from_buffer(b, (1000,), dtype="uint8"), stream) == [7] * 1000
    b.close()
    for o in others.values():
        o.close()


def test_memory_of_another_pool(stream: Any) -> None:
    mine, other = DeviceMemoryResource(0, {}), DeviceMemoryResource(0, {})
    b = mine.allocate(256, stream=stream)
    with pytest.raises(handoff.InvalidValueError, match="not of this pool"):
        other.deallocate(b.handle, 256, stream=stream)
    b.close()


def test_legacy_pinned_memory_goes_back_without_a_stream() -> None:
    with pytest.raises(handoff.InvalidValueError, match="no memory"):
        LegacyPinnedMemoryResource().deallocate(4096, 8)


def test_host_memory_is_not_called_pinned() -> None:
    host = (ctypes.c_uint8 * 64)()
    b = Buffer.from_handle(ctypes.addressof(host), 64, owner=host)
    assert ("host" if not b.is_device_accessible else "pinned") in repr(b)


def test_sets_made_of_peers() -> None:
    mr, d0 = DeviceMemoryResource(0, {}), Device(0)
    peers = mr.peer_accessible_by
    others = set(Device.get_all_devices()) - {d0}
    assert peers | {d0} == {d0}
    assert {d0} | peers == {d0}
    assert peers & others == set() == peers - others
    assert peers ^ others == others
    if not (others and real_gpu()):
        peers |= others
        peers &= others
        assert set(peers) == others
        peers -= others
        assert len(peers) == 0


def test_copies_of_resources(stream: Any) -> None:
    own = DeviceMemoryResource(0, {})
    for mr in (own, DeviceMemoryResource(0), ManagedMemoryResource()):
        assert copy.copy(mr) is mr
        assert copy.deepcopy([mr])[0] is mr
    with pytest.raises(handoff.InvalidTypeError, match="this process"):
        pickle.dumps(own)
    plain = DeviceMemoryResource(0)
    assert plain.handle != 0  # makes what is this process's
    again = pickle.loads(pickle.dumps(plain))
    assert again == plain
    again.allocate(16, stream=stream).close()
    properties = Device(0).properties
    assert dict(copy.copy(properties)) == dict(pickle.loads(pickle.dumps(properties))) == dict(properties)


def test_a_managed_resource_is_closed(stream: Any) -> None:
    mr = ManagedMemoryResource()
    b = mr.allocate(16, stream=stream)
    assert not mr.is_closed
    mr.close()
    mr.close()
    assert mr.is_closed
    b.fill(1, stream=stream)
    b.close()
    with pytest.raises(handoff.ClosedError):
        mr.allocate(16, stream=stream)


def test_a_resource_that_returns_no_buffer(device: Device, stream: Any) -> None:
    class Wrong(Mine):
        def allocate(self, size: int, *, stream: Any) -> Any:
            return None

    device.memory_resource = Wrong()
    try:
        with pytest.raises(handoff.InvalidTypeError, match="returned no Buffer"):
            device.allocate(16, stream=stream)
    finally:
        device.memory_resource = None  # type: ignore[assignment]


@pytest.mark.parametrize("place", ["x", True, 1.5, [0]])
def test_places_of_the_wrong_type(place: Any) -> None:
    with pytest.raises(handoff.InvalidTypeError, match="int or None"):
        ManagedMemoryResource(ManagedMemoryResourceOptions(place))
    with pytest.raises(handoff.InvalidValueError, match="one of"):
        ManagedMemoryResource({"preferred_location": 0, "preferred_location_type": [place]})


def test_a_kind_with_surrogates(device: Device, stream: Any) -> None:
    with pytest.raises(handoff.InvalidValueError, match="kind is one of"):
        device.allocate(16, stream=stream, kind="\udc80")  # type: ignore[arg-type]


def test_a_stream_that_closes_the_buffer(device: Device, stream: Any) -> None:
    """What is given for a stream may be any code."""

    class Evil:
        def __init__(self, do: Any) -> None:
            self.do = do

        def __cuda_stream__(self) -> tuple[int, int]:
            self.do()
            return 0, stream.handle

    for use in ("fill", "used_on", "set_deallocation_stream"):
        for do in ("close", "release"):
            b = device.allocate(64, stream=stream)
            view = b._handoff_view
            evil = Evil(b.close if do == "close" else lambda view=view: view.release_on(stream))
            del view
            with contextlib.suppress(handoff.Error):
                b.fill(1, stream=evil) if use == "fill" else getattr(b, use)(evil)
            b.close()
    stream.sync()


def test_copy_to_a_new_buffer(stream: Any) -> None:
    for mr in (
        DeviceMemoryResource(0),
        DeviceMemoryResource(0, {}),
        LegacyPinnedMemoryResource(),
        ManagedMemoryResource(),
    ):
        a = mr.allocate(128, stream=stream)
        a.fill(6, stream=stream)
        b = a.copy_to(stream=stream)
        assert (b.memory_resource, b.size) == (mr, 128)
        assert read(StridedMemoryView.from_buffer(b, (128,), dtype="uint8"), stream) == [6] * 128
        assert a.copy_to(b, stream=stream) is b


def test_pinned_memory_without_a_stream() -> None:
    with LegacyPinnedMemoryResource().allocate(8) as b:
        assert b.is_host_accessible


def test_bad_arguments(stream: Any) -> None:
    mr = Mine()
    b = Device(0).allocate(16, stream=stream)
    with pytest.raises(ValueError, match="not both"):
        Buffer.from_handle(b.handle, 16, mr, object())
    with pytest.raises(ValueError, match="no mr"):
        Buffer.from_handle(b.handle, 16, stream=stream)
    with pytest.raises(TypeError, match="MemoryResource"):
        Buffer.from_handle(b.handle, 16, "pool")  # type: ignore[arg-type]
    for address, size in ((-1, 16), (1 << 64, 16), (b.handle, -1), (0, 16)):
        with pytest.raises((ValueError, OverflowError)):
            Buffer.from_handle(address, size)
    with pytest.raises((TypeError, ValueError)):
        Buffer.from_handle("here", 16)
    with pytest.raises((ValueError, OverflowError)):
        Buffer.from_handle(-1, 16, mr)
    assert mr.freed == [], "what was refused stays the caller's"
    base = MemoryResource()
    for f in (
        lambda: base.allocate(1, stream=stream),
        lambda: base.deallocate(1, 1, stream=stream),
        lambda: base.device_id,
        lambda: base.is_device_accessible,
        lambda: base.is_host_accessible,
    ):
        with pytest.raises(TypeError):
            f()
    assert not base.is_managed
    for mr2 in (DeviceMemoryResource(0), PinnedMemoryResource(), ManagedMemoryResource()):
        with pytest.raises(TypeError):
            mr2.allocate(16, stream=None)  # type: ignore[arg-type]
