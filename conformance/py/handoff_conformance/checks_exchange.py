"""Checks of the C exchange table: offered by a type, and taken from one."""

from __future__ import annotations

import ctypes
import gc
from ctypes import c_int64, c_void_p
from pathlib import Path
from typing import Any

from . import abi
from .abi import Managed
from .checks_consumer import Producer, need
from .checks_producer import simple
from .core import Skip, Verdict, attempt, brief, check
from .targets import Target

NEW, OLD = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"


def table_of(t: Target) -> tuple[abi.DLPackExchangeAPI, Any]:
    """The table of the type of the target's arrays, and such an array."""
    x = simple(t)
    raw = getattr(type(x), NEW, None)
    if raw is None:
        raw = getattr(type(x), OLD, None)
    if raw is None:
        raise Skip("its arrays offer no exchange table")
    address = raw if isinstance(raw, int) else abi.pointer_of(raw)
    return abi.DLPackExchangeAPI.from_address(address), x


@check("exchange", "R085", "R088", "R089", "R092", "R093")
def table_form(t: Target, v: Verdict) -> None:
    """The attribute is a capsule of the right name on the type; the table has all its functions and stays."""
    table, x = table_of(t)
    raw = getattr(type(x), NEW, None)
    ok = type(raw).__name__ == "PyCapsule" and abi.name_of(raw) == b"dlpack_exchange_api"
    v.expect(ok, "R085", f"{NEW} is {type(raw).__name__}{' ' + repr(abi.name_of(raw)) if ok else ''}")
    first = bytes(table)
    address = ctypes.addressof(table)
    del raw, x
    gc.collect()
    again, _ = table_of(t)
    v.expect(ctypes.addressof(again) == address and bytes(again) == first, "R088", "the table moved or changed")
    v.expect(table.version.major >= 1, "R089", f"version {table.version.major}.{table.version.minor}")
    for name in ("allocator", "from_py", "to_py", "stream"):
        v.expect(bool(getattr(table, name)), "R093", f"{name} is NULL")
    pointers = [p for p in (table.allocator, table.from_py, table.to_py, table.lend, table.stream) if p]
    v.expect(all(_code(p) for p in pointers), "R089", "an entry is no address of code")
    prev = table.prev_api
    seen = set()
    while prev and prev not in seen:
        seen.add(prev)
        older = abi.DLPackExchangeAPI.from_address(prev)
        v.expect(older.version.major < table.version.major, "R092", "prev_api is no older table")
        prev = older.prev_api
    v.expect(prev not in seen or not prev, "R092", "prev_api goes in a circle")


def _code(address: int) -> bool:
    """Whether the address lies in an executable mapping."""
    with Path("/proc/self/maps").open() as maps:
        for line in maps:
            span, mode = line.split()[:2]
            if "x" in mode:
                lo, hi = (int(a, 16) for a in span.split("-"))
                if lo <= address < hi:
                    return True
    return False


