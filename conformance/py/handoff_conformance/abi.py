"""The C structs of the protocols in ctypes, and tensors built by hand over memory that is watched.

A tensor made here lies in pages of its own. Its struct, its shape and its strides can be made
read-only while a consumer has them (R055), be unreadable from a field on (R009), and they become
unreadable once the deleter has run (R062), so that a consumer which touches what it must not touch
ends the process: a result like any other, as checks run in a child process.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import struct
from collections.abc import Iterator, Sequence
from ctypes import (
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ssize_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from itertools import product
from typing import Any

from . import native


class DLPackVersion(ctypes.Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


class DLPackExchangeAPI(ctypes.Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("prev_api", c_void_p),
        ("allocator", c_void_p),
        ("from_py", c_void_p),
        ("to_py", c_void_p),
        ("lend", c_void_p),
        ("stream", c_void_p),
    ]


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


class PyArrayInterface(ctypes.Structure):
    _fields_ = [
        ("two", c_int),
        ("nd", c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", c_int),
        ("flags", c_int),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("data", c_void_p),
        ("descr", c_void_p),
    ]


READ_ONLY, IS_COPIED, PADDED = 1, 2, 4

# PyBUF_* flags of a request.
SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT = 0x38, 0x58, 0x98, 0x118
FULL_RO = 0x11C

DELETER = ctypes.CFUNCTYPE(None, c_void_p)
DESTRUCTOR = ctypes.PYFUNCTYPE(None, c_void_p)  # the object is dying: no py_object may be made of it
FROM_PY = ctypes.PYFUNCTYPE(c_int, py_object, c_void_p)
FROM_PY_RAW = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
TO_PY = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)
SET_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)

# Not ctypes.pythonapi, whose functions are shared: other libraries set other types for them.
api = ctypes.PyDLL(None)
api.PyCapsule_New.restype = py_object
api.PyCapsule_New.argtypes = [c_void_p, c_void_p, c_void_p]
api.PyCapsule_GetName.restype = c_char_p
api.PyCapsule_GetName.argtypes = [py_object]
api.PyCapsule_GetPointer.restype = c_void_p
api.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
api.PyCapsule_SetName.argtypes = [py_object, c_void_p]
api.PyObject_GetBuffer.argtypes = [py_object, c_void_p, c_int]
api.PyBuffer_Release.argtypes = [c_void_p]
api.PyBuffer_Release.restype = None

# The stored pointer of the name, not its text.
name_address = ctypes.PYFUNCTYPE(c_void_p, py_object)(("PyCapsule_GetName", api))

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
libc.mmap.argtypes = [c_void_p, c_size_t, c_int, c_int, c_int, c_int64]
libc.mprotect.argtypes = [c_void_p, c_size_t, c_int]
libc.pthread_create.argtypes = [c_void_p, c_void_p, c_void_p, c_void_p]
libc.pthread_join.argtypes = [c_uint64, c_void_p]
PROT_NONE, PROT_READ, PROT_RW = 0, 1, 3

# Where the arrays of the target are, if not in host memory: see gpu.py.
machine: Any = None


def home() -> tuple[int, int]:
    """The device of the tensors that are built by hand: that of the target."""
    return machine.device if machine is not None else (1, 0)


def on_device() -> bool:
    return home()[0] == 2


def readable(device_type: int) -> bool:
    """Whether the bytes of memory of a kind can be looked at."""
    return device_type in (1, 3, 11, 13) or (device_type == 2 and on_device())


def peek(address: int, size: int) -> bytes:
    """The bytes at an address of the host or of the device."""
    if on_device() and machine.owns(address):
        return bytes(machine.read(address, size))
    return ctypes.string_at(address, size)


def poke(address: int, data: bytes) -> None:
    """Writes bytes of the host or of the device."""
    if on_device() and machine.owns(address):
        machine.write(address, data)
    else:
        ctypes.memmove(address, data, len(data))


_names: dict[bytes, int] = {}
_alive: list[Any] = []  # what C may still call into


def static_name(name: bytes) -> int:
    """The address of a name that lives for ever (R074)."""
    if name not in _names:
        pages = Pages(PAGE)
        ctypes.memmove(pages.address, name + b"\0", len(name) + 1)
        _names[name] = pages.address
    return _names[name]


def name_of(capsule: Any) -> bytes | None:
    return api.PyCapsule_GetName(capsule)


def pointer_of(capsule: Any) -> int:
    return api.PyCapsule_GetPointer(capsule, name_of(capsule))


def ints(address: int | None, n: int) -> tuple[int, ...]:
    return tuple((c_int64 * n).from_address(address)) if address and n > 0 else ()


def call_on_foreign_thread(function: int, argument: int) -> None:
    """Calls a C function with one pointer on a thread that Python has never seen, without the GIL."""
    thread = c_uint64()
    if libc.pthread_create(ctypes.byref(thread), None, function, argument) != 0:
        raise OSError("no thread")
    libc.pthread_join(thread.value, None)


PAGE = mmap.PAGESIZE


class Pages:
    """Zeroed pages whose protection can be set. They are never given back, not even at the end of Python."""

    def __init__(self, size: int) -> None:
        self.size = (size + PAGE - 1) // PAGE * PAGE
        self.address = libc.mmap(None, self.size, PROT_RW, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if self.address in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("mmap")

    def protect(self, prot: int, offset: int = 0) -> None:
        libc.mprotect(self.address + offset, self.size - offset, prot)


class Record(ctypes.Structure):
    """The manager_ctx of a tensor built by hand, as helper.c has it."""

    _fields_ = [("deleted", c_int64), ("wrong", c_int64), ("expected", c_void_p), ("poison", c_uint64 * 8)]


class Managed:
    """One managed tensor built by hand. `deleted` counts the deleter's calls, `wrong` those with another address.

    The data are 8192 bytes at `base`, filled with float32 values 0, 1, 2, ... unless fill is given. They are on
    the device of the target, unless a device or an address is named.
    """

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        strides: Sequence[int] | None = (3, 1),
        *,
        versioned: bool = True,
        version: tuple[int, int] = (1, 0),
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] | None = None,
        flags: int = 0,
        ndim: int | None = None,
        null_shape: bool = False,
        data: int | None = None,
        shift: int = 0,
        byte_offset: int = 0,
        deleter: bool | str = True,
        fill: bytes | None = None,
        guard: bool = False,
        frozen: bool = False,
        poison: bool = True,
    ) -> None:
        self.made = 0
        self.keep: Any = None  # what an export keeps alive until its deleter has run
        fill = struct.pack("<1024f", *range(1024)) if fill is None else fill
        fill = fill[: 8192 - shift]
        self.memory: Pages | None = None
        if device is None and data is None and on_device():
            self.base = machine.allocate(8192)
            machine.write(self.base + shift, fill)
        else:
            self.memory = Pages(8192)
            self.base = self.memory.address
            ctypes.memmove(self.base + shift, fill, len(fill))
        device = home() if device is None else device
        self.kind = DLManagedTensorVersioned if versioned else DLManagedTensor
        self.versioned = versioned
        self.head = Pages(2 * PAGE)
        # With a guard the fields behind flags are on a page that cannot be read.
        self.address = self.head.address + (PAGE - 32 if guard else 0)
        self.lists = Pages(PAGE)
        self.struct = self.kind.from_address(self.address)
        t = self.struct.dl_tensor
        t.data = (self.base + shift if data is None else data) or None
        t.device = DLDevice(*device)
        t.ndim = len(shape) if ndim is None else ndim
        t.dtype = DLDataType(*dtype)
        ctypes.memmove(self.lists.address, (c_int64 * max(len(shape), 1))(*shape), 8 * len(shape))
        t.shape = None if null_shape else self.lists.address
        if strides is not None:
            ctypes.memmove(self.lists.address + 2048, (c_int64 * max(len(strides), 1))(*strides), 8 * len(strides))
            t.strides = self.lists.address + 2048
        t.byte_offset = byte_offset
        if versioned:
            self.struct.version = DLPackVersion(*version)
            self.struct.flags = flags
        self.note = Pages(PAGE)
        self.record = Record.from_address(self.note.address)
        self.record.expected = self.address
        if poison:
            for i, pages in enumerate(filter(None, (self.head, self.lists, self.memory))):
                self.record.poison[2 * i], self.record.poison[2 * i + 1] = pages.address, pages.size
        self.struct.manager_ctx = ctypes.addressof(self.record)
        self.has_deleter = bool(deleter)
        if deleter:
            name = deleter if isinstance(deleter, str) else "hc_delete"
            self.struct.deleter = native.address(name + ("_versioned" if versioned else "_legacy"))
        self.fresh = b"dltensor_versioned" if versioned else b"dltensor"
        self.lists_before = ctypes.string_at(self.lists.address, PAGE)
        if guard:
            self.head.protect(PROT_NONE, PAGE)
        if frozen:
            self.head.protect(PROT_READ)
            self.lists.protect(PROT_READ)
        _alive.append(self)

    @property
    def deleted(self) -> int:
        return self.record.deleted

    @property
    def wrong(self) -> int:
        return self.record.wrong

    def capsule(self, name: bytes | None = None, destructor: str = "hc_destructor") -> Any:
        """A capsule of the tensor."""
        self.made += 1
        name = self.fresh if name is None else name
        return api.PyCapsule_New(self.address, static_name(name), native.address(destructor))


def _sweep(phase: str, info: dict[str, int]) -> None:
    """Drops what exports keep whose deleter has run: the deleter itself enters no Python."""
    if phase == "stop":
        gone = [m for m in _alive if isinstance(m, Managed) and m.keep is not None and m.deleted]
        kept = [m.keep for m in gone]
        for m in gone:
            m.keep = None
        del kept


gc.callbacks.append(_sweep)


class Export:
    """A capsule that a producer returned, read by the offsets of the specification."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        self.name = name_of(capsule)
        self.address = pointer_of(capsule)
        self.versioned = self.name == b"dltensor_versioned"
        self.struct = (DLManagedTensorVersioned if self.versioned else DLManagedTensor).from_address(self.address)
        self.t = self.struct.dl_tensor
        self.version = (self.struct.version.major, self.struct.version.minor) if self.versioned else None
        self.flags = self.struct.flags if self.versioned else 0

    @property
    def device(self) -> tuple[int, int]:
        return self.t.device.device_type, self.t.device.device_id

    @property
    def dtype(self) -> tuple[int, int, int]:
        return self.t.dtype.code, self.t.dtype.bits, self.t.dtype.lanes

    @property
    def shape(self) -> tuple[int, ...]:
        return ints(self.t.shape, self.t.ndim)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements, derived if there are none."""
        return ints(self.t.strides, self.t.ndim) if self.t.strides else row_major(self.shape)

    @property
    def data(self) -> int:
        return (self.t.data or 0) + self.t.byte_offset

    def values(self) -> list[Any]:
        return read(self.data, self.shape, self.strides, self.dtype)

    def consume(self) -> None:
        """Takes the tensor over: the capsule is renamed and the deleter called once."""
        api.PyCapsule_SetName(self.capsule, static_name(b"used_" + (self.name or b"")))
        if self.struct.deleter:
            DELETER(self.struct.deleter)(self.address)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def offsets(shape: Sequence[int], strides: Sequence[int]) -> Iterator[int]:
    for index in product(*map(range, shape)):
        yield sum(i * s for i, s in zip(index, strides, strict=True))


_CODES = {
    (0, 8): "b", (0, 16): "h", (0, 32): "i", (0, 64): "q", (1, 8): "B", (1, 16): "H", (1, 32): "I", (1, 64): "Q",
    (2, 16): "e", (2, 32): "f", (2, 64): "d", (6, 8): "?", (5, 64): "2f", (5, 128): "2d",
}  # fmt: skip


def read(address: int, shape: Sequence[int], strides: Sequence[int], dtype: tuple[int, int, int]) -> list[Any]:
    """The elements in row-major order. Types without a Python counterpart give their bits."""
    code, bits, lanes = dtype
    size = max(bits * lanes // 8, 1)
    fmt = _CODES.get((code, bits)) if lanes == 1 else None
    out: list[Any] = []
    for o in offsets(shape, strides):
        raw = peek(address + o * size, size)
        if fmt is None:
            out.append(int.from_bytes(raw, "little"))
            continue
        v = struct.unpack("<" + fmt, raw)
        out.append(complex(*v) if len(v) == 2 else v[0])
    return out


def get_buffer(obj: Any, flags: int, view: PyBuffer | None = None) -> PyBuffer:
    """A Py_buffer of the object; raises what the exporter raised. Give it back with release_buffer."""
    view = PyBuffer() if view is None else view
    api.PyObject_GetBuffer(obj, ctypes.addressof(view), flags)
    return view


def release_buffer(view: PyBuffer) -> None:
    api.PyBuffer_Release(ctypes.addressof(view))


# --- an exporter of buffers, built from slots --------------------------------


class _Slot(ctypes.Structure):
    _fields_ = [("slot", c_int), ("pfunc", c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("basicsize", c_int),
        ("itemsize", c_int),
        ("flags", ctypes.c_uint),
        ("slots", c_void_p),
    ]


_GET = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_RELEASE = ctypes.PYFUNCTYPE(None, c_void_p, c_void_p)
api.PyType_FromSpec.restype = py_object
api.PyType_FromSpec.argtypes = [c_void_p]
api.Py_IncRef.argtypes = [c_void_p]
_BF_GETBUFFER, _BF_RELEASEBUFFER = 1, 2


def buffer_type(get: Any, release: Any) -> type:
    """A type whose instances export buffers by two Python functions.

    get(view: PyBuffer, flags) fills the view; it cannot refuse, as a callback of ctypes leaves no
    exception pending. release(view) is called when the buffer is given back.
    """

    @_GET
    def getbuffer(obj: int, view: int, flags: int) -> int:
        v = PyBuffer.from_address(view)
        get(v, flags)
        v.obj = obj
        api.Py_IncRef(obj)
        return 0

    @_RELEASE
    def releasebuffer(obj: int, view: int) -> None:
        release(PyBuffer.from_address(view))

    slots = (_Slot * 3)(
        _Slot(_BF_GETBUFFER, ctypes.cast(getbuffer, c_void_p).value),
        _Slot(_BF_RELEASEBUFFER, ctypes.cast(releasebuffer, c_void_p).value),
        _Slot(0, None),
    )
    spec = _Spec(b"handoff_conformance.Exporter", object.__basicsize__, 0, 1 << 18, ctypes.addressof(slots))
    _alive.extend((getbuffer, releasebuffer, slots, spec))
    return api.PyType_FromSpec(ctypes.addressof(spec))


def buffer_of(
    raw: bytes,
    shape: Sequence[int] | None,
    strides: Sequence[int] | None,
    *,
    fmt: bytes | None = b"f",
    itemsize: int = 4,
    length: int | None = None,
    readonly: bool = False,
    start: int = 0,
    suboffsets: Sequence[int] | None = None,
    ndim: int | None = None,
) -> Any:
    """An object that exports a Py_buffer with exactly these fields, over a copy of raw."""
    block = ctypes.create_string_buffer(raw, max(len(raw), 1))
    size = itemsize
    for n in shape or ():
        size *= n
    arrays = {
        name: (c_ssize_t * max(len(value), 1))(*value)
        for name, value in (("shape", shape), ("strides", strides), ("suboffsets", suboffsets))
        if value is not None
    }
    _alive.append((block, arrays, fmt))

    def get(view: PyBuffer, flags: int) -> None:
        view.buf = ctypes.addressof(block) + start
        view.itemsize, view.readonly = itemsize, int(readonly)
        view.format = fmt if flags & FORMAT else None
        view.ndim = len(shape or ()) if ndim is None else ndim
        view.len = size if length is None else length
        view.shape = view.strides = view.suboffsets = None
        for name, array in arrays.items():
            setattr(view, name, ctypes.addressof(array))

    return buffer_type(get, lambda view: None)()
