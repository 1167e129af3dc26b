"""The compiled part of handoff."""

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, ClassVar, Protocol, SupportsIndex, TypeAlias, final, overload

import numpy as np
from typing_extensions import Buffer, CapsuleType

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

class LayoutError(ExchangeError):
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
        """Whether a CUDA device can read the memory."""

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

    @classmethod
    def from_dlpack(cls, obj: _SupportsDLPack | CapsuleType, /, stream_ptr: int | None = None) -> StridedMemoryView:
        """View of an object that speaks DLPack, or of a DLPack capsule, without a copy.

        stream_ptr says how GPU memory is ordered: a stream, or -1 for no ordering; it must be
        given for GPU memory and is None or -1 for host memory.
        """

    @classmethod
    def from_array_interface(cls, obj: _SupportsArrayInterface, /) -> StridedMemoryView:
        """View of an object with NumPy's __array_interface__ (version 3)."""

    @classmethod
    def from_cuda_array_interface(
        cls, obj: _SupportsCudaArrayInterface, /, stream_ptr: int | None = None
    ) -> StridedMemoryView:
        """View of an object with __cuda_array_interface__. BufferError where no GPU driver is in use."""

    @classmethod
    def from_any_interface(
        cls, obj: _Exchangeable | _SupportsCudaArrayInterface, /, stream_ptr: int | None = None
    ) -> StridedMemoryView:
        """View of an object by the first protocol it speaks.

        In this order: DLPack, the CUDA array interface, NumPy's array interface, the buffer protocol.
        """

    @classmethod
    def from_buffer(
        cls,
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

    def copy_from(self, other: _Exchangeable, /, stream: None = None) -> None:
        """Copies the elements of other, of the same shape and dtype, into this view. Host memory."""

    def copy_to(self, other: _Exchangeable, /, stream: None = None) -> None:
        """Copies the elements of this view into other, of the same shape and dtype. Host memory."""

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
