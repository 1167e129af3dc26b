"""Where memory comes from, by the names of cuda.core."""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, MutableSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from handoff import _core
from handoff._core import Stream, StreamView
from handoff._device import Buffer, Device, MemoryKind

if TYPE_CHECKING:
    from handoff._core import _StreamLike

_KINDS: tuple[MemoryKind, ...] = ("device", "pinned", "managed")  # by their numbers in C


class MemoryResource:
    """A source of `Buffer`s. A program may bring its own: a subclass with everything that is here.

    Its `allocate` returns `Buffer.from_handle(ptr, size, mr=self, stream=stream)`, which calls
    `deallocate` once nothing uses the memory any more.
    """

    def allocate(self, size: int, *, stream: _StreamLike) -> Buffer:
        """Allocate memory, usable by work queued on the stream from now on."""
        raise _core.InvalidTypeError(f"{type(self).__name__} does not say how to allocate")

    def deallocate(self, ptr: int, size: int, *, stream: _StreamLike | None) -> None:
        """Take memory back, in the order of the stream: work queued on it may still use the memory.

        The stream is None for memory that no device reaches.
        """
        raise _core.InvalidTypeError(f"{type(self).__name__} does not say how to deallocate")

    @property
    def device_id(self) -> int:
        """The ordinal of the device whose memory it is; -1 where it belongs to none."""
        raise _core.InvalidTypeError(f"{type(self).__name__} has no device_id")

    @property
    def is_device_accessible(self) -> bool:
        """Whether a device can read and write the memory."""
        raise _core.InvalidTypeError(f"{type(self).__name__} has no is_device_accessible")

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can read and write the memory."""
        raise _core.InvalidTypeError(f"{type(self).__name__} has no is_host_accessible")

    @property
    def is_managed(self) -> bool:
        """Whether the memory moves between host and device by itself."""
        return False


def _stream_or_legacy(stream: _StreamLike | None) -> _StreamLike:
    return _core.LEGACY_DEFAULT_STREAM if stream is None else stream


class _Source:
    """The number of a source in Go, given up with the last resource and buffer that need it."""

    def __init__(self, device: int, kind: int, own: bool, size: int = 0, where: int = 0, node: int = 0) -> None:
        self.key, self.handle = _core._source_new(device, kind, own, size, where, node)
        self.close = weakref.finalize(self, _core._source_close, self.key)
        self.close.atexit = False


class _Resource(MemoryResource):
    """What all resources of ours are. Two without options, of one kind and device, are equal."""

    _kind: ClassVar[MemoryKind]
    _device: Device | None = None
    _source: _Source | None = None
    _closed = False

    def _home(self, stream: _StreamLike) -> int:
        device = self._device if self._device is not None else Device(StreamView(stream).device_id)
        return device.device_id

    def allocate(self, size: int, *, stream: _StreamLike) -> Buffer:
        """Allocate memory, usable by work queued on the stream from now on.

        It is given back by `Buffer.close`, or with the last view on it, in the order of a stream.
        """
        if self._closed:
            raise _core.ClosedError(f"handoff: allocate: the {type(self).__name__} is closed")
        if stream is None:
            raise _core.InvalidTypeError("handoff: allocate: a stream is needed; device.default_stream is one")
        if self._source is None:
            return Device(self._home(stream)).allocate(size, stream=stream, kind=self._kind)
        kind = _KINDS.index(self._kind)
        b: _Sourced = _core._buffer_new(_Sourced, self._home(stream), kind, self._source.key, size, stream)
        b._resource = self
        return b

    def deallocate(self, ptr: int, size: int, *, stream: _StreamLike | None) -> None:
        """Take memory from here back, in the order of the stream: memory that no Buffer has, which closes itself.

        InvalidValueError if there is no such memory, or not of that size, as far as the driver knows.
        """
        _core._memory_free(*self._place_of(stream), ptr, size, _stream_or_legacy(stream))

    def _adopt(self, ptr: Any, size: int, stream: _StreamLike | None) -> Buffer:
        """Take memory over that came from here: a buffer that gives it back."""
        b: _Sourced = _core._buffer_adopt(_Sourced, *self._place_of(stream), ptr, size, _stream_or_legacy(stream))
        b._resource = self
        return b

    def _place_of(self, stream: _StreamLike | None) -> tuple[int, int, int]:
        """The device, kind and source of memory that goes back on a stream."""
        stream = _stream_or_legacy(stream)
        device = 0 if self._device is None and stream == _core.LEGACY_DEFAULT_STREAM else self._home(stream)
        return device, _KINDS.index(self._kind), 0 if self._source is None else self._source.key

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
        """Compare kind and device; one with options equals only itself."""
        if self is other:
            return True
        return (
            isinstance(other, _Resource)
            and self._source is None
            and other._source is None
            and (self._kind, self._device) == (other._kind, other._device)
        )

    def __hash__(self) -> int:
        """Hash kind and device."""
        return hash((self._kind, self._device, None if self._source is None else self._source.key))

    def __copy__(self) -> Self:
        """Return the resource itself: a copy would not be another pool."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the resource itself."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what has no options; the pool of one that has some is this process's."""
        if self._source is not None:
            raise _core.InvalidTypeError(
                f"a {type(self).__name__} with options cannot be pickled: its memory is this process's"
            )
        return {name: value for name, value in self.__dict__.items() if name != "_shared"}

    def __repr__(self) -> str:
        """Return kind and device."""
        return f"<handoff.{type(self).__name__}{'' if self._device is None else f' of device {self.device_id}'}>"


