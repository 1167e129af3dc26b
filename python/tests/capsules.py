"""DLPack structs, capsules and exchange tables built with ctypes, with deleters that count."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any

import handoff


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


DELETER = ctypes.CFUNCTYPE(None, c_void_p)
DESTRUCTOR = ctypes.PYFUNCTYPE(None, c_void_p)  # the object is dying: no py_object may be made of it
FROM_PY = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
TO_PY = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
LEND = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p)
STREAM = ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)
SET_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, SET_ERROR)


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


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = py_object
_api.PyCapsule_New.argtypes = [c_void_p, c_void_p, c_void_p]
_api.PyCapsule_GetName.restype = c_char_p
_api.PyCapsule_GetName.argtypes = [py_object]
_api.PyCapsule_GetPointer.restype = c_void_p
_api.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
_api.PyCapsule_SetName.argtypes = [py_object, c_char_p]

# Names have static storage in real producers (R074); these live for ever.
_names: dict[bytes, ctypes.Array[ctypes.c_char]] = {}


def static_name(name: bytes) -> int:
    if name not in _names:
        _names[name] = ctypes.create_string_buffer(name)
    return ctypes.addressof(_names[name])


def name_of(capsule: Any) -> bytes | None:
    return _api.PyCapsule_GetName(capsule)


def pointer_of(capsule: Any) -> int:
    return _api.PyCapsule_GetPointer(capsule, name_of(capsule))


def tensor_of(capsule: Any) -> DLTensor:
    """The DLTensor in a capsule, whatever its form."""
    if (name_of(capsule) or b"").endswith(b"dltensor_versioned"):
        return versioned_of(capsule).dl_tensor
    return DLManagedTensor.from_address(pointer_of(capsule)).dl_tensor


def versioned_of(capsule: Any) -> DLManagedTensorVersioned:
    return DLManagedTensorVersioned.from_address(pointer_of(capsule))


def ints(address: int | None, n: int) -> tuple[int, ...]:
    return tuple((c_int64 * n).from_address(address)) if address else ()


_dying_is_valid = ctypes.PYFUNCTYPE(c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _api))
_dying_name = ctypes.PYFUNCTYPE(c_char_p, c_void_p)(("PyCapsule_GetName", _api))
_dying_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _api))


@DESTRUCTOR
def _good_destructor(capsule: int) -> None:
    """What the rules want: free only what nobody took (R077, R078)."""
    for name, struct in ((b"dltensor_versioned", DLManagedTensorVersioned), (b"dltensor", DLManagedTensor)):
        if _dying_is_valid(capsule, name):
            address = _dying_pointer(capsule, name)
            deleter = struct.from_address(address).deleter
            if deleter:
                DELETER(deleter)(address)


@DESTRUCTOR
def _naive_destructor(capsule: int) -> None:
    """Frees without looking at the name (B124)."""
    name = _dying_name(capsule)
    address = _dying_pointer(capsule, name)
    struct = DLManagedTensorVersioned if b"versioned" in (name or b"") else DLManagedTensor
    DELETER(struct.from_address(address).deleter)(address)


# A ctypes object may not die while C can still call into it.
_alive: list[Any] = []


class Managed:
    """One managed tensor over memory of its own. `deleted` counts the deleter's calls."""

    def __init__(
        self,
        shape: Sequence[int] = (2, 3),
        strides: Sequence[int] | None = (3, 1),
        *,
        versioned: bool = True,
        version: tuple[int, int] = (1, 3),
        dtype: tuple[int, int, int] = (2, 32, 1),
        device: tuple[int, int] = (1, 0),
        flags: int = 0,
        ndim: int | None = None,
        null_shape: bool = False,
        data: int | None = None,
        byte_offset: int = 0,
        deleter: bool = True,
        size: int = 4096,
    ) -> None:
        self.deleted = 0
        self.wrong = 0
        raw = ctypes.create_string_buffer(size + 256)
        self.base = (ctypes.addressof(raw) + 255) & ~255
        self.struct = DLManagedTensorVersioned() if versioned else DLManagedTensor()
        t = self.struct.dl_tensor
        t.data = self.base if data is None else data
        t.device = DLDevice(*device)
        t.ndim = len(shape) if ndim is None else ndim
        t.dtype = DLDataType(*dtype)
        self._shape = (c_int64 * max(len(shape), 1))(*shape)
        t.shape = None if null_shape else ctypes.addressof(self._shape)
        if strides is not None:
            self._strides = (c_int64 * max(len(strides), 1))(*strides)
            t.strides = ctypes.addressof(self._strides)
        t.byte_offset = byte_offset
        if versioned:
            self.struct.version = DLPackVersion(*version)
            self.struct.flags = flags
        self.address = ctypes.addressof(self.struct)
        self._deleter = DELETER(self._delete)
        if deleter:
            self.struct.deleter = ctypes.cast(self._deleter, c_void_p).value
        self.fresh_name = b"dltensor_versioned" if versioned else b"dltensor"
        _alive.append((self, raw))

    def _delete(self, address: int) -> None:
        self.deleted += 1
        self.wrong += address != self.address  # R061

    def capsule(self, name: bytes | None = None, destructor: Any = _good_destructor) -> Any:
        """A capsule of the tensor. name b"" stands for a capsule without a name."""
        name = self.fresh_name if name is None else name
        d = ctypes.cast(destructor, c_void_p) if destructor is not None else None
        return _api.PyCapsule_New(self.address, static_name(name) if name else None, d)

    def naive_capsule(self) -> Any:
        return self.capsule(destructor=_naive_destructor)


