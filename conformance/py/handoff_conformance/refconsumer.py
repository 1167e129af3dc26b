"""The consumer half of the reference: takes tensors by the rules, or breaks the one that `bad` names."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p, py_object
from typing import Any

from . import abi
from .abi import DLManagedTensor, DLManagedTensorVersioned, row_major
from .checks_host import TYPESTR
from .reference import FORMATS, KNOWN, TYPESTRS, Array, Owner, Stream, bad

NEW, OLD = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"
_kept: list[Any] = []


def from_dlpack(x: Any, device: Any, copy: Any) -> Any:
    table = _find_table(x)
    if table is not None and device is None and copy is None:
        return _by_table(table, x)
    if bad("R112") and hasattr(x, "__dlpack__"):
        raise TypeError("no exchange table")
    if not hasattr(x, "__dlpack__"):
        raise TypeError("no __dlpack__") if bad("R158") else AttributeError("no __dlpack__")
    kind = None
    if not bad("R156"):
        kind = tuple(x.__dlpack_device__())
        on_gpu = abi.machine is not None and kind[0] == 2
        if kind[0] not in (1, 3, 11, 13) and device is None and not _wrong_device(kind) and not on_gpu:
            raise BufferError("unsupported device")
    kw: dict[str, Any] = {"max_version": (1, 3)}
    if kind is not None and on_gpu and device != "cpu":
        kw["stream"] = abi.machine.new_stream(1 if bad("R148") else 0)
        if bad("R140"):
            abi.machine.destroy(kw["stream"])
    if bad("R122"):
        kw = {}
    if device is not None:
        kw["dl_device"] = (1, 0) if device == "cpu" else device
        if bad("R147"):
            kw["stream"] = 1
    if (copy is not None and not bad("R162")) or bad("R164"):
        kw["copy"] = copy
    try:
        cap = x.__dlpack__(**kw)
    except TypeError:
        if bad("R123"):
            raise
        if copy is not None and not bad("R125"):
            raise BufferError("the producer is too old to copy") from None
        cap = x.__dlpack__()
    except Exception as e:
        if bad("R124"):
            cap = x.__dlpack__()
        elif bad("R163"):
            raise RuntimeError("the producer failed") from e
        elif _wrong_refusal(device, copy):
            raise RuntimeError("cannot serve") from e
        else:
            raise
    a = _take(cap)
    if copy and bad("R162"):
        return a
    if bad("R159"):
        a.device = (3, 0)
    return a


def _wrong_refusal(device: Any, copy: Any) -> bool:
    return device is not None and (bad("R160") or (bad("R161") and copy is False))


def _wrong_device(kind: tuple[int, int]) -> bool:
    return (kind[0] == 2 and bad("R035")) or (kind[0] in (99, 5) and bad("R011")) or (kind[0] == 7 and bad("R038"))


def _refuse(struct: Any, cap: Any, name: bytes, address: int, kind: Any, text: str) -> BufferError:
    """Leaves the capsule fresh, so that its destructor frees (R080)."""
    if bad("R067") or bad("R080") or bad("R082"):  # takes it, and does not free it
        abi.api.PyCapsule_SetName(cap, abi.static_name(b"used_" + name))
        if bad("R080"):
            abi.api.PyCapsule_SetName(cap, abi.static_name(name))
            deleter = struct.deleter
            if deleter:
                abi.DELETER(deleter)(address)
    return BufferError(text)


def _take(cap: Any) -> Any:
    name = abi.name_of(cap)
    if name not in (b"dltensor", b"dltensor_versioned") and not (
        bad("R076") or (bad("R081") and b"used" in (name or b""))
    ):
        raise ValueError(f"capsule {name!r}")
    address = abi.pointer_of(cap)
    new = b"versioned" in (name or b"") or name == b"nonsense"
    if bad("R073"):
        new = True
    if bad("R083") and new:
        raise BufferError("versioned capsule")
    kind = DLManagedTensorVersioned if new else DLManagedTensor
    m = kind.from_address(address)
    t = m.dl_tensor

    def refuse(text: str) -> BufferError:
        return _refuse(m, cap, name, address, kind, text)

    if new:
        if bad("R009"):
            ctypes.string_at(address + 48, 4)
        major = m.version.major
        if major != 1 and not (bad("R008") or bad("R121")):
            raise refuse("version")
        if bad("R010") and m.version.minor != 0:
            raise refuse("minor version")
        if m.flags & ~7 and not bad("R012"):
            raise refuse("flags")
        if m.flags & abi.READ_ONLY and bad("R016"):
            raise refuse("read-only")
    device = (t.device.device_type, t.device.device_id)
    if device[0] not in (1, 3, 11, 13) and not _wrong_device(device):
        raise refuse("device")
    if bad("R035"):
        device = (1, 0)
    dtype = (t.dtype.code, t.dtype.bits, t.dtype.lanes)
    known = dtype in KNOWN
    tolerated = {
        "R011": dtype[0] == 99, "R027": dtype[0] == 200, "R022": dtype[0] in (15, 16), "R023": dtype[0] == 17,
        "R026": dtype[0] == 4, "R028": dtype == (2, 32, 2), "R029": not dtype[1] or not dtype[2],
    }  # fmt: skip
    if not known and not any(bad(r) and yes for r, yes in tolerated.items()):
        raise refuse("dtype")
    if bad("R028") and dtype[2] > 1:
        dtype = (*dtype[:2], 1)
    ndim = t.ndim
    if ndim < 0 or ndim > 64 or (ndim and not t.shape):
        if not bad("R047"):
            raise refuse("ndim or shape")
        ndim = 0
    if ndim == 0 and bad("R046"):
        raise refuse("no axes")
    shape = abi.ints(t.shape, ndim)
    size = max(dtype[1] * dtype[2] // 8, 1)
    n = 1
    for s in shape:
        n *= s
    impossible = any(s < 0 for s in shape) or n * size >= 1 << 63
    if impossible and not (bad("R034") or (bad("R033") and len(shape) == 1)):
        raise refuse("size")
    if n and not t.data and not bad("R045"):
        raise refuse("data NULL")
    if not n and bad("R044"):
        raise refuse("no elements")
    strides = abi.ints(t.strides, ndim) if t.strides and ndim else row_major(shape)
    if ndim and not t.strides:
        if bad("R051") and new and m.version.minor >= 2:
            strides = tuple(0 for _ in shape)
        if bad("R050"):
            raise refuse("strides NULL")
    if bad("R048"):
        strides = row_major(shape)
    if bad("R052"):
        strides = tuple(s or 1 for s in strides)
    if bad("R053"):
        strides = tuple(map(abs, strides))
    if bad("R054") and any(k == 1 for k in shape) and strides != row_major(shape):
        raise refuse("strides")
    data = (t.data or 0) + (0 if bad("R042") else t.byte_offset)
    if device[0] == 7:
        data = (t.data or 0) + 8
    if bad("R039") and t.byte_offset == 64:
        data -= 64
    if bad("R041") and data % 8:
        raise refuse("alignment")
    if bad("R024") and dtype[0] == 6:
        dtype = (1, 32, 1)
    if bad("R289") and dtype[0] == 6:
        dtype = (1, 8, 1)
    if bad("R025") and dtype[0] == 5:
        dtype = (5, dtype[1] // 2 if dtype[1] == 128 else 128, 1)
    if bad("R055"):
        t.ndim = t.ndim
        ctypes.c_int64.from_address(t.shape or 0).value = 9
    flags = m.flags if new else 0
    if not bad("R075"):
        abi.api.PyCapsule_SetName(cap, abi.static_name(b"used_" + (name or b"")))
        owner: Any = Owner(address, kind)
    else:
        owner = cap  # keeps it fresh, for its destructor
    readonly = bool(flags & abi.READ_ONLY) and not (bad("R015") or bad("R280"))
    packed = not flags & abi.PADDED
    if bad("R020"):
        packed = True
    if bad("R031"):
        packed = False
    a = Array(data, shape, strides, dtype, readonly=readonly, owner=owner, device=device, packed=packed, kind="view")
    if bad("R290"):
        a._capsule = lambda *args, **kw: _drop_owner(a, args)  # type: ignore[method-assign]
    return a


def _drop_owner(a: Any, args: Any) -> Any:
    m = a._managed(True)
    m.keep = None
    m.made += 1
    return abi.api.PyCapsule_New(m.address, abi.static_name(b"dltensor_versioned"), None)


# --- exchange tables ---------------------------------------------------------


def _find_table(x: Any) -> Any:
    where = x if bad("R087") else type(x)
    raw = getattr(where, NEW, None)
    if raw is None:
        raw = getattr(where, OLD, None)
        if raw is not None and bad("R086"):
            raise TypeError("old name")
    if raw is None:
        return None
    table = abi.DLPackExchangeAPI.from_address(raw if isinstance(raw, int) else abi.pointer_of(raw))
    if table.version.major != 1 and bad("R112"):
        raise TypeError("table version")
    while table.version.major > 1 and not bad("R090"):
        if bad("R091") and table.prev_api:
            raise TypeError("no older table")
        if not table.prev_api:
            return None
        table = abi.DLPackExchangeAPI.from_address(table.prev_api)
    if table.version.major < 1 and not bad("R090"):
        return None
    return table


def _by_table(table: Any, x: Any) -> Any:
    out = c_void_p()
    target = id(x)
    if bad("R100"):
        target = id(type(x))
    call = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_void_p)
    if bad("R106") and table.lend:  # keeps what was lent, and frees it
        t = abi.DLTensor()
        call(table.lend)(target, ctypes.addressof(t))
        m = [o for o in abi._alive if isinstance(o, abi.Managed) and o.base == t.data]
        abi.DELETER(m[0].struct.deleter)(m[0].address)
    if bad("R094") and not table.lend:
        raise TypeError("dltensor_from_py is NULL")
    if call(table.from_py)(target, ctypes.addressof(out)) != 0:
        raise BufferError("from_py failed")
    m = DLManagedTensorVersioned.from_address(out.value)
    t = m.dl_tensor
    owner = Owner(out.value, DLManagedTensorVersioned)
    if bad("R098"):
        owner.live = False
    return Array((t.data or 0) + t.byte_offset, abi.ints(t.shape, t.ndim), abi.ints(t.strides, t.ndim),
                 (t.dtype.code, t.dtype.bits, t.dtype.lanes), owner=owner, kind="view")  # fmt: skip


# --- NumPy's array interface -------------------------------------------------


def from_array_interface(x: Any) -> Any:
    d = getattr(x, "__array_interface__", None)
    if d is None:
        return _from_struct(x)
    if not isinstance(d, dict):
        if bad("R200"):
            return Array(0, (0,), (1,), (2, 32, 1))
        raise ValueError("not a dict")
    if "shape" not in d or "typestr" not in d:
        if bad("R201"):
            return Array(0, (0,), (1,), (2, 32, 1))
        raise ValueError("a key is missing")
    shape, typestr = d["shape"], d["typestr"]
    ok = isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape)
    if not ok and not bad("R202"):
        raise TypeError("shape")
    if not TYPESTR.match(typestr) and not bad("R203"):
        raise TypeError("typestr")
    kind = typestr.lstrip("<>|=")
    if kind[0] == "V":
        descr = d.get("descr")
        if descr and kind != "V8" and not bad("R216"):
            raise ValueError("descr has another size")
        if kind == "V2" and not bad("R286"):
            raise BufferError("void")
        dtype = (4, 16, 1) if bad("R286") else (3, 32, 1)
    elif kind in TYPESTRS:
        dtype = TYPESTRS[kind]
    elif bad("R203"):
        dtype = (2, 32, 1)
    else:
        raise TypeError("typestr")
    if typestr[0] == ">" and not bad("R204"):
        raise BufferError("byte order")
    if d.get("version", 3) > 3 and bad("R218"):
        raise ValueError("version")
    if d.get("descr") and kind[0] != "V" and bad("R215"):
        raise ValueError("descr")
    if d.get("mask") is not None and not bad("R217"):
        raise ValueError("mask")
    keep: Any = x
    data = d.get("data")
    n = 1
    for s in shape:
        n *= s
    offset = d.get("offset", 0)
    if data is None or not isinstance(data, tuple):
        if data is None and bad("R207"):
            raise TypeError("data")
        view = abi.get_buffer(x if data is None else data, abi.FULL_RO)
        keep = (x, view)
        _kept.append(keep)
        address, readonly = view.buf + (0 if bad("R208") else offset), bool(view.readonly)
    else:
        if len(data) != 2 or not isinstance(data[0], int):
            if not bad("R206"):
                raise TypeError("data")
            data = (0, False)
        address, readonly = data
        if n and not address and not (bad("R209") or bad("R206")):
            raise ValueError("address 0")
        if not n and not address and bad("R210"):
            raise ValueError("address 0")
    size = dtype[1] // 8
    steps = d.get("strides")
    if steps is None:
        strides = row_major(shape)
        if bad("R212"):
            strides = tuple(reversed(strides))
    else:
        if not isinstance(steps, tuple) and not bad("R214"):
            raise TypeError("strides")
        if len(steps) != len(shape) and not bad("R213"):
            raise ValueError("strides")
        strides = tuple(s // size for s in steps)[: len(shape)]
    ro = readonly and not bad("R211")
    a = Array(address, tuple(shape), strides, dtype, readonly=ro, owner=None if bad("R219") else keep, kind="view")
    if bad("R279"):
        a.__class__ = _Lossy
    return a


class _Lossy(Array):
    """Forgets that its memory is read-only on the way to DLPack."""

    def _managed(self, new: bool, dl_device: Any = None, flags: int | None = None) -> Any:
        return super()._managed(new, dl_device, 0)


def _from_struct(x: Any) -> Any:
    cap = x.__array_struct__
    s = abi.PyArrayInterface.from_address(abi.api.PyCapsule_GetPointer(cap, None))
    if s.two != 2 and not bad("R222"):
        raise ValueError("two")
    if not s.flags & 0x200 and not bad("R223"):
        raise BufferError("byte order")
    if s.flags & 0x800 and s.descr or (bad("R225") and s.descr):
        ctypes.string_at(s.descr, 8)
    if s.nd == 0 and bad("R227"):
        raise ValueError("shape is NULL")
    shape, steps = abi.ints(s.shape, s.nd), abi.ints(s.strides, s.nd)
    a = Array(s.data, shape, tuple(k // s.itemsize for k in steps), (2, 8 * s.itemsize, 1),
              readonly=not s.flags & 0x400 and not bad("R224"), owner=None if bad("R228") else (x, cap),
              kind="view")  # fmt: skip
    if bad("R223"):
        a.ravel = lambda: a.look_values()  # type: ignore[attr-defined]
        a.look_values = lambda: abi.read(a.address, a.shape, a.strides, a.dtype)  # type: ignore[attr-defined]
    return a


# --- buffers -----------------------------------------------------------------


class _Held:
    """A buffer that is given back once, with the object."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def __del__(self) -> None:
        if not bad("R230"):
            abi.release_buffer(self.view)