class _Sourced(Buffer):
    """A buffer that knows its resource."""

    __slots__ = ("_resource",)
    _resource: MemoryResource

    @property
    def memory_resource(self) -> MemoryResource:
        """The resource that the memory came from."""
        return self._resource


class PoolAttributes:
    """What the driver says of a memory pool, by cuda.core's names."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool

    @property
    def reuse_follow_event_dependencies(self) -> bool:
        """Whether memory is used again on a stream that is ordered after the free."""
        return bool(self._pool._attribute(1))

    @property
    def reuse_allow_opportunistic(self) -> bool:
        """Whether memory is used again elsewhere once the work that freed it is done."""
        return bool(self._pool._attribute(2))

    @property
    def reuse_allow_internal_dependencies(self) -> bool:
        """Whether the driver may make one stream wait for another to use memory again."""
        return bool(self._pool._attribute(3))

    @property
    def release_threshold(self) -> int:
        """The bytes that the pool keeps when somebody synchronizes."""
        return self._pool._attribute(4)

    @property
    def reserved_mem_current(self) -> int:
        """The bytes that the pool holds."""
        return self._pool._attribute(5)

    @property
    def reserved_mem_high(self) -> int:
        """The most that it ever held."""
        return self._pool._attribute(6)

    @property
    def used_mem_current(self) -> int:
        """The bytes that are allocated."""
        return self._pool._attribute(7)

    @property
    def used_mem_high(self) -> int:
        """The most that ever were."""
        return self._pool._attribute(8)

    def __repr__(self) -> str:
        """Return the bytes in use and held."""
        return f"<pool: {self.used_mem_current} of {self.reserved_mem_current} bytes in use>"


class _Pool(_Resource):
    """A resource with a pool of the driver."""

    _own = False
    _lock = threading.Lock()

    def _pool(self) -> _Source:
        if self._closed and self._own:
            raise _core.ClosedError(f"handoff: memory pool: the {type(self).__name__} is closed")
        if self._source is not None:
            return self._source
        with self._lock:  # the device's own pool, which only those need who ask about it
            shared: _Source | None = self.__dict__.get("_shared")
            if shared is None:
                shared = self.__dict__["_shared"] = _Source(max(self.device_id, 0), _KINDS.index(self._kind), False)
            return shared

    def _attribute(self, number: int) -> int:
        return _core._pool_attribute(self._pool().key, number)

    @property
    def attributes(self) -> PoolAttributes:
        """What the driver says of the pool."""
        return PoolAttributes(self)

    @property
    def handle(self) -> int:
        """The raw handle of the pool."""
        return self._pool().handle

    @property
    def is_handle_owned(self) -> bool:
        """Whether the pool was made for this resource; `close` does nothing to another's."""
        return self._own

    @property
    def is_ipc_enabled(self) -> bool:
        """Whether other processes can use the memory: not from Python."""
        return False

    @property
    def is_mapped(self) -> bool:
        """Whether it is the pool of another process."""
        return False

    @property
    def uuid(self) -> None:
        """None: the pool is not shared."""
        return

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Give a pool of one's own up. Its buffers stay usable, and the memory goes with the last of them."""
        self._closed = True