@check("exchange", "R095", "R111", "R107", "R101")
def table_export(t: Target, v: Verdict) -> None:
    """The two functions that describe an array: results, strides, who owns the lists, failures."""
    table, _ = table_of(t)
    out = c_void_p()
    for dtype, shape, layout in (
        ("float32", (2, 3), "C"),
        ("float32", (6,), "C"),
        ("float32", (2, 3), "sliced"),
        ("float32", (), "C"),
    ):
        x, err = attempt(t.array, dtype, shape, layout)
        if err is not None:
            continue
        v.input(f"from_py {shape} {layout}")
        code = abi.FROM_PY(table.from_py)(x, ctypes.addressof(out))
        if not v.expect(code in (0, -1), "R095", f"returned {code}") or code != 0:
            v.expect(code == 0, "R095", "failed without an exception")
            continue
        m = abi.DLManagedTensorVersioned.from_address(out.value)
        v.expect(not m.dl_tensor.ndim or bool(m.dl_tensor.strides), "R111", "strides NULL")
        v.expect(abi.ints(m.dl_tensor.shape, m.dl_tensor.ndim) == shape, "R095", "wrong shape")
        if m.deleter:
            abi.DELETER(m.deleter)(out.value)
        if table.lend:
            v.input(f"dltensor_from_py {shape} {layout}")
            a, b = abi.DLTensor(), abi.DLTensor()
            abi.FROM_PY(table.lend)(x, ctypes.addressof(a))
            abi.FROM_PY(table.lend)(x, ctypes.addressof(b))
            v.expect(a.shape == b.shape and a.strides == b.strides, "R107", "each call has lists of its own")
            v.expect(not a.ndim or bool(a.strides), "R111", "strides NULL")
            v.expect(abi.ints(a.shape, a.ndim) == shape, "R107", f"shape {abi.ints(a.shape, a.ndim)}")
    if not table.lend:
        v.skip("R107", "dltensor_from_py is NULL")
    bad, err = attempt(t.special, "unexportable")
    if err is not None or callable(bad):
        v.skip("R101", "no array that cannot be described")
    else:
        code, err = attempt(abi.FROM_PY(table.from_py), bad, ctypes.addressof(out))
        v.expect(isinstance(err, BufferError), "R101", f"returned {code}, {err and brief(err)}")


@check("exchange", "R096", "R097", "R095")
def table_allocator(t: Target, v: Verdict) -> None:
    """The allocator: reads four fields only, and reports a failure by SetError alone."""
    table, _ = table_of(t)
    if not table.allocator:
        raise Skip("allocator is NULL")
    calls: list[tuple[bytes, bytes]] = []

    @abi.SET_ERROR
    def set_error(ctx: int, kind: bytes, message: bytes) -> None:
        calls.append((kind, message))

    run = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_void_p, c_void_p)(table.allocator)
    shape = (c_int64 * 2)(2, 3)
    p = abi.DLTensor(0x1, abi.DLDevice(1, 0), 2, abi.DLDataType(2, 32, 1), ctypes.addressof(shape), 0x8, 1 << 60)
    out = c_void_p()
    pe = ctypes.cast(set_error, c_void_p)
    v.input("prototype with wild data, strides and byte_offset")
    code, err = attempt(run, ctypes.addressof(p), ctypes.addressof(out), None, pe)
    v.expect(err is None, "R097", f"a Python exception was left behind: {err and brief(err)}")
    if code == 0:
        m = abi.DLManagedTensorVersioned.from_address(out.value)
        ok = abi.ints(m.dl_tensor.shape, m.dl_tensor.ndim) == (2, 3) and m.dl_tensor.data not in (None, 1)
        v.expect(ok, "R096", "the tensor is not the one of the prototype")
        v.expect(not calls, "R097", "SetError was called and 0 returned")
        if m.deleter:
            abi.DELETER(m.deleter)(out.value)
    elif err is None:
        v.expect(code == -1, "R095", f"returned {code}")
        v.expect(len(calls) == 1, "R097", f"returned -1, and SetError was called {len(calls)} times")
        v.note(f"the allocator refuses: {calls[:1]}")
    calls.clear()
    huge = (c_int64 * 2)(1 << 40, 1 << 20)
    p.shape = ctypes.addressof(huge)
    v.input("a prototype of 2**62 bytes")
    code, err = attempt(run, ctypes.addressof(p), ctypes.addressof(out), None, pe)
    v.expect(err is None, "R097", f"a Python exception was left behind: {err and brief(err)}")
    if err is None:
        v.expect(code == -1, "R095", f"returned {code}")
        v.expect(len(calls) == 1, "R097", f"SetError was called {len(calls)} times")


