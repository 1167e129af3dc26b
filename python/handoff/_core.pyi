"""The compiled part of handoff."""

from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any, ClassVar, Protocol, Self, SupportsIndex, SupportsInt, TypeAlias, final, overload

import numpy as np
from typing_extensions import Buffer, CapsuleType

from handoff._device import Buffer as _DeviceBuffer
from handoff._device import Device, EventOptions, IPCEventDescriptor, MemoryKind
from handoff._memory import MemoryResource

DLPACK_MAJOR: int
DLPACK_MINOR: int

class _SupportsDLPack(Protocol):
    def __dlpack__(self) -> CapsuleType: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

class _SupportsArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class _SupportsCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

class _HasLayout(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...

_Exchangeable: TypeAlias = _SupportsDLPack | _SupportsArrayInterface | Buffer | CapsuleType
_Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_Layout: TypeAlias = tuple[_Shape, _Shape | None] | _HasLayout
_Scalar: TypeAlias = bool | int | float | complex
_Index: TypeAlias = SupportsIndex | slice | EllipsisType | None
# A name, a typestr, a NumPy dtype, a scalar class of Python, NumPy or ml_dtypes.
_DType: TypeAlias = str | np.dtype[Any] | type[Any]

class Error(Exception):
    """Root of handoff's exceptions.

    The attribute rule is the number of the protocol rule that was broken ("R047"), or None.
    """

    rule: str | None

class ExchangeError(Error, BufferError):
    """The data cannot be exchanged this way."""

class VersionError(ExchangeError):
    """A DLPack version or flag that is not understood."""

class DTypeError(ExchangeError):
    """The element type has no counterpart in the protocol."""

class DeviceError(ExchangeError):
    """The memory is on a device that cannot be served."""

class LayoutError(ExchangeError, ValueError):
    """Shape, strides or address are malformed, too large, or not expressible."""

class ReadOnlyError(ExchangeError, ValueError):
    """Writable memory was needed."""

class CopyError(ExchangeError, ValueError):
    """A copy was needed and not allowed (R151, R161)."""

class CapsuleError(ExchangeError, ValueError):
    """A capsule that was consumed before, or is no DLPack capsule (R076)."""

class MaskError(ExchangeError, ValueError):
    """Masked arrays are not supported (R181, R217)."""

class ProtocolError(ExchangeError, AttributeError, TypeError):
    """The object speaks no exchange protocol (R158)."""

class InvalidTypeError(Error, TypeError):
    """An argument, a key or an entry of the wrong type."""

class InvalidValueError(Error, ValueError):
    """An argument, a key or an entry of a wrong value."""

class ForkError(Error, RuntimeError):
    """Go was needed in the child of a fork()."""

class GoError(Error, RuntimeError):
    """A Go function returned an error."""

class GoPanic(GoError):
    """A Go function panicked; the message has the Go stack."""

class StreamError(Error, RuntimeError):
    """An object does not keep to the stream protocol, or a stream is used where it cannot be."""

class RangeError(InvalidValueError, OverflowError):
    """A number does not fit (R268)."""

class ClosedError(Error, ValueError, RuntimeError):
    """Used after it was closed or released."""

class DriverError(DeviceError, RuntimeError):
    """A call of the GPU's driver failed.

    The attribute code is the driver's number, name its name ("CUDA_ERROR_OUT_OF_MEMORY").
    """

    code: int | None
    name: str | None

class NoDriverError(DriverError):
    """There is no GPU driver in this process, or it found no device."""

class _SupportsStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _SupportsTorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _SupportsCupyStream(Protocol):
    @property
    def ptr(self) -> int: ...

class _SupportsHandle(Protocol):
    @property
    def handle(self) -> Any: ...

# Anything that StreamView takes.
_StreamLike: TypeAlias = (
    _SupportsStream | _SupportsTorchStream | _SupportsCupyStream | _SupportsHandle | SupportsIndex | SupportsInt
)

class _AnyStream:
    @property
    def handle(self) -> int:
        """The raw handle, as an int; it is valid while the stream is open."""

    @property
    def is_nonblocking(self) -> bool:
        """Whether the stream and the legacy default stream leave each other alone."""

    @property
    def priority(self) -> int:
        """The priority; the lower the more urgent."""

    @property
    def device(self) -> Device:
        """The Device that the stream belongs to."""

    @property
    def device_id(self) -> int:
        """The ordinal of that device."""

    @property
    def context(self) -> int:
        """The raw handle of the context that the stream belongs to."""

    @property
    def is_done(self) -> bool:
        """Whether all work that is queued is done."""

    @property
    def is_capturing(self) -> bool:
        """Whether queued work is recorded into a graph."""

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""

    @property
    def exporting_obj(self) -> Any:
        """The object that keeps the stream alive, or None."""

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream protocol, version 0: (0, handle)."""

    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def sync(self) -> None:
        """Wait until all work that is queued on the stream is done. The GIL is given up."""

    def wait(self, event_or_stream: Event | _StreamLike, /) -> None:
        """Let work queued on this stream from now on wait for an Event or another stream."""

    def record(self, event: Event | None = None, options: EventOptions | Mapping[str, Any] | None = None) -> Event:
        """Records an event, or a new one: it is done when the work that is queued now is."""

    def close(self) -> None:
        """Gives the stream up; may be called twice.

        It is destroyed when no view or buffer is ordered on it any more. A borrowed stream is never
        destroyed, and a default stream of the module or a device never closed.
        """

    @classmethod
    def from_handle(cls, handle: int, /) -> StreamView:
        """StreamView of a raw handle, which the caller keeps alive."""

@final
class StreamView(_AnyStream):
    """A stream that somebody else owns.

    Any object with __cuda_stream__, a stream of PyTorch, CuPy, Numba, Paddle, Warp or
    cuda.bindings from before that protocol, or a raw handle. It keeps the object alive and never
    destroys the stream. The driver is asked when something is wanted of it. It is itself a stream
    of the protocol. Equality is by handle.
    """

    def __new__(cls, stream: _StreamLike, /) -> StreamView: ...

@final
class Stream(_AnyStream):
    """A stream that handoff made; Device.create_stream() does.

    It is destroyed when it is closed, or collected; work that is queued still runs.
    """

    def __enter__(self) -> Stream: ...
    def __exit__(self, *args: object) -> None: ...

LEGACY_DEFAULT_STREAM: StreamView
PER_THREAD_DEFAULT_STREAM: StreamView

@final
class Event:
    """A mark in a stream, made by Stream.record() or Device.create_event().

    end - start is the time between two events in milliseconds.
    """

    @property
    def handle(self) -> int:
        """The raw handle, as an int; valid while the event is open."""

    @property
    def context(self) -> int:
        """The raw handle of the event's context."""

    @property
    def device(self) -> Device:
        """The Device of the event's context."""

    @property
    def is_done(self) -> bool:
        """Whether the work before the latest record is done."""

    @property
    def is_timing_enabled(self) -> bool:
        """Whether the event has timing: end - start is in milliseconds."""

    @property
    def is_ipc_enabled(self) -> bool:
        """Whether other processes can open it."""

    @property
    def ipc_descriptor(self) -> IPCEventDescriptor:
        """An IPCEventDescriptor, which may be pickled: another process opens the event by it."""

    @classmethod
    def from_ipc_descriptor(cls, descriptor: IPCEventDescriptor, /) -> Event:
        """Opens an event of another process by its ipc_descriptor."""

    @property
    def is_blocking_sync(self) -> bool:
        """Whether sync() sleeps instead of spinning."""

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""

    def sync(self) -> None:
        """Wait until the event is done. The GIL is given up."""

    def close(self) -> None:
        """Gives the event up; streams that wait for it still do. May be called twice."""

    def __sub__(self, start: Event, /) -> float: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...

class _DeviceBase:
    """The part of handoff.Device that is written in C."""

    def __new__(cls, ordinal: int, /) -> Self: ...
    _resource: MemoryResource | None
    @property
    def _id(self) -> int:
        """The ordinal in this process."""

    def allocate(self, size: int, *, stream: _StreamLike, kind: MemoryKind = "device") -> _DeviceBuffer:
        """Allocate memory, usable by work queued on the stream from now on.

        Its kind is "device", "pinned" (host) or "managed". DriverError when there is none left.
        """

class _Memory:
    """Memory of a device: the part of handoff.Buffer that is written in C."""

    @property
    def _handoff_view(self) -> StridedMemoryView:
        """A StridedMemoryView of the bytes."""

    @property
    def handle(self) -> int:
        """The address of the first byte."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    @property
    def device_id(self) -> int:
        """The ordinal of the device; -1 for pinned host memory."""

    @property
    def is_device_accessible(self) -> bool:
        """Whether a device can read and write the memory."""

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can read and write the memory."""

    @property
    def is_managed(self) -> bool:
        """Whether the memory moves between host and device by itself."""

    @property
    def is_closed(self) -> bool:
        """Whether close() was called."""

    def close(self, stream: _StreamLike | None = None) -> None:
        """Give the memory back, in the order of a stream; may be called twice."""

class _View:
    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[CapsuleType]
    @property
    def ptr(self) -> int:
        """Address of the first element, as an int."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements; None if C-contiguous."""

    @property
    def size(self) -> int:
        """Number of elements."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""

    @property
    def itemsize(self) -> int:
        """Bytes per element; sub-byte elements are rounded up."""

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take when they are dense."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype. Imports numpy, and ml_dtypes for bfloat16 and the 8, 6 and 4-bit types.

        NotImplementedError if they have none. None if it was never said.
        """

    @property
    def dlpack_dtype(self) -> tuple[int, int, int] | None:
        """The element type as DLPack has it: (code, bits, lanes); None without a counterpart."""

    @property
    def device_id(self) -> int:
        """Ordinal of the device; -1 for host memory."""

    @property
    def is_device_accessible(self) -> bool:
        """Whether a CUDA device can read the memory.

        So it can pinned host memory that says CPU, which is noticed once a driver is in use.
        """

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can read the memory."""

    @property
    def producer_stream(self) -> StreamView | None:
        """StreamView of the stream that the producer works on, or None where it is not known."""

    @property
    def stream(self) -> StreamView | None:
        """StreamView of the stream that the data is ordered on, or None.

        Whoever takes the view from here is ordered after it.
        """

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface, version 3.

        Absent for host memory and for types without a typestr.
        """

    @property
    def readonly(self) -> bool:
        """Whether the memory must not be written."""

    @property
    def exporting_obj(self) -> Any:
        """The object that the view was made from, or None."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface, version 3. Absent for types without a typestr and on devices."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        """A DLPack capsule of this memory. Read-only memory needs max_version=(1, 0) or higher."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and ordinal."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class StridedMemoryView(_View):
    """A view on the memory of an array that another object made: pointer, shape, strides, dtype.

    Made by its class methods from_dlpack, from_any_interface, from_array_interface,
    from_cuda_array_interface and from_buffer. The exporting object is kept alive by the view,
    and by every array that another library makes of it.
    """

    def __new__(
        cls, obj: _Exchangeable | _SupportsCudaArrayInterface, stream_ptr: _StreamLike | None = None
    ) -> StridedMemoryView:
        """Deprecated, as in cuda.core: from_any_interface(obj, stream_ptr)."""

    @staticmethod
    def from_dlpack(obj: _SupportsDLPack | CapsuleType, stream_ptr: _StreamLike | None = None) -> StridedMemoryView:
        """View of an object that speaks DLPack, or of a DLPack capsule, without a copy.

        stream_ptr says on which stream GPU memory will be used: a stream of any library, or an int:
        -1 for no ordering, 0 or 1 for the legacy and 2 for the per-thread default stream, else a raw
        handle. Work queued on it afterwards comes after the producer's, by one event at most; the
        host does not wait. It must be given for GPU memory and is None or -1 for host memory.
        """

    @staticmethod
    def from_array_interface(obj: _SupportsArrayInterface) -> StridedMemoryView:
        """View of an object with NumPy's __array_interface__ (version 3)."""

    @staticmethod
    def from_cuda_array_interface(
        obj: _SupportsCudaArrayInterface, stream_ptr: _StreamLike | None = None
    ) -> StridedMemoryView:
        """View of an object with __cuda_array_interface__, of any version.

        stream_ptr is as for from_dlpack and must be given. Versions below 3 name no stream: nothing
        is ordered, unless the type has a DLPack exchange table, which tells.
        """

    @staticmethod
    def from_any_interface(
        obj: _Exchangeable | _SupportsCudaArrayInterface, stream_ptr: _StreamLike | None = None
    ) -> StridedMemoryView:
        """View of an object by the first protocol it speaks.

        In this order: DLPack, the CUDA array interface, NumPy's array interface, the buffer protocol.
        """

    @staticmethod
    def from_buffer(
        buffer: _Exchangeable,
        shape: _Shape,
        strides: _Shape | None = None,
        *,
        itemsize: int | None = None,
        dtype: _DType | None = None,
        is_readonly: bool = False,
    ) -> StridedMemoryView:
        """View of the bytes of a contiguous buffer with a shape, strides in elements and a dtype.

        One of itemsize and dtype is needed. ValueError if the layout does not fit.
        """

    def view(self, layout: _Layout | None = None, dtype: _DType | None = None) -> StridedMemoryView:
        """The same memory with another layout, or another dtype of the same item size.

        A layout is a pair (shape, strides or None) or an object that has both. Without arguments
        the view itself.
        """

    def copy_from(
        self,
        other: _Exchangeable | _SupportsCudaArrayInterface,
        stream: _StreamLike | None = None,
        allocator: object = None,
        blocking: bool | None = None,
    ) -> None:
        """Copies the elements of other, of the same shape and dtype, into this view.

        Between host memories the copy is done at return. Where a GPU is on either side it is queued
        on the stream, which must be given; both sides are ordered on it, and any strides will do.

        With blocking=True the host waits until the copy is done; with False it does not, and host
        memory must not be touched until the stream is there. None is True if one side is memory that a
        GPU cannot reach, unless the stream captures. The allocator is not used: copies bring the memory
        along that they need.
        """

    def copy_to(
        self,
        other: _Exchangeable | _SupportsCudaArrayInterface,
        stream: _StreamLike | None = None,
        allocator: object = None,
        blocking: bool | None = None,
    ) -> None:
        """Copies the elements of this view into other, of the same shape and dtype: see copy_from."""

    def release_on(self, stream: _StreamLike, /) -> None:
        """Gives the memory back after the work that is queued on the stream now.

        The producer's stream waits for it where that is known; otherwise the claim is dropped once
        an event on the stream is done. The host does not wait. The view cannot be used afterwards, nor
        by a call into Go that another thread is making with it.
        """

@final
class Array(_View):
    """An array whose memory belongs to handoff.

    Results of Go functions, and what the class methods empty, zeros, full and copy_of make. Other
    libraries take it without a copy by from_dlpack, the buffer protocol or __array_interface__.
    Indexing with ints, slices, ... and None gives elements and views.
    """

    @classmethod
    def empty(cls, shape: _Shape, dtype: _DType = "float64") -> Array:
        """New array; its elements are not set."""

    @classmethod
    def zeros(cls, shape: _Shape, dtype: _DType = "float64") -> Array:
        """New array of zeros."""

    @classmethod
    def full(cls, shape: _Shape, fill_value: _Scalar, dtype: _DType = "float64") -> Array:
        """New array with every element set to fill_value."""

    @classmethod
    def copy_of(cls, obj: _Exchangeable, /) -> Array:
        """New array with the contents of any array that handoff can read."""

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    @overload
    def __getitem__(self, key: EllipsisType | slice | None, /) -> Array: ...
    @overload
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Any: ...
    def __setitem__(self, key: _Index | tuple[_Index, ...], value: _Scalar | _Exchangeable, /) -> None: ...

def from_dlpack(
    x: _SupportsDLPack | CapsuleType,
    /,
    *,
    device: str | tuple[int, int] | None = None,
    copy: bool | None = None,
) -> StridedMemoryView:
    """StridedMemoryView of x, an object that speaks DLPack.

    device is "cpu" or a tuple (device type, device id): where the data has to be; BufferError if
    the producer cannot deliver it there. copy=True always copies, copy=False never does
    (BufferError, which is a ValueError too, if it would be needed).
    """

def _stats() -> dict[str, int]:
    """Counters, for tests."""

def _inspect(obj: Any, want: int = 0, /) -> tuple[Any, ...]:
    """What a Go function would be given for obj, for tests."""

def _selftest(name: str, /) -> bool:
    """Runs a self-test in Go; GoPanic if it panics."""

def _forget_types() -> None:
    """Empties the type cache."""

# For handoff._device and handoff._streams.
def _device_count() -> int: ...
def _device_text(device: int, what: int, /) -> str: ...
def _device_memory(device: int, /) -> tuple[int, int]: ...
def _device_can_access(device: int, peer: int, /) -> bool: ...
def _device_context(device: int, /) -> int: ...
def _device_set_current(device: int, /) -> None: ...
def _device_current() -> int: ...
def _device_sync(device: int, /) -> None: ...
def _driver_version() -> int: ...
def _stream_new(device: int, nonblocking: bool, priority: int, /) -> Stream: ...
def _stream_default(device: int, per_thread: bool, /) -> StreamView: ...
def _use_stream(device: int, handle: int, /) -> int: ...
def _asking(how: int = ..., /) -> int:
    """Whether `Stream.wait` asks first (1), never does (2) or has to find out (3), for tests; returns how it was."""

def _event_new(device: int, options: object, /) -> Event: ...
def _event_share(event: Event, /) -> bytes: ...
def _event_open(device: int, handle: bytes, /) -> Event: ...
def _set_buffer_type(cls: type[_Memory], /) -> None: ...
def _source_new(device: int, kind: int, own: bool, size: int, where: int, node: int, /) -> tuple[int, int]: ...
def _source_close(key: int, /) -> None: ...
def _pool_attribute(key: int, attribute: int, /) -> int: ...
def _pool_peer(key: int, device: int, can: int, /) -> bool: ...
def _buffer_new(cls: Any, device: int, kind: int, source: int, size: int, stream: object, /) -> Any: ...
def _memory_free(device: int, kind: int, source: int, ptr: object, size: int, stream: object, /) -> None: ...
def _buffer_adopt(cls: Any, device: int, kind: int, source: int, ptr: int, size: int, stream: object, /) -> Any: ...
def _buffer_wrap(cls: Any, ptr: int, size: int, keep: object, /) -> Any: ...
def _buffer_used(view: StridedMemoryView, stream: object, set: bool, /) -> None: ...  # noqa: A002
def _buffer_fill(view: StridedMemoryView, width: int, value: int, stream: object, /) -> None: ...
def _gate(stream: object, /) -> int:
    """Work on a stream that lasts until _gate_open, for tests."""

def _gate_open(key: int, /) -> None: ...
def _flush() -> None:
    """Wait until nothing is held back by release_on any more."""

def _inject(faults: str, /) -> str:
    """Set faults of the software device in place of the last ones; JSON of what those did and what is alive."""