def _options(given: Any, cls: type[Any]) -> Any:
    o = cls(**given) if isinstance(given, Mapping) else given
    if not isinstance(o, cls):
        raise _core.InvalidTypeError(f"options are a {cls.__name__} or a mapping, not {given!r}")
    if getattr(o, "ipc_enabled", False):
        raise _core.InvalidValueError(
            "handoff: memory resource: memory is not shared with other processes from Python; "
            "the Go package device does it (PoolOptions.Shareable)"
        )
    return o


@dataclass
class DeviceMemoryResourceOptions:
    """A pool of one's own: at most max_size bytes, 0 for no limit. ipc_enabled is refused."""

    ipc_enabled: bool = False
    max_size: int = 0


class PeerAccess(MutableSet[Device]):
    """The devices that reach the memory of a pool besides its own; changing the set changes that."""

    def __init__(self, pool: DeviceMemoryResource) -> None:
        self._pool = pool

    def _can(self, device: int, can: int) -> bool:
        return _core._pool_peer(self._pool._pool().key, device, can)

    @staticmethod
    def _ordinal(x: object) -> int | None:
        """The ordinal of a device that there is, or None."""
        d = x.device_id if isinstance(x, Device) else x
        return d if type(d) is int and 0 <= d < len(Device.get_all_devices()) else None

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        """What &, |, - and ^ make: a set, which changes nothing."""
        return set(it)

    def __contains__(self, x: object) -> bool:
        """Whether a device, or that of an ordinal, reaches the memory."""
        d = self._ordinal(x)
        return d is not None and d != self._pool.device_id and self._can(d, -1)

    def __iter__(self) -> Iterator[Device]:
        """Iterate over the devices."""
        return (d for d in Device.get_all_devices() if d in self)

    def __len__(self) -> int:
        """Return how many they are."""
        return sum(1 for _ in self)

    def add(self, value: int | Device) -> None:
        """Let a device reach the memory."""
        d = Device(value).device_id
        if d != self._pool.device_id:
            self._can(d, 1)

    def discard(self, value: int | Device) -> None:
        """Take that back; what is no device has no access."""
        d = self._ordinal(value)
        if d is not None and d != self._pool.device_id:
            self._can(d, 0)

    def __repr__(self) -> str:
        """Return the ordinals."""
        return f"<peer access by {{{', '.join(str(int(d)) for d in self)}}}>"


class DeviceMemoryResource(_Pool):
    """The memory pool of a device, or, with options, a new one."""

    _kind = "device"

    def __init__(
        self, device_id: int | Device, options: DeviceMemoryResourceOptions | Mapping[str, Any] | None = None
    ) -> None:
        self._device = Device(device_id)
        if options is not None:
            o = _options(options, DeviceMemoryResourceOptions)
            self._source = _Source(self._device.device_id, 0, True, o.max_size)
            self._own = True

    @property
    def peer_accessible_by(self) -> PeerAccess:
        """The other devices that reach the memory: a set that can be changed, or set as a whole."""
        return PeerAccess(self)

    @peer_accessible_by.setter
    def peer_accessible_by(self, devices: Iterable[int | Device]) -> None:
        want = {Device(d) for d in devices} - {self._device}
        have = PeerAccess(self)
        for d in set(have) - want:
            have.discard(d)
        for d in want:
            have.add(d)


@dataclass
class PinnedMemoryResourceOptions:
    """A pool of pinned memory: at most max_size bytes, 0 for no limit. ipc_enabled and numa_id are refused."""

    ipc_enabled: bool = False
    max_size: int = 0
    numa_id: int | None = None


class PinnedMemoryResource(_Pool):
    """Host memory that devices reach.

    The device of the stream that is given allocates it, page by page locked. With options it comes
    in stream order from a pool of the current device, which needs a driver that has such pools
    (`Device.properties["host_memory_pools_supported"]`); DriverError otherwise.
    """

    _kind = "pinned"

    def __init__(self, options: PinnedMemoryResourceOptions | Mapping[str, Any] | None = None) -> None:
        if options is not None:
            o = _options(options, PinnedMemoryResourceOptions)
            if o.numa_id is not None:
                raise _core.InvalidValueError(
                    "handoff: memory resource: the system places pinned memory; leave numa_id out"
                )
            self._source = _Source(Device().device_id, 1, True, o.max_size)
            self._own = True

    def _pool(self) -> _Source:
        if self._source is None:
            raise _core.InvalidValueError(
                "handoff: memory resource: there is no pool behind it; one with options has one"
            )
        return super()._pool()

    @property
    def numa_id(self) -> int:
        """-1: the system places the memory."""
        return -1


