"""Devices, and memory on them."""

from __future__ import annotations

import operator
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from handoff import _core
from handoff._core import Event, Stream, StreamView, StridedMemoryView

if TYPE_CHECKING:
    from handoff._copy import CopyOptions
    from handoff._core import _Exchangeable, _StreamLike, _SupportsCudaArrayInterface
    from handoff._memory import MemoryResource

    _Array: TypeAlias = _Exchangeable | _SupportsCudaArrayInterface

MemoryKind: TypeAlias = Literal["device", "pinned", "managed"]

_NAME, _UUID, _PCI, _PROPERTIES, _CAPABILITY = range(5)


class ComputeCapability(NamedTuple):
    """Version of a device's architecture."""

    major: int
    minor: int


@dataclass(frozen=True)
class StreamOptions:
    """How `Device.create_stream` makes a stream.

    A non-blocking stream and the legacy default stream leave each other alone. The lower the
    priority the more urgent; None is the least urgent.
    """

    nonblocking: bool = True
    priority: int | None = None


@dataclass(frozen=True)
class EventOptions:
    """How an event is made: with timing, with a `sync` that sleeps instead of spinning, or for other processes.

    An event for other processes (`Event.ipc_descriptor`) has no timing.
    """

    timing_enabled: bool = False
    blocking_sync: bool = False
    ipc_enabled: bool = False


@dataclass(frozen=True)
class IPCEventDescriptor:
    """What another process opens an event by: `Event.from_ipc_descriptor`. It may be pickled."""

    handle: bytes
    """What the driver says of the event."""
    device_uuid: str
    """The device of the event: its ordinal may be another one there."""


def _event_descriptor(event: Event) -> IPCEventDescriptor:
    return IPCEventDescriptor(_core._event_share(event), event.device.uuid)


def _event_of_descriptor(descriptor: IPCEventDescriptor) -> Event:
    if not isinstance(descriptor, IPCEventDescriptor) or not isinstance(descriptor.handle, bytes):
        raise _core.InvalidTypeError(f"an IPCEventDescriptor is needed, not {descriptor!r}")
    for device in Device.get_all_devices():
        if device.uuid == descriptor.device_uuid:
            return _core._event_open(device.device_id, descriptor.handle)
    raise _core.InvalidValueError(f"device {descriptor.device_uuid} is not visible to this process")