@check("exchange", "R104")
def table_import(t: Target, v: Verdict) -> None:
    """to_py owns the tensor and gives a new reference."""
    table, _ = table_of(t)
    m = Managed(version=(1, 3))
    out = c_void_p()
    v.input("to_py float32 (2, 3)")
    code, err = attempt(abi.TO_PY(table.to_py), m.address, ctypes.addressof(out))
    if not v.expect(err is None and code == 0, "R104", f"returned {code}, {err and brief(err)}"):
        return
    obj = ctypes.cast(out.value, ctypes.py_object).value
    abi.api.Py_DecRef(ctypes.py_object(obj))  # the reference that we were given
    got, err = attempt(t.look, obj)
    v.expect(got is None or got.address == m.base, "R104", "the object has other memory")
    v.expect(m.deleted == 0, "R104", "the tensor was released while the object lives")
    del obj, got
    gc.collect()
    v.expect(m.deleted == 1 and not m.wrong, "R104", f"the deleter ran {m.deleted} times")


@check("exchange", "R108", "R109")
def table_stream(t: Target, v: Verdict) -> None:
    """The current stream of the CPU is NULL; that of a GPU is a raw handle."""
    table, _ = table_of(t)
    out = c_void_p(0x5A5A)
    code, err = attempt(abi.STREAM(table.stream), 1, 0, ctypes.addressof(out))
    v.input("current_work_stream of the CPU")
    if v.expect(err is None and code == 0, "R109", f"returned {code}, {err and brief(err)}"):
        v.expect(out.value is None, "R109", f"wrote {out.value}")
        v.expect(
            out.value is None or out.value not in ((1 << 64) - 1,),
            "R108",
            f"wrote {out.value:#x}" if out.value else "",
        )


@check("exchange", "R113")
def table_null_arguments(t: Target, v: Verdict) -> None:
    """NULL for the out pointer or SetError: outside the contract, and a robust table checks."""
    table, x = table_of(t)
    v.input("allocator, SetError NULL, absurd size")
    huge = (c_int64 * 2)(1 << 40, 1 << 20)
    p = abi.DLTensor(None, abi.DLDevice(1, 0), 2, abi.DLDataType(2, 32, 1), ctypes.addressof(huge), None, 0)
    out = c_void_p()
    run = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, c_void_p, c_void_p)(table.allocator)
    attempt(run, ctypes.addressof(p), ctypes.addressof(out), None, None)
    v.input("from_py, out NULL")
    attempt(abi.FROM_PY(table.from_py), x, None)


# --- taken from a type -------------------------------------------------------


class Table:
    """An exchange table whose functions are Python methods."""

    def __init__(self, version: tuple[int, int] = (1, 3), *, lend: bool = True, prev: Table | None = None) -> None:
        self.calls: list[str] = []
        self.managed: list[Managed] = []
        self.objects: list[int] = []
        self._f = {
            "from_py": abi.FROM_PY_RAW(self._from_py),
            "to_py": abi.TO_PY(lambda tensor, out: -1),
            "lend": abi.FROM_PY_RAW(self._lend),
            "stream": abi.STREAM(self._stream),
            "allocator": abi.ALLOCATE(lambda *a: -1),
        }
        self.struct = abi.DLPackExchangeAPI(abi.DLPackVersion(*version))
        for name, f in self._f.items():
            if name != "lend" or lend:
                setattr(self.struct, name, ctypes.cast(f, c_void_p).value)
        if prev is not None:
            self.struct.prev_api = ctypes.addressof(prev.struct)
        self.address = ctypes.addressof(self.struct)
        self.capsule = abi.api.PyCapsule_New(self.address, abi.static_name(b"dlpack_exchange_api"), None)
        abi._alive.append(self)

    def _from_py(self, obj: int, out: int) -> int:
        self.calls.append("from_py")
        self.objects.append(obj)
        self.managed.append(Managed(version=(1, 3)))
        c_void_p.from_address(out).value = self.managed[-1].address
        return 0

    def _lend(self, obj: int, out: int) -> int:
        self.calls.append("lend")
        self.objects.append(obj)
        self.managed.append(Managed(version=(1, 3)))
        ctypes.memmove(out, ctypes.addressof(self.managed[-1].struct.dl_tensor), 48)
        return 0

    def _stream(self, kind: int, ordinal: int, out: int) -> int:
        c_void_p.from_address(out).value = None
        return 0


