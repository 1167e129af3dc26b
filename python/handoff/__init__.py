"""Arrays between Python, Go and C libraries, without a copy.

`StridedMemoryView` is a view on the memory of any array: of every library that
speaks DLPack, NumPy's array interface or the buffer protocol. `Array` is memory
that handoff owns, such as results of functions written in Go. Both are taken by
every other library through the same protocols. `from_dlpack` is the function of
that name of the Python array API standard.

Exceptions derive from `Error` and from the built-in class that callers expect;
their attribute `rule` names the protocol rule that was broken.
"""

from __future__ import annotations

from handoff._core import (
    Array,
    CapsuleError,
    CopyError,
    DeviceError,
    DTypeError,
    Error,
    ExchangeError,
    ForkError,
    GoError,
    GoPanic,
    InvalidTypeError,
    InvalidValueError,
    LayoutError,
    MaskError,
    ProtocolError,
    ReadOnlyError,
    StridedMemoryView,
    VersionError,
    from_dlpack,
)

__version__ = "0.1.0"

__all__ = [
    "Array",
    "CapsuleError",
    "CopyError",
    "DTypeError",
    "DeviceError",
    "Error",
    "ExchangeError",
    "ForkError",
    "GoError",
    "GoPanic",
    "InvalidTypeError",
    "InvalidValueError",
    "LayoutError",
    "MaskError",
    "ProtocolError",
    "ReadOnlyError",
    "StridedMemoryView",
    "VersionError",
    "__version__",
    "from_dlpack",
]
