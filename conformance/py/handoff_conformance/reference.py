"""The reference: a producer and a consumer that keep every rule, or break one of them on purpose.

"reference" keeps all rules; the suite must find nothing. "reference:R047" breaks R047; the suite must
say so. "reference:gpu" and "reference:gpu,R128" pretend that their memory is on a CUDA device, for the
rules about streams: nothing reads it there.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Sequence
from ctypes import c_int, c_int64, c_size_t, c_ssize_t, c_void_p, py_object
from typing import Any

from . import abi, gpu, native
from .abi import DLDevice, Managed, Pages, PyBuffer, row_major
from .checks_host import TYPESTR
from .core import Look
from .targets import Target, Unsupported

DTYPES: dict[str, tuple[int, int, int]] = {
    "bool": (6, 8, 1), "int8": (0, 8, 1), "int16": (0, 16, 1), "int32": (0, 32, 1), "int64": (0, 64, 1),
    "uint8": (1, 8, 1), "uint16": (1, 16, 1), "uint32": (1, 32, 1), "uint64": (1, 64, 1), "float16": (2, 16, 1),
    "float32": (2, 32, 1), "float64": (2, 64, 1), "complex64": (5, 64, 1), "complex128": (5, 128, 1),
    "bfloat16": (4, 16, 1), "float8_e3m4": (7, 8, 1), "float8_e4m3": (8, 8, 1), "float8_e4m3b11fnuz": (9, 8, 1),
    "float8_e4m3fn": (10, 8, 1), "float8_e4m3fnuz": (11, 8, 1), "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1), "float8_e8m0fnu": (14, 8, 1), "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1), "float4_e2m1fn": (17, 4, 1), "int4": (0, 4, 1), "uint4": (1, 4, 1),
}  # fmt: skip
KNOWN = set(DTYPES.values()) | {(17, 4, 2)}
TYPESTRS = {"b1": (6, 8, 1), "i1": (0, 8, 1), "i2": (0, 16, 1), "i4": (0, 32, 1), "i8": (0, 64, 1), "u1": (1, 8, 1),
            "u2": (1, 16, 1), "u4": (1, 32, 1), "u8": (1, 64, 1), "f2": (2, 16, 1), "f4": (2, 32, 1), "f8": (2, 64, 1),
            "c8": (5, 64, 1), "c16": (5, 128, 1)}  # fmt: skip
FORMATS = {"?": "b1", "b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8", "Q": "u8",
           "e": "f2", "f": "f4", "d": "f8", "Zf": "c8", "Zd": "c16", "F": "c8", "D": "c16"}  # fmt: skip

_fault = ""


def bad(rule: str) -> bool:
    """Whether the rule is the one to break."""
    return _fault == rule


class _Base:
    """Keeps the functions of the buffer slots and of the exchange table alive."""


_GETBUFFER = ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_int)


@_GETBUFFER
def _getbuffer(obj: int, view: int, flags: int) -> int:
    x = ctypes.cast(obj, py_object).value
    v = PyBuffer.from_address(view)
    if not x._fill(v, flags):
        return -2
    v.obj = obj
    abi.api.Py_IncRef(obj)
    return 0


def _exporter() -> type:
    """A type with the buffer slot, to be subclassed."""
    slots = (abi._Slot * 2)(abi._Slot(1, native.address("hc_getbuffer")), abi._Slot(0, None))
    spec = abi._Spec(
        b"handoff_conformance.Exporter", object.__basicsize__, 0, 1 << 18 | 1 << 10, ctypes.addressof(slots)
    )
    abi._alive.extend((slots, spec))
    return abi.api.PyType_FromSpec(ctypes.addressof(spec))


Exporter: Any = _exporter()


class Owner:
    """What keeps the memory of an array: here a managed tensor that is given back once."""

    def __init__(self, address: int, kind: Any, keep: Any = None) -> None:
        self.address, self.kind, self.keep, self.live = address, kind, keep, True

    def close(self) -> None:
        if not self.live:
            return
        self.live = False
        if bad("R060"):
            return  # never given back
        deleter = self.kind.from_address(self.address).deleter
        if deleter or bad("R059"):
            abi.DELETER(deleter or 0)(self.address + (8 if bad("R061") else 0)) if not bad("R061") else _call_wrong(
                deleter, self.address
            )
            if bad("R062"):
                self.kind.from_address(self.address).manager_ctx  # noqa: B018  touched after it is gone

    __del__ = close


def _call_wrong(deleter: int, address: int) -> None:
    """Calls the deleter with a copy of the struct, which is at another address."""
    copy = ctypes.create_string_buffer(ctypes.string_at(address, 80), 80)
    abi._alive.append(copy)
    abi.DELETER(deleter)(ctypes.addressof(copy))


class Array(Exporter):
    """The reference's array: host memory, described."""

    def __init__(self, address: int, shape: Sequence[int], strides: Sequence[int], dtype: tuple[int, int, int], *,
                 readonly: bool = False, owner: Any = None, device: tuple[int, int] = (1, 0), packed: bool = True,
                 kind: str = "", text: str = "") -> None:  # fmt: skip
        self.address, self.shape, self.strides, self.dtype = address, tuple(shape), tuple(strides), dtype
        self.readonly, self.owner, self.device, self.packed, self.kind = readonly, owner, device, packed, kind
        self.lists = (c_int64 * 256)(*self.shape)
        for i, s in enumerate(self.strides):
            self.lists[128 + i] = s
        self.exported: list[Managed] = []
        self.stream: int | None = None  # where it was last written, in stream order
        self.byte_strides: tuple[int, ...] | None = None
        self.text = text
        if bad("R258"):  # on the object: on the class it would take the place of the slot
            self.__buffer__ = lambda flags: b""

    def __del__(self) -> None:
        if bad("R069") and self.kind != "view":
            ctypes.memset(self.address, 0xA5, 64)

    # --- DLPack

    def __dlpack_device__(self) -> Any:
        if bad("R154"):
            return list(self.device)
        if bad("R155"):
            return 3, 0
        return self.device

    def __dlpack__(self, **kw: Any) -> Any:
        unknown = set(kw) - {"stream", "max_version", "dl_device", "copy"}
        if unknown or (bad("R114") and set(kw) - {"stream"}):
            raise TypeError(f"unexpected keyword argument {sorted(unknown or kw)}")
        stream, version = kw.get("stream"), kw.get("max_version")
        dl_device, copy = kw.get("dl_device"), kw.get("copy")
        self._check_stream(stream)
        pair = isinstance(version, tuple) and len(version) == 2 and all(isinstance(i, int) for i in version)
        if version is not None and not pair and not bad("R120"):
            raise TypeError("max_version must be a pair of ints")
        if self.kind in ("byteorder", "oddstride", "unexportable"):
            rules = {
                "byteorder": ("R030", "R291"),
                "oddstride": ("R058", "R281"),
                "unexportable": ("R157", "R285"),
            }
            if _fault not in rules[self.kind]:
                raise BufferError("cannot be described")
        if bad("R143") and "dl_device" in kw and dl_device is None:
            raise ValueError("dl_device is None")
        if dl_device is not None and tuple(dl_device) != self.device:
            if dl_device == (1, 0) and self.device[0] in (2, 10):
                if bad("R145"):
                    raise BufferError("cannot copy to the CPU")
                return self._copy(version, (1, 0))
            raise (ValueError if bad("R144") else BufferError)("cannot serve the device")
        if isinstance(version, tuple):
            new = version[0] >= 1 if version and isinstance(version[0], int) else True
            if bad("R119") and version[:1] == (0,):
                new = True
            if (bad("R117") and version[:2] in ((1, 3), (1, 99))) or (bad("R118") and version == (1, 0)):
                new = False
        else:
            new = bool(bad("R120") and version is not None)
        if version is None and bad("R116"):
            raise ValueError("max_version is needed")
        if version is None and bad("R084"):
            new = True
        if bad("R165"):
            ctypes.memmove(self.address, struct.pack("<f", len(self.exported) + 5), 4)
        if self.device[0] == 2 and self.stream is not None and not (copy is True and bad("R153")):
            self._order(stream)
        if copy is True and not bad("R150"):
            return self._copy(version, None)
        if copy is False and bad("R151"):
            return self._copy(version, None)
        if copy is None and bad("R152"):
            return self._copy(version, None)
        if self.readonly and not new and not bad("R057"):
            raise BufferError("read-only memory needs max_version=(1, 0)")
        if not self.packed and self.dtype[1] < 8 and not new and not bad("R021"):
            raise BufferError("padded elements need max_version=(1, 1)")
        return self._capsule(new, dl_device)

    def _order(self, stream: Any) -> None:
        """Makes the consumer's stream wait for the last write."""
        if bad("R138"):
            abi.machine.sync(self.stream)
        elif stream != -1 and not bad("R137"):
            abi.machine.wait(1 if stream is None else stream, self.stream)

    def _check_stream(self, stream: Any) -> None:
        if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool)):
            if bad("R136"):
                raise ValueError("stream")
            raise TypeError("stream must be an int")
        if self.device[0] == 10:
            if (stream in (1, 2) and not bad("R134")) or (stream == 0 and bad("R133")):
                raise ValueError("stream")
            return
        if self.device[0] == 2:
            refused = {None: "R126", -1: "R127", 1: "R129", 2: "R130", 4096: "R131"}
            if (stream == 0 and not bad("R128")) or (stream in refused and bad(refused[stream])):
                raise ValueError("stream")
            return
        if stream is None or (stream == -1):
            return
        if (stream < -1 and bad("R132")) or (stream >= 0 and bad("R135")):
            return
        raise ValueError("CPU memory has no stream")

    def _managed(self, new: bool, dl_device: Any = None, flags: int | None = None) -> Managed:
        if bad("R070") and self.exported:
            return self.exported[0]
        code, bits, lanes = self.dtype
        changed = {"R024": (1, 8, 1), "R289": (1, 8, 1)} if code == 6 else {}
        changed = {"R025": (5, bits // 2, 1)} if code == 5 else changed
        changed = {"R026": (2, 16, 1)} if code == 4 else changed
        changed = {"R022": (code, 8, 1)} if code in (15, 16) else changed
        changed = {"R023": (17, 8, 1)} if code == 17 else changed
        dtype = changed.get(_fault, self.dtype)
        if bad("R005"):
            dtype = (32, 2, 1)
        if flags is None:
            flags = abi.READ_ONLY if self.readonly and not bad("R014") else 0
            if bits < 8 and not self.packed and not bad("R020"):
                flags |= abi.PADDED
        if bad("R013"):
            flags |= 1 << 20
        if bad("R019"):
            flags |= abi.IS_COPIED
        empty = 0 in self.shape
        at = 0 if empty and not bad("R043") else self.address
        # The address is given as a multiple of 256, with the rest in byte_offset (R040).
        base, rest = (at, 0) if bad("R040") else (at & ~255, at & 255)
        if bad("R039") and self.shape and not empty:
            rest += 4
        strides: Sequence[int] | None = self.strides
        if bad("R048"):
            strides = [s * max(bits // 8, 1) for s in self.strides]
        if bad("R049") and new:
            strides = None
        device = self.device
        if bad("R149") and dl_device is not None:
            device = (3, 0)
        if bad("R036"):
            device = (device[0], 1)
        if bad("R037"):
            device = (device[0], 5)
        if bad("R004"):
            device = (device[1], device[0])
        version = (1, 3)
        if bad("R007") and code >= 7:
            version = (1, 0)
        if bad("R003"):
            version = (1, 500)
        if bad("R006"):
            version = (3, 0)
        deleter: bool | str = True
        if new and _fault in _DELETERS:
            deleter = _DELETERS[_fault]
        m = Managed(self.shape, strides, versioned=new, version=version, dtype=dtype, device=device, flags=flags,
                    data=base, byte_offset=rest, poison=False, fill=b"", deleter=deleter)  # fmt: skip
        t = m.struct.dl_tensor
        if base == 0:
            t.data = None
        if bad("R001"):
            t.ndim += 1
        if bad("R002") and not new:
            t.dtype.lanes = 0
        if bad("R056") and self.exported:
            # The deleter of this export takes the lists of the one before with it.
            old = self.exported[-1]
            m.record.poison[0], m.record.poison[1] = old.lists.address, old.lists.size
        m.keep = self if not bad("R069") else None
        self.exported.append(m)
        return m

    def _capsule(self, new: bool, dl_device: Any = None, flags: int | None = None) -> Any:
        m = self._managed(new, dl_device, flags)
        name: bytes | None = None
        if bad("R071") and not new:
            name = b"tensor"
        if bad("R072") and new:
            name = b"dltensor_v1"
        if bad("R115"):
            return m.address
        destructor = _DESTRUCTORS.get(_fault, "hc_destructor")
        m.made += 1
        fresh = name or (b"dltensor_versioned" if m.versioned else b"dltensor")
        where = abi.static_name(fresh)
        if bad("R074"):
            abi.libc.malloc.restype, abi.libc.malloc.argtypes = c_void_p, [c_size_t]
            where = abi.libc.malloc(32)
            ctypes.memmove(where, fresh + b"\0", len(fresh) + 1)
        return abi.api.PyCapsule_New(m.address, where, native.address(destructor))

    def _copy(self, version: Any, device: Any) -> Any:
        size = max(self.dtype[1] // 8, 1)
        pages = Pages(8192)
        for i, o in enumerate(abi.offsets(self.shape, self.strides)):
            ctypes.memmove(pages.address + i * size, self.address + o * size, size)
        if bad("R146"):
            ctypes.memset(pages.address, 0x11, 4)
        c = Array(
            pages.address,
            self.shape,
            row_major(self.shape),
            self.dtype,
            owner=pages,
            device=device or self.device,
        )
        new = isinstance(version, tuple) and version[0] >= 1
        flags = abi.IS_COPIED if new and not bad("R017") and not bad("R152") else 0
        return c._capsule(new, None, flags)

    # --- the exchange table

    def _lend(self, out: int) -> None:
        t = abi.DLTensor.from_address(out)
        lists = (c_int64 * 256)(*self.lists) if bad("R107") else self.lists
        abi._alive.append(lists)
        t.data, t.device, t.ndim, t.byte_offset = self.address, DLDevice(*self.device), len(self.shape), 0
        t.dtype = abi.DLDataType(*self.dtype)
        t.shape, t.strides = ctypes.addressof(lists), ctypes.addressof(lists) + 1024
        if bad("R111"):
            t.strides = None

    # --- NumPy's array interface

    @property
    def __array_interface__(self) -> Any:
        name = next((n for n, d in TYPESTRS.items() if d == self.dtype), None)
        if name is None and not self.text:
            raise AttributeError("no typestr")
        size = max(self.dtype[1] // 8, 1)
        steps = self.byte_strides or tuple(size * s for s in self.strides)
        if bad("R282"):
            steps = self.strides
        typestr = self.text or ("|" if size == 1 else "<") + (name or "")
        d: dict[str, Any] = {
            "shape": self.shape,
            "typestr": typestr,
            "data": (self.address, self.readonly),
            "version": 3,
        }
        if self.strides != row_major(self.shape):
            d["strides"] = steps
        if bad("R283"):
            d["data"] = (self.address - 8, self.readonly)
        if bad("R280") or bad("R211"):
            d["data"] = (d["data"][0], False)
        if bad("R201"):
            del d["version"]
        if bad("R202"):
            d["shape"] = list(self.shape)
        if bad("R203"):
            d["typestr"] = "float32"
        return list(d.items()) if bad("R200") else d

    @property
    def __array_struct__(self) -> Any:
        size = max(self.dtype[1] // 8, 1)
        n = len(self.shape)
        shape, strides = (c_ssize_t * 8)(*self.shape), (c_ssize_t * 8)(*(s * size for s in self.strides))
        flags = 0x700 | (0x4 if bad("R226") else 0)
        a = ctypes.addressof
        s = abi.PyArrayInterface(
            3 if bad("R221") else 2, n, b"f", size, flags, a(shape), a(strides), self.address, None
        )
        abi._alive.append((s, shape, strides, self))
        return abi.api.PyCapsule_New(a(s), None, None)

    # --- the CUDA Array Interface

    def _cai(self) -> Any:
        name = next((n for n, d in TYPESTRS.items() if d == self.dtype), None)
        if name is None:
            if not bad("R198"):
                raise AttributeError("no typestr")
            name = "V2"
        empty = 0 in self.shape
        d: dict[str, Any] = {"shape": self.shape, "typestr": "<" + name, "version": 3, "stream": None}
        if self.stream is not None and not abi.machine.done(self.stream) and not bad("R190"):
            d["stream"] = abi.machine.new_stream() if bad("R191") else self.stream
        d["data"] = (self.address if not empty or _fault in ("R173", "R287") else 0, self.readonly)
        if _fault in ("R176", "R280"):
            d["data"] = (d["data"][0], False)
        if self.strides != row_major(self.shape):
            d["strides"] = tuple(s * max(self.dtype[1] // 8, 1) for s in self.strides)
        change = {"R169": ("shape", list(self.shape)), "R170": ("typestr", "float32"),
                  "R172": ("data", (self.address, 0)),
                  "R178": ("strides", (4,)), "R184": ("stream", 0), "R197": ("version", "3"),
                  "R192": ("stream", 1)}  # fmt: skip
        if _fault in change:
            d[change[_fault][0]] = change[_fault][1]
        if bad("R167"):
            del d["typestr"]
        return list(d.items()) if bad("R166") else d

    # --- the buffer protocol

    def _fill(self, v: PyBuffer, flags: int) -> bool:
        name = next((f for f, n in FORMATS.items() if TYPESTRS[n] == self.dtype), None)
        if self.dtype == (4, 16, 1) and bad("R254"):
            name = "e"
        if name is None:
            return False
        size = self.dtype[1] // 8
        n = len(self.shape)
        c = all(a == b or k == 1 for a, b, k in zip(self.strides, row_major(self.shape), self.shape, strict=True))
        columns = tuple(reversed(row_major(tuple(reversed(self.shape)))))
        f = all(a == b or k == 1 for a, b, k in zip(self.strides, columns, self.shape, strict=True))
        wants = flags & ~(abi.FORMAT | abi.WRITABLE)
        if flags & abi.WRITABLE and self.readonly and not bad("R241"):
            return False
        if wants == abi.SIMPLE and not c and not bad("R237"):
            return False
        if wants == abi.ND and not c and not bad("R239"):
            return False
        if not bad("R240"):
            if wants & 0x20 and wants & abi.C_CONTIGUOUS == abi.C_CONTIGUOUS and not c:
                return False
            if wants & 0x40 and not f:
                return False
            if wants & 0x80 and not (c or f):
                return False
        steps = (c_ssize_t * 64)(*(s * size for s in self.strides))
        subs = (c_ssize_t * 64)(*([-1] * 64))
        abi._alive.append((steps, subs))
        total = size
        for k in self.shape:
            total *= k
        v.buf, v.len, v.itemsize, v.ndim = self.address, total, size, n
        if bad("R235"):
            v.len += 4
        v.readonly = int(self.readonly and not bad("R242") and not bad("R280"))
        v.format = name.encode() if flags & abi.FORMAT else None
        lists = n > 0 or bad("R234")
        v.shape = ctypes.addressof(self.lists) if flags & abi.ND and lists else None
        v.strides = ctypes.addressof(steps) if flags & abi.STRIDES == abi.STRIDES and lists else None
        v.suboffsets = ctypes.addressof(subs) if bad("R244") else None
        return True


_DELETERS = {
    "R063": "hc_delete_gil",
    "R064": "hc_delete_gil",
    "R065": "hc_delete_finalized",
    "R066": "hc_delete_raises",
}
_DESTRUCTORS = {
    "R060": "hc_destructor_twice", "R077": "hc_nothing", "R078": "hc_destructor_blind", "R059": "hc_destructor_null",
    "R079": "hc_destructor_raises",
}  # fmt: skip


class Stream:
    def __init__(self, handle: int) -> None:
        self.handle = handle

    def _pair(self) -> Any:
        if bad("R261"):
            return [0, self.handle]
        if bad("R262"):
            return 1, self.handle
        if bad("R263"):
            return 0, -self.handle
        if bad("R271"):
            self.handle += 1
        return 0, self.handle

    __cuda_stream__: Any = _pair


class Reference(Target):
    """The target of the module."""

    name = "reference"
    version = "1"

    def __init__(self, fault: str = "") -> None:
        global _fault
        parts = fault.split(",") if fault else []
        self.fault = fault
        self.pretend = {"gpu": (2, 0), "rocm": (10, 0)}.get(parts[0]) if parts else None
        self.pretends_gpu = self.pretend is not None
        if self.pretend:
            parts = parts[1:]
        _fault = parts[0] if parts else ""
        if self.pretends_gpu or bad("R199"):
            Array.__cuda_array_interface__ = property(Array._cai)  # type: ignore[attr-defined]
        if self.pretends_gpu:
            self.stream = lambda: Stream(4096) if not bad("R260") else type("S", (), {"__cuda_stream__": (0, 4096)})()
            if self.pretend == (2, 0):
                self.machine = abi.machine = gpu.Pretended()
                self.own_device = (2, 0)
                self.work_on = self._work_on
                self.writer = self._writer
            self.pending_stream = lambda: {} if bad("R190") else {"stream": 4096}
            self.default_streams = lambda: (
                Stream(7 if bad("R272") else 0),
                Stream(3 if bad("R273") else 1),
                Stream(2),
            )
            self.dlpack_stream = self._dlpack_stream
            self.from_cai = self._from_cai
            self.take_stream = self._take_stream
        if bad("R231"):
            Array.resize = lambda self, n: ctypes.memset(self.address, 0xA5, 64)  # type: ignore[attr-defined]
        self._table()

    def stream_alive(self, handle: int) -> bool:
        return not bad("R193")

    def extra_interfaces(self) -> list[tuple[str, Any]]:
        pages = Pages(4096)
        u = Array(pages.address, (2,), (1,), (3, 96, 1), text="<U12" if bad("R205") else "<U3", owner=pages)
        m = Array(pages.address, (2,), (1,), (3, 64, 1), text="<M8" if bad("R220") else "<M8[ms]", owner=pages)
        return [("U3", u), ("M8[ms]", m)]

    # --- as a producer

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if dtype not in DTYPES:
            raise Unsupported(dtype)
        d = DTYPES[dtype]
        shape = tuple(shape)
        n = 1
        for s in shape:
            n *= s
        pages = Pages(8192 + 16 * n)
        packed = True
        if d[1] < 8:
            ones = {17: 2, 15: 8, 16: 12}.get(d[0], 0)
            values = [(ones if i % 2 else 0) if ones else i % 8 for i in range(n)]
            packed = dtype != "uint4"
            if packed:
                if bad("R031") and d[1] == 4:
                    values = [values[i ^ 1] if (i ^ 1) < n else values[i] for i in range(n)]
                word = sum(b << (i * d[1]) for i, b in enumerate(values))
                raw = word.to_bytes(n * d[1] // 8 + 1, "little")
            else:
                raw = bytes(values)
            ctypes.memmove(pages.address, raw, len(raw))
            return Array(pages.address, shape, row_major(shape), d, owner=pages, packed=packed)
        strides = row_major(shape)
        start = 0
        if layout == "F":
            strides = tuple(reversed(row_major(tuple(reversed(shape)))))
        elif layout == "sliced" and shape:
            wide = row_major((*shape[:-1], 2 * shape[-1] + 1))
            strides, start = (*wide[:-1], 2), 1
        elif layout == "reversed" and shape:
            strides, start = (*strides[:-1], -1), shape[-1] - 1
        elif layout == "broadcast" and shape:
            strides = (0, *strides[1:])
        elif layout == "offset":
            start = 1
        elif layout not in ("C", "readonly"):
            raise Unsupported(layout)
        size = d[1] // 8
        fmt = abi._CODES.get(d[:2])
        for i, o in enumerate(abi.offsets(shape, strides)):
            k = i % 2 if dtype == "bool" else i
            if layout == "broadcast" and i >= n // shape[0]:
                break
            raw = struct.pack("<" + fmt, *([k, 0][: 2 if fmt[0] == "2" else 1])) if fmt else k.to_bytes(size, "little")
            ctypes.memmove(pages.address + (start + o) * size, raw, size)
        return Array(pages.address + start * size, shape, strides, d, owner=pages, readonly=layout == "readonly",
                     device=self.pretend or (1, 0))  # fmt: skip

    def special(self, kind: str) -> Any:
        x = self.array("float32", (6,))
        x.kind = kind
        return x

    def _table(self) -> None:
        """Puts an exchange table on the type of the arrays."""
        made: list[Any] = []

        def from_py(obj: int, out: int) -> int:
            x = ctypes.cast(obj, py_object).value
            if x.kind:
                return -2
            if x.stream is not None and bad("R102"):
                abi.machine.sync(x.stream)
            m = x._managed(True)
            if bad("R111"):
                m.struct.dl_tensor.strides = None
            c_void_p.from_address(out).value = m.address
            return 0

        def to_py(tensor: int, out: int) -> int:
            m = abi.DLManagedTensorVersioned.from_address(tensor)
            t = m.dl_tensor
            n = t.ndim
            x = Array((t.data or 0) + t.byte_offset, abi.ints(t.shape, n), abi.ints(t.strides, n),
                      (t.dtype.code, t.dtype.bits, t.dtype.lanes), owner=Owner(tensor, abi.DLManagedTensorVersioned),
                      kind="view")  # fmt: skip
            if bad("R104"):
                x.owner.live = False
            abi.api.Py_IncRef(id(x))
            c_void_p.from_address(out).value = id(x)
            return 0

        def lend(obj: int, out: int) -> int:
            ctypes.cast(obj, py_object).value._lend(out)
            return 0

        def stream(kind: int, ordinal: int, out: int) -> int:
            c_void_p.from_address(out).value = 0x77 if bad("R109") else (1 << 64) - 1 if bad("R108") else None
            return 0

        def allocate(proto: int, out: int, ctx: int, set_error: int) -> int:
            t = abi.DLTensor.from_address(proto)
            shape = abi.ints(t.shape, t.ndim)
            n = t.dtype.bits * t.dtype.lanes // 8
            for s in shape:
                n *= s
            if bad("R096"):
                ctypes.string_at(t.strides, 8)
            if n > 1 << 40:
                if set_error and not bad("R097"):
                    abi.SET_ERROR(set_error)(ctx, b"MemoryError", b"too large")
                elif bad("R113"):
                    abi.SET_ERROR(set_error or 0)(ctx, b"MemoryError", b"too large")
                return -1
            m = Managed(
                shape,
                row_major(shape),
                version=(1, 3),
                dtype=(t.dtype.code, t.dtype.bits, t.dtype.lanes),
                poison=False,
            )
            c_void_p.from_address(out).value = m.address
            return 0

        cast = lambda f: ctypes.cast(f, c_void_p).value  # noqa: E731
        callbacks = [abi.FROM_PY_RAW(from_py), abi.TO_PY(to_py), abi.FROM_PY_RAW(lend), abi.STREAM(stream),
                     ctypes.PYFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)(allocate)]  # fmt: skip
        made.extend(callbacks)
        native.lib.hc_set.argtypes = [c_void_p, c_void_p, c_int]
        native.lib.hc_set(cast(callbacks[0]), cast(_getbuffer), int(bad("R229")))
        table = abi.DLPackExchangeAPI(abi.DLPackVersion(1, 3))
        table.from_py = native.address("hc_from_py_value_error" if bad("R101") else "hc_from_py")
        if bad("R095"):
            table.from_py = native.address("hc_seven")
        table.to_py, table.lend, table.stream = map(cast, callbacks[1:4])
        table.allocator = native.address("hc_allocate_raises") if bad("R097") else cast(callbacks[4])
        if bad("R093"):
            table.stream = None
        if bad("R092"):
            table.prev_api = ctypes.addressof(table)
        if bad("R089"):
            table.lend = ctypes.addressof(table)
        abi._alive.extend((made, table))
        name = b"exchange" if bad("R085") else b"dlpack_exchange_api"
        address = ctypes.addressof(table)

        class Moving:
            """Gives another copy of the table each time (R088)."""

            def __get__(self, obj: Any, owner: Any) -> Any:
                copy = abi.DLPackExchangeAPI.from_buffer_copy(table)
                abi._alive.append(copy)
                return abi.api.PyCapsule_New(ctypes.addressof(copy), abi.static_name(name), None)

        capsule = abi.api.PyCapsule_New(address, abi.static_name(name), None)
        Array.__dlpack_c_exchange_api__ = Moving() if bad("R088") else capsule

    # --- streams

    def scope(self, handle: int) -> Any:
        return contextlib.nullcontext()

    def _writer(self, handle: int) -> tuple[Any, Any, Any]:
        x = self.array("float32", (64,))

        def write() -> None:
            x.stream = handle

        return x, write, lambda: self.scope(handle)

    def _work_on(self, x: Any, handle: int) -> None:
        named = x.__cuda_array_interface__["stream"]
        if not bad("R188"):
            self.machine.wait(handle, named)
        if not bad("R189"):
            self.machine.wait(named, handle)

    # --- as a consumer

    def look(self, array: Any) -> Look:
        ro = array.readonly
        return Look(array.address, array.shape, array.strides, array.dtype, ro, array.device)

    def write(self, array: Any, index: int, value: Any) -> None:
        if array.readonly and _fault not in ("R015", "R243", "R211"):
            raise ValueError("read-only")
        size = array.dtype[1] // 8
        fmt = abi._CODES[array.dtype[:2]]
        at = array.address + index * size
        abi.libc.mprotect(at & ~4095, 4096, abi.PROT_RW) if array.readonly else None
        ctypes.memmove(at, struct.pack("<" + fmt, value if fmt in "efd" else int(value)), size)

    def from_dlpack(self, x: Any, *, device: Any = None, copy: Any = None) -> Any:
        from .refconsumer import from_dlpack

        return from_dlpack(x, device, copy)

    def from_array_interface(self, x: Any) -> Any:
        from .refconsumer import from_array_interface

        return from_array_interface(x)

    def from_buffer(self, x: Any) -> Any:
        from .refconsumer import from_buffer

        return from_buffer(x)

    def _from_cai(self, x: Any) -> Any:
        from .refconsumer import from_cai

        return from_cai(x)

    def _take_stream(self, s: Any) -> Any:
        from .refconsumer import take_stream

        return take_stream(s)

    def _dlpack_stream(self, s: Any) -> Any:
        handle = s.__cuda_stream__()[1]
        if handle == 0:
            return 0 if bad("R142") else 5 if bad("R274") else 1
        return handle


__all__ = ["KNOWN", "TYPESTR", "TYPESTRS", "Array", "Owner", "Reference", "Stream", "bad"]