def _object(table: Table | None, **more: Any) -> Any:
    """An object with a table on its type and the methods on top."""
    cls = type("Tensor", (Producer,), dict(more) if table is None else {NEW: table.capsule, **more})
    return cls(Managed())


def _takes_tables(t: Target) -> None:
    need(t)
    known = getattr(t, "_takes_tables", None)
    if known is None:
        table = Table()
        r, err = attempt(t.from_dlpack, _object(table))
        known = t._takes_tables = bool(table.calls)
        del r
    if not known:
        raise Skip("does not use exchange tables")


@check("exchange", "R094", "R100", "R106", "R098")
def takes_table(t: Target, v: Verdict) -> None:
    """A table is used for its own objects only; a lent tensor is not freed, an owned one once."""
    _takes_tables(t)
    for lend in (True, False):
        table = Table(lend=lend)
        x = _object(table)
        v.input("a table" + ("" if lend else ", dltensor_from_py NULL"))
        r, err = attempt(t.from_dlpack, x)
        v.expect(err is None, "R094", f"raised {err and brief(err)}")
        v.expect(all(o == id(x) for o in table.objects), "R100", "called with another object")
        if lend and table.calls == ["lend"]:
            v.expect(table.managed[0].deleted == 0, "R106", "a lent tensor was freed")
        if not lend and not x.calls:
            v.expect("from_py" in table.calls, "R094", f"called {table.calls}")
        owned = [m for m, c in zip(table.managed, table.calls, strict=True) if c == "from_py"]
        lent = [m for m, c in zip(table.managed, table.calls, strict=True) if c == "lend"]
        del r, err
        gc.collect()
        v.expect(
            all(m.deleted == 1 for m in owned),
            "R098",
            f"owned tensors were freed {[m.deleted for m in owned]} times",
        )
        v.expect(all(m.deleted == 0 for m in lent), "R106", "a lent tensor was freed")


@check("exchange", "R086", "R087", "R090", "R091", "R112")
def finds_table(t: Target, v: Verdict) -> None:
    """Both names and forms, on the type only; another major version is not used."""
    _takes_tables(t)
    for name, form in ((OLD, "capsule"), (OLD, "int"), (NEW, "int")):
        table = Table()
        x = _object(None, **{name: table.capsule if form == "capsule" else table.address})
        v.input(f"{name} as {form}")
        r, err = attempt(t.from_dlpack, x)
        if err is not None or (not table.calls and not x.calls):
            v.expect(False, "R086", f"raised {err and brief(err)}")
        elif not table.calls:
            v.note(f"{name} as {form} is not used")
        del r, err
    table = Table()
    x = Producer(Managed())
    setattr(x, NEW, table.capsule)
    v.input("the attribute on the instance")
    r, err = attempt(t.from_dlpack, x)
    v.expect(not table.calls, "R087", "was looked up on the instance")
    del r, err
    for version in ((2, 0), (0, 9)):
        table = Table(version)
        x = _object(table)
        v.input(f"table of version {version}")
        r, err = attempt(t.from_dlpack, x)
        v.expect(not table.calls, "R090", "the table was used")
        v.expect(bool(x.calls) or bool(table.calls), "R112", f"__dlpack__ was not used: {err and brief(err)}")
        del r, err
    old = Table()
    x = _object(Table((2, 0), prev=old))
    v.input("version 2.0 with prev_api of 1.3")
    r, err = attempt(t.from_dlpack, x)
    v.expect(err is None and (bool(old.calls) or bool(x.calls)), "R091", f"raised {err and brief(err)}")
    if not old.calls:
        v.note("does not walk prev_api, which it may leave")
    del r, err
