"""Arrays and streams between Python, Go and C libraries, without a copy.

`StridedMemoryView` is a view on the memory of any array: of every library that
speaks DLPack, the CUDA array interface, NumPy's array interface or the buffer
protocol. `Array` is memory that handoff owns, such as results of functions
written in Go. Both are taken by every other library through the same protocols.
`from_dlpack` is the function of that name of the Python array API standard.

`StreamView` is a stream of any library, `Stream`, `Event` and `Buffer` are made
by a `Device`. Without a GPU they run on the software device when the environment
variable HANDOFF_DRIVER is "soft"; otherwise they raise NoDriverError there.

Exceptions derive from `Error` and from the built-in class that callers expect;
their attribute `rule` names the protocol rule that was broken.
"""

from __future__ import annotations

from handoff._core import (
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Array,
    CapsuleError,
    ClosedError,
    CopyError,
    DeviceError,
    DriverError,
    DTypeError,
    Error,
    Event,
    ExchangeError,
    ForkError,
    GoError,
    GoPanic,
    InvalidTypeError,
    InvalidValueError,
    LayoutError,
    MaskError,
    NoDriverError,
    ProtocolError,
    RangeError,
    ReadOnlyError,
    Stream,
    StreamError,
    StreamView,
    StridedMemoryView,
    VersionError,
    from_dlpack,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoff._decorator import args_viewable_as_strided_memory
    from handoff._device import Buffer, Device, EventOptions, IPCEventDescriptor, StreamOptions
    from handoff._layout import StridedLayout
    from handoff._memory import (
        DeviceMemoryResource,
        DeviceMemoryResourceOptions,
        LegacyPinnedMemoryResource,
        ManagedMemoryResource,
        ManagedMemoryResourceOptions,
        MemoryResource,
        PinnedMemoryResource,
        PinnedMemoryResourceOptions,
    )
    from handoff._streams import use_stream

__version__ = "0.1.0"

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Array",
    "Buffer",
    "CapsuleError",
    "ClosedError",
    "CopyError",
    "DTypeError",
    "Device",
    "DeviceError",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "DriverError",
    "Error",
    "Event",
    "EventOptions",
    "ExchangeError",
    "ForkError",
    "GoError",
    "GoPanic",
    "IPCEventDescriptor",
    "InvalidTypeError",
    "InvalidValueError",
    "LayoutError",
    "LegacyPinnedMemoryResource",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "MaskError",
    "MemoryResource",
    "NoDriverError",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
    "ProtocolError",
    "RangeError",
    "ReadOnlyError",
    "Stream",
    "StreamError",
    "StreamOptions",
    "StreamView",
    "StridedLayout",
    "StridedMemoryView",
    "VersionError",
    "__version__",
    "args_viewable_as_strided_memory",
    "from_dlpack",
    "use_stream",
]

# What not every program needs is imported when it is first asked for.
_LATER = {
    "Buffer": "_device",
    "Device": "_device",
    "DeviceMemoryResource": "_memory",
    "DeviceMemoryResourceOptions": "_memory",
    "EventOptions": "_device",
    "IPCEventDescriptor": "_device",
    "LegacyPinnedMemoryResource": "_memory",
    "ManagedMemoryResource": "_memory",
    "ManagedMemoryResourceOptions": "_memory",
    "MemoryResource": "_memory",
    "PinnedMemoryResource": "_memory",
    "PinnedMemoryResourceOptions": "_memory",
    "StreamOptions": "_device",
    "StridedLayout": "_layout",
    "args_viewable_as_strided_memory": "_decorator",
    "use_stream": "_streams",
}


def __getattr__(name: str) -> object:
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module 'handoff' has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(f"handoff.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
