"""Memory resources by cuda.core's names."""

from __future__ import annotations

from typing import Any

import pytest
from gpuhelp import read

import handoff
from handoff import (
    Device,
    DeviceMemoryResource,
    LegacyPinnedMemoryResource,
    ManagedMemoryResource,
    PinnedMemoryResource,
    StridedMemoryView,
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