class DeviceProperties(Mapping[str, int]):
    """Attributes of a device by the driver's names in lower case, also as Python attributes."""

    def __init__(self, values: dict[str, int]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> int:
        """Return one attribute."""
        return self._values[name]

    def __getattr__(self, name: str) -> int:
        """Return one attribute."""
        try:
            return self.__dict__["_values"][name]  # type: ignore[no-any-return]  # not self._values: a copy is made empty
        except KeyError:
            raise AttributeError(f"the driver knows no device attribute {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of attributes."""
        return len(self._values)

    def __repr__(self) -> str:
        """Return the number of attributes in words."""
        return f"<{len(self)} device attributes>"


_devices: dict[int, Device] = {}
_lock = threading.Lock()


class Device(_core._DeviceBase):
    """A CUDA device, or a device of the software driver (HANDOFF_DRIVER=soft).

    There is one object an ordinal. None means the device whose context is current on the calling
    thread, or device 0. A Device is no resource: its primary context is kept while the process
    runs, as array libraries do. NoDriverError where there is no driver.
    """

    __slots__ = ("__weakref__", "_default", "_texts")

    _texts: dict[int, str]
    _default: StreamView | None

    def __new__(cls, device_id: int | Device | None = None) -> Device:
        """Return the object of an ordinal."""
        if isinstance(device_id, Device):
            return device_id
        if device_id is None:
            device_id = _core._device_current()
        elif isinstance(device_id, bool) or not hasattr(device_id, "__index__"):
            raise _core.InvalidTypeError(f"a device has an int for an ordinal, not {device_id!r}")
        device_id = operator.index(device_id)
        count = _core._device_count()
        if not 0 <= device_id < count:
            raise _core.InvalidValueError(f"device {device_id}: this process has {count}")
        with _lock:
            device = _devices.get(device_id)
            if device is None:
                device = super().__new__(cls, device_id)
                device._texts = {}
                device._default = None
                _devices[device_id] = device
        return device

    @staticmethod
    def get_all_devices() -> tuple[Device, ...]:
        """Return every device of this process."""
        return tuple(Device(i) for i in range(_core._device_count()))

    def _text(self, what: int) -> str:
        text = self._texts.get(what)
        if text is None:
            text = self._texts[what] = _core._device_text(self._id, what)
        return text

    @property
    def device_id(self) -> int:
        """The ordinal in this process."""
        return self._id

    @property
    def name(self) -> str:
        """The name; the software device says what it is."""
        return self._text(_NAME)

    @property
    def uuid(self) -> str:
        """The identifier of the physical device, as "GPU-..."."""
        return self._text(_UUID)

    @property
    def pci_bus_id(self) -> str:
        """The address on the PCI bus: "domain:bus:device.function"."""
        return self._text(_PCI)

    @property
    def compute_capability(self) -> ComputeCapability:
        """The version of the architecture."""
        major, minor = self._text(_CAPABILITY).split()
        return ComputeCapability(int(major), int(minor))

    @property
    def arch(self) -> str:
        """The architecture as compilers name it: "90"."""
        return "".join(self._text(_CAPABILITY).split())

    @property
    def properties(self) -> DeviceProperties:
        """All attributes that the driver knows."""
        lines = (line.rpartition("=") for line in self._text(_PROPERTIES).splitlines())
        return DeviceProperties({name: int(value) for name, _, value in lines})

    @property
    def memory_info(self) -> tuple[int, int]:
        """Free and total memory in bytes."""
        return _core._device_memory(self._id)

    @property
    def context(self) -> int:
        """The raw handle of the primary context."""
        return _core._device_context(self._id)

    @property
    def default_stream(self) -> StreamView:
        """The default stream of this device, whatever context is current: the legacy one.

        As in cuda.core it is the calling thread's own if the environment variable
        CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM begins with a number other than 0.
        """
        stream = self._default
        if stream is None:
            asked = re.match(r"\s*[+-]?\d+", os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0"))
            stream = self._default = _core._stream_default(self._id, asked is not None and int(asked[0]) != 0)
        return stream

    def set_current(self) -> None:
        """Make the primary context current on the calling thread.

        Nothing of handoff needs it; other code on this thread may.
        """
        _core._device_set_current(self._id)

    def create_stream(
        self, obj: _StreamLike | None = None, options: StreamOptions | Mapping[str, Any] | None = None
    ) -> Stream | StreamView:
        """Make a stream, or wrap one of another library.

        With obj the result is `StreamView(obj)`; otherwise a new Stream of this device.
        """
        if obj is not None:
            if options is not None:
                raise _core.InvalidValueError("options are for a new stream, not for one that exists")
            return StreamView(obj)
        o = _options(options, StreamOptions)
        return _core._stream_new(self._id, o.nonblocking, 0 if o.priority is None else o.priority)

    def create_event(self, options: EventOptions | Mapping[str, Any] | None = None) -> Event:
        """Make an event, not yet recorded."""
        return _core._event_new(self._id, options)

    @property
    def memory_resource(self) -> MemoryResource:
        """What `allocate` takes memory of no named kind from: the device's pool, until it is set."""
        if self._resource is not None:
            return self._resource
        from handoff import _memory

        return _memory.DeviceMemoryResource(self)

    @memory_resource.setter
    def memory_resource(self, mr: MemoryResource | None) -> None:
        from handoff import _memory

        if mr is not None and not isinstance(mr, _memory.MemoryResource):
            raise _core.InvalidTypeError(f"a MemoryResource is needed, not {mr!r}")
        plain = mr is None or (
            isinstance(mr, _memory.DeviceMemoryResource) and mr == _memory.DeviceMemoryResource(self)
        )
        self._resource = None if plain else mr

    def _of_resource(self, size: int, stream: _StreamLike) -> Buffer:
        mr = self.memory_resource
        b = mr.allocate(size, stream=stream)
        if not isinstance(b, Buffer):
            raise _core.InvalidTypeError(f"{type(mr).__name__}.allocate returned no Buffer, but {b!r}")
        return b

    def can_access_peer(self, peer: int | Device) -> bool:
        """Whether kernels on this device can reach memory of another."""
        return _core._device_can_access(self._id, Device(peer)._id)

    def sync(self) -> None:
        """Wait until all work of the device is done: a last resort. The GIL is given up."""
        _core._device_sync(self._id)

    def __int__(self) -> int:
        """Return the ordinal."""
        return self._id

    def __eq__(self, other: object) -> bool:
        """Compare by ordinal."""
        return isinstance(other, Device) and other._id == self._id

    def __hash__(self) -> int:
        """Hash by ordinal."""
        return hash((Device, self._id))

    def __reduce__(self) -> tuple[type[Device], tuple[int]]:
        """Pickle as the ordinal."""
        return Device, (self._id,)

    def __repr__(self) -> str:
        """Return the ordinal and the name."""
        return f"<handoff.Device {self._id} ({self.name})>"


def _options(given: Any, cls: type[Any]) -> Any:
    """Return options of a class: given as such, as a mapping, or not at all."""
    if given is None:
        return cls()
    names = cls.__dataclass_fields__
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise _core.InvalidTypeError(f"{cls.__name__} has no {name!r}, only {', '.join(names)}")
        return cls(**given)
    if not all(hasattr(given, name) for name in names):
        raise _core.InvalidTypeError(f"options are a {cls.__name__} or a mapping, not {given!r}")
    return given


def _event_options(given: Any) -> EventOptions:
    """Return what events are made with, wherever they are."""
    o: EventOptions = _options(given, EventOptions)
    return o


class Buffer(_core._Memory):
    """A block of memory that a device can reach.

    Made by `Device.allocate`, `Buffer.allocate` or `Buffer.from_handle`. Closing it gives the memory back in the order
    of the stream that it came with, or that `close` names, once nothing that was made of it is
    alive: views and arrays of other libraries keep the memory. To others it is an array of int8.
    """

    __slots__ = ("__weakref__",)

    def __new__(cls) -> Buffer:
        """Refuse: a buffer has to be allocated."""
        raise _core.InvalidTypeError("use Device.allocate, Buffer.allocate or Buffer.from_handle")

    @classmethod
    def allocate(
        cls, size: int, *, stream: _StreamLike, device: int | Device | None = None, kind: MemoryKind = "device"
    ) -> Buffer:
        """Allocate memory of a kind: "device", "pinned" (host) or "managed".

        Without a device it is the stream's. DriverError when there is no memory left.
        """
        if device is None:
            device = StreamView(stream).device_id if stream is not None else 0
        return Device(device).allocate(size, stream=stream, kind=kind)

    @staticmethod
    def from_handle(
        ptr: Any,
        size: int,
        mr: MemoryResource | None = None,
        owner: object = None,
        *,
        stream: _StreamLike | None = None,
    ) -> Buffer:
        """Make a buffer of memory that somebody else has allocated.

        With mr the buffer takes the memory over: `mr.deallocate` is called once nothing uses it any
        more, with the stream that is given (the legacy default stream if none is) or that `close`
        names. With owner it keeps that object alive. With neither, the caller keeps the memory.
        """
        from handoff import _memory

        return _memory.from_handle(ptr, size, mr, owner, stream)

    @property
    def owner(self) -> Any:
        """The object that keeps the memory, of a buffer made with one."""
        return None

    @property
    def is_mapped(self) -> bool:
        """Whether it is memory of another process."""
        return False

    @property
    def memory_resource(self) -> MemoryResource:
        """A resource that allocates memory of this kind."""
        from handoff import _memory

        if self.is_managed:
            return _memory.ManagedMemoryResource()
        if self.is_host_accessible:
            return _memory.PinnedMemoryResource()
        return _memory.DeviceMemoryResource(self.device_id)

    def fill(self, value: int | bytes | bytearray | memoryview, *, stream: _StreamLike) -> None:
        """Fill with a byte (0 to 255), or a pattern of 1, 2 or 4 bytes, in stream order."""
        if isinstance(value, int):
            if not 0 <= value <= 255:
                raise _core.RangeError(f"a byte is from 0 to 255, not {value}")
            width = 1
        else:
            try:
                pattern = memoryview(value).tobytes()  # not bytes(value), which takes NumPy's ints for lengths
            except TypeError:
                raise _core.InvalidTypeError(f"a byte or a buffer is needed, not {value!r}") from None
            width, value = len(pattern), int.from_bytes(pattern, "little")
            if width not in (1, 2, 4):
                raise _core.InvalidValueError(f"a pattern has 1, 2 or 4 bytes, not {width}")
        _core._buffer_fill(self._handoff_view, width, value, stream)

    def copy_from(self, src: _Array | Buffer, *, stream: _StreamLike, options: CopyOptions | None = None) -> None:
        """Copy from another buffer or array of as many bytes, in stream order.

        With options (handoff.utils.CopyOptions) not on the legacy default stream, and not on one that
        captures: TypeError.
        """
        if options is not None:
            stream, options = _said("copy_from", stream, options)
        view = _bytes_of(src, stream)
        if options is not None:
            view = _source("copy_from", view, options)
        self._handoff_view.copy_from(view, stream, blocking=False)
        self._queued(stream)
        if isinstance(src, Buffer):
            src._queued(stream)

    def copy_to(
        self, dst: _Array | Buffer | None = None, *, stream: _StreamLike, options: CopyOptions | None = None
    ) -> Any:
        """Copy to another buffer or array of as many bytes, in stream order, and return that.

        Without one it is a new buffer of the same memory resource. Options are as for copy_from.
        """
        view = self._handoff_view
        if options is not None:
            stream, options = _said("copy_to", stream, options)
            view = _source("copy_to", view, options)
        if dst is None:
            mr = self.memory_resource
            if mr is None:
                raise _core.InvalidValueError("handoff: copy_to: the buffer has no memory resource; name a destination")
            dst = mr.allocate(self.size, stream=stream)
        view.copy_to(_bytes_of(dst, stream), stream, blocking=False)
        self._queued(stream)
        if isinstance(dst, Buffer):
            dst._queued(stream)
        return dst

    def _queued(self, stream: _StreamLike) -> None:
        """Hear that a copy was queued on a stream. What views do is known for memory that handoff allocated."""

    def used_on(self, stream: _StreamLike) -> None:
        """Say that work queued on the stream uses the memory: giving it back waits for that."""
        _core._buffer_used(self._handoff_view, stream, False)

    def set_deallocation_stream(self, stream: _StreamLike) -> None:
        """Change the stream in whose order the memory is given back."""
        _core._buffer_used(self._handoff_view, stream, True)

    def __dlpack__(self, **kwargs: Any) -> object:
        """Return a DLPack capsule of the bytes; see StridedMemoryView."""
        return self._handoff_view.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return device type and ordinal."""
        return self._handoff_view.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3, of the bytes."""
        return self._handoff_view.__cuda_array_interface__

    def __enter__(self) -> Buffer:
        """Return the buffer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the buffer."""
        self.close()

    def __repr__(self) -> str:
        """Return size, kind and address."""
        if self.is_closed:
            return "<handoff.Buffer, closed>"
        kind = "managed" if self.is_managed else "pinned" if self.is_host_accessible else "device"
        if not self.is_device_accessible:
            kind = "host"
        return f"<handoff.Buffer of {self.size} bytes, {kind}, at {self.handle:#x}>"


_core._set_buffer_type(Buffer)


def _said(op: str, stream: _StreamLike, options: Any) -> tuple[StreamView, CopyOptions]:
    """Return the stream and the options of a copy, both checked."""
    from handoff import _copy

    return _copy.stream_of(op, stream), _copy.checked(op, options)


def _source(op: str, view: StridedMemoryView, options: CopyOptions) -> StridedMemoryView:
    """Return what to copy from, by the options."""
    from handoff import _copy

    return _copy.source(op, view, options)


def _bytes_of(obj: _Array | Buffer, stream: _StreamLike) -> StridedMemoryView:
    """Return a flat view of the bytes of a contiguous array."""
    if isinstance(obj, Buffer):
        return obj._handoff_view
    view = obj if isinstance(obj, StridedMemoryView) else _any_view(obj, stream)
    if view.strides is not None:
        raise _core.LayoutError("handoff: copy: the array is not contiguous; copy between views instead")
    return StridedMemoryView.from_buffer(view, (view.nbytes,), dtype="int8", is_readonly=view.readonly)


def _any_view(obj: Any, stream: _StreamLike) -> StridedMemoryView:
    """Return a view of any array, ordered on the stream if a device reaches it."""
    device = getattr(obj, "__dlpack_device__", None)
    if device is not None and int(device()[0]) == 1:
        return StridedMemoryView.from_dlpack(obj)
    if device is None and not hasattr(obj, "__cuda_array_interface__"):
        return StridedMemoryView.from_any_interface(obj)
    return StridedMemoryView.from_any_interface(obj, stream_ptr=stream)