class Producer:
    """An object with the methods of the protocol that records how it was called."""

    def __init__(self, managed: Managed | None = None, device: Any = (1, 0), **managed_args: Any) -> None:
        self.managed = managed or Managed(**managed_args)
        self.device = device
        self.calls: list[dict[str, Any]] = []

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        return self.managed.capsule()


def table_capsule(table: DLPackExchangeAPI, name: bytes = b"dlpack_exchange_api") -> Any:
    _alive.append(table)
    return _api.PyCapsule_New(ctypes.addressof(table), static_name(name), None)


class Table:
    """An exchange table whose functions are Python methods; each may be left out."""

    def __init__(self, version: tuple[int, int] = (1, 3), *, lend: bool = True, null: Sequence[str] = ()) -> None:
        self.calls: list[str] = []
        self.managed: list[Managed] = []
        self.args: dict[str, Any] = {}
        self.fail: set[str] = set()  # these answer -1 and set no exception: ctypes cannot leave one pending
        self.stream = 0
        self._functions = {
            "from_py": FROM_PY(self._from_py),
            "to_py": TO_PY(lambda tensor, out: -1),
            "lend": LEND(self._lend),
            "stream": STREAM(self._stream),
            "allocator": ALLOCATE(lambda *args: -1),
        }
        self.struct = DLPackExchangeAPI(DLPackVersion(*version))
        for name, function in self._functions.items():
            if name not in null and (name != "lend" or lend):
                setattr(self.struct, name, ctypes.cast(function, c_void_p).value)
        self.address = ctypes.addressof(self.struct)
        self.capsule = table_capsule(self.struct)
        _alive.append(self)

    def _tensor(self) -> Managed:
        self.managed.append(Managed(**self.args))
        return self.managed[-1]

    def _answer(self, name: str) -> int:
        self.calls.append(name)
        return -1 if name in self.fail else 0

    def _from_py(self, obj: int, out: int) -> int:
        if self._answer("from_py"):
            return -1
        c_void_p.from_address(out).value = self._tensor().address
        return 0

    def _lend(self, obj: int, out: int) -> int:
        if self._answer("lend"):
            return -1
        source = self._tensor().struct.dl_tensor
        ctypes.memmove(out, ctypes.addressof(source), ctypes.sizeof(DLTensor))
        return 0

    def _stream(self, device_type: int, device_id: int, out: int) -> int:
        if self._answer("stream"):
            return -1
        c_void_p.from_address(out).value = self.stream
        return 0


def python_class(**attributes: Any) -> type:
    return type("Tensor", (), attributes)


def has_driver() -> bool:
    """Whether this process has a driver, of a GPU or of the software device."""
    try:
        handoff.Device.get_all_devices()
    except handoff.NoDriverError:
        return False
    return True