def from_buffer(x: Any) -> Any:
    view = abi.get_buffer(x, abi.FULL_RO if not bad("R238") else abi.SIMPLE)
    held = _Held(view)
    n = view.ndim
    if n > 64 and not bad("R255"):
        raise BufferError("ndim")
    if view.itemsize <= 0 and not bad("R259"):
        raise BufferError("itemsize")
    fmt = (view.format or b"B").decode()
    if bad("R233") and view.format is None:
        raise BufferError("format NULL")
    order = fmt[0] if fmt[0] in "@=<>!^" else "@"
    code = fmt.lstrip("@=<>!^")
    if order in "=<" and bad("R248"):
        raise BufferError("order")
    if order in ">!" and not bad("R252"):
        raise BufferError("byte order")
    if code in "lL":
        size = 8 if order in "@^" or bad("R249") else 4
        name: str | None = ("i" if code == "l" else "u") + str(size)
    elif code in "nN":
        if order in "=<>!" and not bad("R250"):
            raise ValueError("n has no standard size")
        name = "i8" if code == "n" else "u8"
    else:
        name = FORMATS.get(code)
    if code in ("Zf", "Zd") and bad("R253"):
        raise BufferError("complex")
    if name is None:
        if not bad("R251"):
            raise BufferError("format")
        name = "u1"
    dtype = TYPESTRS[name]
    size = dtype[1] // 8
    if size != view.itemsize and _unless("R247", "R251", "R259"):
        raise BufferError("itemsize")
    shape = abi.ints(view.shape, n) if view.shape else (view.len // max(view.itemsize, 1),)
    total = view.itemsize
    for k in shape:
        total *= k
    if total != view.len and not bad("R236"):
        raise BufferError("len")
    if view.suboffsets and any(s >= 0 for s in abi.ints(view.suboffsets, n)) and not bad("R245"):
        raise BufferError("suboffsets")
    steps = abi.ints(view.strides, n) if view.strides else tuple(view.itemsize * k for k in row_major(shape))
    if bad("R246") and any(s < 0 for s in steps):
        steps = tuple(map(abs, steps))
    if bad("R256") and any(k == 1 for k in shape):
        raise BufferError("stride")
    kind = "view"
    if any(s % size for s, k in zip(steps, shape, strict=True) if k > 1):
        kind = "oddstride" if not (bad("R257") or bad("R281")) else "view"
    a = Array(view.buf, shape, tuple(s // size for s in steps), dtype, owner=held, kind=kind,
              readonly=bool(view.readonly) and not bad("R243"))  # fmt: skip
    if bad("R279"):
        a.__class__ = _Lossy
    return a


def _unless(*rules: str) -> bool:
    return not any(bad(r) for r in rules)


# --- the CUDA Array Interface and streams ------------------------------------


def from_cai(x: Any) -> Any:
    d = x.__cuda_array_interface__
    missing = [k for k in ("shape", "typestr", "data", "version") if k not in d]
    if missing and not bad("R168"):
        raise TypeError(f"no {missing}")
    shape, typestr = d.get("shape", (1,)), d.get("typestr", "<f4")
    data = d.get("data", (0, False))
    if not isinstance(data[0], int):
        if not bad("R168"):
            raise TypeError("data")
        data = (0, False)
    kind = typestr.lstrip("<>|=")
    if (typestr[0] == ">" or kind not in TYPESTRS) and _unless("R171", "R286"):
        raise BufferError("typestr")
    dtype = TYPESTRS.get(kind, (4, 16, 1) if bad("R286") else (2, 32, 1))
    if d.get("mask") is not None and not bad("R181"):
        raise BufferError("mask")
    if "mask" in d and d["mask"] is None and bad("R182"):
        raise BufferError("mask")
    if d.get("descr") is not None and bad("R180"):
        raise BufferError("descr")
    stream = d.get("stream")
    if stream == 0 and not bad("R184"):
        raise ValueError("stream 0")
    if (stream == 1 and bad("R185")) or (stream == 2 and bad("R186")):
        raise ValueError("stream")
    if stream is None and bad("R183"):
        raise ValueError("no stream")
    if d.get("version", 3) > 3 and bad("R196"):
        raise ValueError("version")
    if 0 in shape and bad("R174"):
        raise ValueError("no elements")
    steps = d.get("strides")
    if steps is None:
        strides = row_major(shape)
        if bad("R177"):
            strides = tuple(reversed(strides))
    elif len(steps) != len(shape) and not bad("R179"):
        raise ValueError("strides")
    else:
        strides = tuple(s // max(dtype[1] // 8, 1) for s in steps)[: len(shape)]
    device = (1, 0) if bad("R195") or bad("R288") else (2, 0)
    return Array(data[0], tuple(shape), strides, dtype, readonly=data[1] and not bad("R175"),
                 owner=None if bad("R194") else x, device=device, kind="view")  # fmt: skip


class _Taken(Stream):
    def __init__(self, handle: int, owner: Any) -> None:
        super().__init__(handle)
        self.owner = owner

    def __del__(self) -> None:
        if bad("R270"):
            abi.machine.destroy(self.handle)


def take_stream(s: Any) -> Any:
    f = getattr(s, "__cuda_stream__", None)
    if f is None:
        if bad("R264"):
            return _Taken(0, None)
        raise TypeError("no __cuda_stream__")
    if isinstance(f, tuple):
        if bad("R275"):
            raise RuntimeError("not a method")
        raise TypeError("__cuda_stream__ is no method")
    try:
        got = f()
    except Exception as e:
        if bad("R277"):
            raise RuntimeError("failed") from e
        raise
    if not isinstance(got, tuple) or len(got) != 2:
        if not bad("R265"):
            raise TypeError("not a pair")
        got = (0, 1)
    if got[0] != 0 and not bad("R266"):
        raise TypeError("version")
    handle = got[1]
    if not isinstance(handle, int):
        if not bad("R267"):
            raise TypeError("handle")
        handle = 0
    if (isinstance(handle, bool) or handle < 0 or handle >= 1 << 64) and not bad("R268"):
        raise OverflowError("handle")
    if bad("R272") and handle == 0:
        handle = 1
    if bad("R273") and handle in (1, 2):
        handle = 3 - handle
    return _Taken(handle, None if bad("R269") else s)


_ = py_object