class LegacyPinnedMemoryResource(_Resource):
    """The same without a pool, whatever the driver has."""

    _kind = "pinned"

    def allocate(self, size: int, *, stream: _StreamLike | None = None) -> Buffer:
        """Allocate memory; without a stream it goes back in the order of the legacy default stream."""
        return super().allocate(size, stream=_core.LEGACY_DEFAULT_STREAM if stream is None else stream)

    def deallocate(self, ptr: int, size: int, *, stream: _StreamLike | None = None) -> None:
        """Take memory from here back, as the other resources do; without a stream on the legacy default stream."""
        super().deallocate(ptr, size, stream=stream)

    def _home(self, stream: _StreamLike) -> int:
        return Device().device_id if stream is _core.LEGACY_DEFAULT_STREAM else super()._home(stream)


_Location: TypeAlias = Literal["device", "host", "host_numa"]
_PLACES: dict[str, int] = {"device": 1, "host": 2, "host_numa": 3}  # the driver's numbers


@dataclass
class ManagedMemoryResourceOptions:
    """Where managed memory would rather be.

    Without a type preferred_location is the ordinal of a device, -1 for the host, or None. With one
    it is the ordinal of the "device", the number of the "host_numa" node, or None for the "host".
    """

    preferred_location: int | None = None
    preferred_location_type: _Location | None = None

    def _place(self) -> tuple[_Location, int | None] | None:
        kind, where = self.preferred_location_type, self.preferred_location
        if kind is None:
            if where is None:
                return None
            kind, where = ("host", None) if where == -1 else ("device", where)
        if not isinstance(kind, str) or kind not in _PLACES:
            raise _core.InvalidValueError(f"preferred_location_type is one of {', '.join(_PLACES)}, not {kind!r}")
        if where is not None and (isinstance(where, bool) or not hasattr(where, "__index__")):
            raise _core.InvalidTypeError(f"preferred_location is an int or None, not {where!r}")
        if (kind == "host") != (where is None) or (where is not None and where < 0):
            raise _core.InvalidValueError(f"preferred_location {where!r} for the type {kind!r}")
        return kind, where


