"""Where memory comes from, by the names of cuda.core."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from handoff._core import StreamView
from handoff._device import Buffer, Device, MemoryKind

if TYPE_CHECKING:
    from handoff._core import _StreamLike


class MemoryResource:
    """A source of `Buffer`s. Two of one kind and one device are equal."""

    _kind: ClassVar[MemoryKind]
    _device: Device | None = None

    def allocate(self, size: int, *, stream: _StreamLike) -> Buffer:
        """Allocate memory, usable by work queued on the stream from now on.

        It is given back by `Buffer.close`, or with the last view on it, in the order of a stream.
        """
        device = self._device if self._device is not None else Device(StreamView(stream).device_id)
        return device.allocate(size, stream=stream, kind=self._kind)

    @property
    def device_id(self) -> int:
        """The ordinal of the device whose memory it is; -1 where it belongs to none."""
        return -1 if self._device is None else self._device.device_id

    @property
    def is_device_accessible(self) -> bool:
        """Whether a device can read and write the memory."""
        return True

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can read and write the memory."""
        return self._kind != "device"

    @property
    def is_managed(self) -> bool:
        """Whether the memory moves between host and device by itself."""
        return self._kind == "managed"

    def __eq__(self, other: object) -> bool:
        """Compare kind and device."""
        return isinstance(other, MemoryResource) and (self._kind, self._device) == (other._kind, other._device)

    def __hash__(self) -> int:
        """Hash kind and device."""
        return hash((self._kind, self._device))

    def __repr__(self) -> str:
        """Return kind and device."""
        return f"<handoff.{type(self).__name__}{'' if self._device is None else f' of device {self.device_id}'}>"


class DeviceMemoryResource(MemoryResource):
    """The memory pool of a device."""

    _kind = "device"

    def __init__(self, device: int | Device) -> None:
        self._device = Device(device)


class PinnedMemoryResource(MemoryResource):
    """Host memory that devices reach. The device of the stream that is given allocates it."""

    _kind = "pinned"


class LegacyPinnedMemoryResource(PinnedMemoryResource):
    """The same under its older name: our pinned memory never comes from a pool."""


class ManagedMemoryResource(MemoryResource):
    """Memory that moves between the host and devices by itself."""

    _kind = "managed"
