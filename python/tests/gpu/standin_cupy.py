"""A stand-in for CuPy over our own driver: the attributes and protocols that cupy.ndarray has.

`install()` registers it as the module cupy, once in a process: only in child processes.
"""

from __future__ import annotations

import ctypes
import sys
import types
from typing import Any

import numpy as np

import handoff
from handoff import StridedMemoryView

current = 0  # the stream that the stand-in works on, as a raw handle; -1: it cannot tell
asked: list[str] = []  # the protocols that were used

_PYCAPSULE_NEW = ctypes.pythonapi.PyCapsule_New
_PYCAPSULE_NEW.restype = ctypes.py_object
_PYCAPSULE_NEW.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_SIGNATURE = ctypes.create_string_buffer(b"intptr_t (void)")
_OTHER = ctypes.create_string_buffer(b"int (void)")


@ctypes.PYFUNCTYPE(ctypes.c_ssize_t)
def _current_stream() -> int:
    return current


class MemoryPointer:
    """An address in memory that something keeps."""

    def __init__(self, mem: Any, ptr: int, device_id: int) -> None:
        self.mem, self.ptr, self.device_id = mem, ptr, device_id


class ndarray:  # noqa: N801 (the name is part of what it imitates)
    """The attributes of cupy.ndarray."""

    interface_version = 3
    lie: dict[str, Any] = {}  # what the array interface says wrongly

    def __init__(self, view: StridedMemoryView, dtype: Any = None) -> None:
        self.data = MemoryPointer(view, view.ptr, max(view.device_id, 0))
        self.shape = view.shape
        self.dtype = np.dtype(view.dtype if dtype is None else dtype)
        dense = tuple(int(np.prod(view.shape[i + 1 :], dtype=int)) for i in range(len(view.shape)))
        self.strides = tuple(s * self.dtype.itemsize for s in (view.strides or dense))
        self._c_contiguous = view.strides is None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        asked.append("interface")
        d = {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "version": self.interface_version,
            "strides": None if self._c_contiguous else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }
        if self.interface_version == 3:
            d["stream"] = current if current else 1
        return d | self.lie

    def __dlpack_device__(self) -> tuple[int, int]:
        asked.append("device")
        return (2, self.data.device_id)

    def __dlpack__(self, **kwargs: Any) -> Any:
        asked.append("dlpack")
        return self.data.mem.__dlpack__(**kwargs)


def install(signature: bytes = b"intptr_t (void)") -> None:
    """Register the module, with a stream function of this signature."""
    cupy = types.ModuleType("cupy")
    ndarray.__module__ = "cupy"
    cupy.ndarray = ndarray  # type: ignore[attr-defined]
    backend = types.ModuleType("cupy_backends.cuda.stream")
    name = _SIGNATURE if signature == _SIGNATURE.value else _OTHER
    pointer = ctypes.cast(_current_stream, ctypes.c_void_p)
    backend.__pyx_capi__ = {"get_current_stream_ptr": _PYCAPSULE_NEW(pointer, name, None)}  # type: ignore[attr-defined]
    sys.modules |= {"cupy": cupy, "cupy_backends.cuda.stream": backend}


def array(stream: Any, values: Any, kind: Any = "device") -> tuple[ndarray, StridedMemoryView]:
    """A stand-in array with these values, and the view that it is made of."""
    host = np.ascontiguousarray(values)
    buffer = handoff.Device(0).allocate(max(host.nbytes, 1), stream=stream, kind=kind)
    view = StridedMemoryView.from_buffer(buffer, host.shape, dtype=host.dtype)
    view.copy_from(host, stream)
    stream.sync()
    return ndarray(view), view