class ManagedMemoryResource(_Resource):
    """Memory that moves between the host and devices by itself."""

    _kind = "managed"
    _place: tuple[_Location, int | None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Allocate no more. Its buffers stay usable."""
        self._closed = True

    def __init__(self, options: ManagedMemoryResourceOptions | Mapping[str, Any] | None = None) -> None:
        if options is None:
            return
        self._place = _options(options, ManagedMemoryResourceOptions)._place()
        kind, where = self._place or (None, None)
        home = Device(where) if kind == "device" else Device()
        self._source = _Source(home.device_id, 2, True, 0, _PLACES.get(str(kind), 0), where or 0)

    @property
    def preferred_location(self) -> tuple[_Location, int | None] | None:
        """Where the memory would rather be: a type and a number; None if nobody said."""
        return self._place

    @property
    def device_id(self) -> int:
        """The ordinal of the device where the memory would rather be, or -1."""
        return self._place[1] if self._place is not None and self._place[0] == "device" else -1  # type: ignore[return-value]


def _placed(s: StreamView) -> StreamView:
    """Make the view know its device, of a stream that may be closed before the view is needed."""
    if isinstance(s.exporting_obj, Stream):
        _ = s.device_id
    return s


def _gone(s: StreamView) -> bool:
    return isinstance(s.exporting_obj, Stream) and s.exporting_obj.is_closed


class _Claim:
    """Calls a resource's deallocate when the last user of some memory is gone."""

    __slots__ = ("__weakref__", "ptr", "resource", "size", "stream", "used")

    resource: MemoryResource | None

    def __init__(self, resource: MemoryResource | None, ptr: int, size: int, stream: Any) -> None:
        self.resource, self.ptr, self.size, self.stream = resource, ptr, size, stream
        self.used: list[StreamView] = []

    def order(self) -> None:
        """Order the stream that the memory goes back on after the others that use it.

        One that was closed meanwhile has no handle any more, or another's: the host waits for the device.
        """
        if self.stream is not None and _gone(self.stream):
            Device(self.stream.device_id).sync()
            self.stream = _core.LEGACY_DEFAULT_STREAM
        for s in self.used:
            if _gone(s):
                Device(s.device_id).sync()
                continue
            if s == self.stream:
                continue
            try:
                self.stream.wait(s)
            except _core.DriverError:  # no memory for an event, say
                s.sync()
        self.used.clear()

    def __del__(self) -> None:
        """Give the memory back. An exception has nobody to go to; Python prints it."""
        resource = self.resource
        if resource is not None:
            self.order()
            resource.deallocate(self.ptr, self.size, stream=self.stream)


class _Imported(Buffer):
    """A buffer of memory that handoff has not allocated."""

    __slots__ = ("_keep",)
    _keep: Any

    @property
    def memory_resource(self) -> MemoryResource | None:  # type: ignore[override]
        """The resource that takes the memory back; None if nobody does."""
        return self._keep.resource if isinstance(self._keep, _Claim) else None

    @property
    def owner(self) -> Any:
        """The object that the memory was said to belong to."""
        return None if isinstance(self._keep, _Claim) else self._keep

    def close(self, stream: _StreamLike | None = None) -> None:
        """Give the memory back, in the order of a stream; may be called twice."""
        if self.is_closed:
            return
        if stream is not None:
            self.set_deallocation_stream(stream)
        if isinstance(self._keep, _Claim):
            self._keep.order()  # what fails here is told, and the buffer stays open
        keep, self._keep = self._keep, None
        super().close()
        del keep

    def set_deallocation_stream(self, stream: _StreamLike) -> None:
        """Change the stream in whose order the memory is given back."""
        s = StreamView(stream)
        claim = self._keep
        if isinstance(claim, _Claim) and claim.stream is not None and (s != claim.stream or _gone(claim.stream)):
            claim.used.append(claim.stream)
            claim.stream = _placed(s)

    def used_on(self, stream: _StreamLike) -> None:
        """Say that work queued on the stream uses the memory: giving it back waits for that."""
        s = StreamView(stream)
        claim = self._keep
        if isinstance(claim, _Claim) and claim.stream is not None and s != claim.stream and s not in claim.used:
            claim.used.append(_placed(s))

    def fill(self, value: int | bytes | bytearray | memoryview, *, stream: _StreamLike) -> None:
        """Fill with a byte (0 to 255), or a pattern of 1, 2 or 4 bytes, in stream order."""
        super().fill(value, stream=stream)
        self.used_on(stream)

    def _queued(self, stream: _StreamLike) -> None:
        """Hear that a copy was queued on a stream: it uses the memory."""
        self.used_on(stream)


def from_handle(ptr: Any, size: int, mr: MemoryResource | None, owner: object, stream: _StreamLike | None) -> Buffer:
    """Make the buffer of `Buffer.from_handle`."""
    if mr is None:
        if stream is not None:
            raise _core.InvalidValueError(
                "handoff: from_handle: a stream says where mr takes the memory back; there is no mr"
            )
        b: _Imported = _core._buffer_wrap(_Imported, ptr, size, owner)
        b._keep = owner
        return b
    if owner is not None:
        raise _core.InvalidValueError("handoff: from_handle: mr takes the memory back, or owner keeps it, not both")
    if not isinstance(mr, MemoryResource):
        raise _core.InvalidTypeError(f"handoff: from_handle: mr is a MemoryResource, not {mr!r}")
    if isinstance(size, bool) or not hasattr(size, "__index__"):
        raise _core.InvalidTypeError(f"handoff: from_handle: the size is an int, not {size!r}")
    size = operator.index(size)
    if isinstance(mr, _Resource) and size > 0:
        return mr._adopt(ptr, size, stream)
    on = None
    if mr.is_device_accessible:
        on = _placed(StreamView(_core.LEGACY_DEFAULT_STREAM if stream is None else stream))
    claim = _Claim(None, 0, size, on)  # until here the memory stays the caller's
    b = _core._buffer_wrap(_Imported, ptr, size, claim)
    b._keep, claim.ptr, claim.resource = claim, b.handle, mr
    return b
