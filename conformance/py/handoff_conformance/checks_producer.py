"""Checks of what a library exports by DLPack: structs, capsules, `__dlpack__`."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from ctypes import c_void_p
from pathlib import Path
from typing import Any

from . import abi, native
from .core import Skip, Verdict, attempt, brief, check
from .targets import Module, Target, Unsupported

SHAPE = (2, 3)


def simple(t: Target, v: Verdict | None = None) -> Any:
    """Some array that the target can make, row-major if it can."""
    for dtype, shape in (("float32", (2, 3)), ("float32", (6,)), ("float64", (2, 3)), ("bfloat16", (2, 3))):
        x, err = attempt(t.array, dtype, shape)
        if err is None:
            if v:
                v.input(f"{dtype} {shape}")
            return x
        if not isinstance(err, Unsupported):
            raise err
    if isinstance(t, Module):
        return t.any()
    raise Skip("makes no arrays")


def exports(t: Target) -> Any:
    x = simple(t)
    if not hasattr(x, "__dlpack__"):
        raise Skip("its arrays have no __dlpack__")
    return x


def versioned(x: Any, **kw: Any) -> abi.Export:
    """An export to a consumer that knows version 1.3."""
    cap, err = attempt(x.__dlpack__, max_version=(1, 3), **kw)
    if isinstance(err, TypeError):
        cap, err = attempt(x.__dlpack__, **kw)
    if err is not None:
        raise err
    return abi.Export(cap)


def layouts(t: Target, dtype: str = "float32") -> list[tuple[str, tuple[int, ...], Any]]:
    """Arrays of every layout that the target has."""
    out = []
    cases = [("C", (2, 3)), ("C", (6,)), ("C", ()), ("F", (2, 3)), ("sliced", (2, 3)), ("sliced", (3,)),
             ("reversed", (2, 3)), ("reversed", (4,)), ("broadcast", (3, 2)), ("C", (2, 1, 3)), ("C", (1,)),
             ("C", (0, 3)), ("readonly", (4,))]  # fmt: skip
    for layout, shape in cases:
        x, err = attempt(t.array, dtype, shape, layout)
        if err is None and layout in ("readonly", "broadcast") and isinstance(attempt(versioned, x)[1], BufferError):
            continue  # who has no form that can say so refuses (R057)
        if err is None and hasattr(x, "__dlpack__"):
            out.append((layout, shape, x))
        elif err is not None and not isinstance(err, Unsupported):
            raise err
    if not out and isinstance(t, Module):
        x = t.any()
        if hasattr(x, "__dlpack__"):
            out.append(("C", (), x))
    if not out:
        raise Skip("makes no arrays of this type that export DLPack")
    return out


def expected(dtype: str, shape: tuple[int, ...], layout: str) -> list[Any]:
    n = 1
    for s in shape:
        n *= s
    values: list[Any] = list(range(n))
    if layout == "broadcast":
        row = n // shape[0] if shape[0] else 0
        values = values[:row] * shape[0]
    if dtype == "bool":
        return [bool(x % 2) for x in values]
    if dtype.startswith("complex"):
        return [complex(x) for x in values]
    return values


@check("producer", "R001", "R003", "R004", "R005", "R048", "R039")
def export_layouts(t: Target, v: Verdict) -> None:
    """Versioned exports of every layout, read field by field with the offsets of the header."""
    some = False
    for layout, shape, x in layouts(t):
        v.input(f"float32 {shape} {layout}")
        e = versioned(x)
        if not e.versioned:
            for r in ("R003",):
                v.skip(r, "exports no versioned tensors")
        else:
            v.expect(
                e.version is not None and e.version[0] == 1 and e.version[1] < 100,
                "R003",
                f"version {e.version}",
            )
        some = True
        if isinstance(t, Module):
            v.expect(0 <= e.t.ndim <= 64, "R001", f"ndim {e.t.ndim}")
            continue
        v.expect(e.t.ndim == len(shape) and e.shape == shape, "R001", f"shape {e.shape}, ndim {e.t.ndim}")
        v.expect(0 < e.device[0] < 100 and 0 <= e.device[1] < 1000, "R004", f"device {e.device}")
        v.expect(e.dtype == (2, 32, 1), "R005", f"dtype {e.dtype}")
        if 0 in shape or e.shape != shape or e.dtype != (2, 32, 1) or not abi.readable(e.device[0]):
            continue
        want = expected("float32", shape, layout)
        steps = abi.ints(e.t.strides, e.t.ndim) if e.t.strides else ()
        if steps and max(map(abs, steps)) >= 4 * max(2 * max(shape) + 1, 12):
            v.expect(False, "R048", f"strides {steps} look like bytes")
            continue
        v.expect(e.strides is not None and e.values() == want, "R048" if steps and layout != "C" else "R039",
                 f"values {e.values()[:6]} with strides {e.strides}")  # fmt: skip
    if not some:
        raise Skip("no arrays")


@check("producer", "R002", "R071", "R116", "R084")
def export_unversioned(t: Target, v: Verdict) -> None:
    """Without max_version: an unversioned capsule, or BufferError."""
    x = exports(t)
    v.input("__dlpack__()")
    cap, err = attempt(x.__dlpack__)
    if err is not None:
        v.expect(isinstance(err, BufferError), "R116", f"raised {brief(err)}")
        v.skip("R002", "refuses the unversioned form")
        v.skip("R071", "refuses the unversioned form")
        return
    e = abi.Export(cap)
    v.expect(e.name != b"dltensor_versioned", "R084", "returned a dltensor_versioned capsule")
    v.expect(e.name in (b"dltensor", b"dltensor_versioned"), "R071", f"capsule name {e.name!r}")
    if e.name == b"dltensor":
        sane = 0 <= e.t.ndim <= 64 and 0 < e.t.device.device_type < 100 and e.t.dtype.lanes >= 1
        v.expect(sane, "R002", f"ndim {e.t.ndim}, device {e.device}, dtype {e.dtype}")
    v.expect(e.name == b"dltensor", "R116", f"capsule name {e.name!r}")


@check("producer", "R114", "R115", "R117", "R118", "R119", "R120", "R072", "R006")
def export_negotiation(t: Target, v: Verdict) -> None:
    """max_version from nothing to far in the future, and malformed ones."""
    x = exports(t)
    v.input("all four keywords as None")
    cap, err = attempt(x.__dlpack__, stream=None, max_version=None, dl_device=None, copy=None)
    readonly = isinstance(err, BufferError)
    if not v.expect(err is None or readonly, "R114", f"raised {err and brief(err)}"):
        v.skip("R117", "does not know max_version")
        v.skip("R118", "does not know max_version")
        v.skip("R119", "does not know max_version")
        v.skip("R120", "does not know max_version")
        v.skip("R072", "does not know max_version")
        v.skip("R006", "does not know max_version")
    if err is None:
        name = abi.name_of(cap) if type(cap).__name__ == "PyCapsule" else None
        v.expect(name in (b"dltensor", b"dltensor_versioned"), "R115", f"returned {type(cap).__name__} {name!r}")
    if "R114" in v.broken:
        return
    for version, rule in (((1, 3), "R117"), ((1, 99), "R117"), ((2, 0), "R117"), ((1, 0), "R118")):
        v.input(f"max_version={version}")
        cap, err = attempt(x.__dlpack__, max_version=version)
        if not v.expect(err is None, rule, f"raised {err and brief(err)}"):
            continue
        name = abi.name_of(cap)
        v.expect(name == b"dltensor_versioned", rule, f"capsule {name!r}")
        v.expect(name in (b"dltensor", b"dltensor_versioned"), "R072", f"capsule {name!r}")
        if name == b"dltensor_versioned":
            e = abi.Export(cap)
            v.expect(e.version is not None and e.version[0] == 1, "R006", f"wrote version {e.version}")
            v.note(f"max_version={version} gives version {e.version}")
        else:
            v.skip("R006", "writes no version")
    v.input("max_version=(0, 8)")
    cap, err = attempt(x.__dlpack__, max_version=(0, 8))
    if err is None:
        v.expect(abi.name_of(cap) == b"dltensor", "R119", f"capsule {abi.name_of(cap)!r}")
    else:
        v.expect(isinstance(err, BufferError), "R119", f"raised {brief(err)}")
    for bad in ("1.0", (1,), 1, (1, 0, 0), ("1", "0")):
        v.input(f"max_version={bad!r}")
        cap, err = attempt(x.__dlpack__, max_version=bad)
        v.expect(isinstance(err, TypeError), "R120", f"{'accepted' if err is None else 'raised ' + brief(err)}")


@check("producer", "R049", "R013", "R019", "R152", "R151", "R036", "R056", "R070", "R165")
def export_fields(t: Target, v: Verdict) -> None:
    """Flags, strides and device of plain exports; two exports of one array; the array afterwards."""
    for layout, shape, x in layouts(t):
        v.input(f"{shape} {layout}")
        e = versioned(x)
        if e.device[0] in (1, 3, 11, 13):
            v.expect(e.device[1] == 0, "R036", f"device {e.device}")
        if e.versioned:
            v.expect(not e.flags & ~7, "R013", f"flags {e.flags:#x}")
            if e.version and e.version >= (1, 2) and e.t.ndim:
                v.expect(bool(e.t.strides), "R049", f"strides NULL, version {e.version}")
        else:
            v.skip("R013", "no versioned export")
            v.skip("R049", "no versioned export")
        n = 1
        for s in e.shape:
            n *= s
        f = versioned(x)
        if n and abi.readable(e.device[0]):
            shared = e.data == f.data
            v.expect(not (shared and e.flags & abi.IS_COPIED), "R019", "shared memory is flagged IS_COPIED")
            if not shared and e.versioned:
                v.expect(bool(e.flags & abi.IS_COPIED), "R152", "copied, and IS_COPIED is not set")
            before = e.values()
            shape_at, values = e.t.shape, e.shape
            v.expect(e.address != f.address, "R070", "two exports are one struct")
            if e.address != f.address:
                f.consume()
                del f
                junk = [bytearray(64) for _ in range(256)]
                gc.collect()
                ok = e.t.shape == shape_at and e.shape == values
                v.expect(ok, "R056", f"shape was {values}, is {e.shape}")
                v.expect(e.values() == before, "R070", f"values {before[:4]} became {e.values()[:4]}")
                del junk
            g = versioned(x)
            v.expect(g.values() == before and g.shape == values, "R165", "the array changed by being exported")
            del g
        cap, err = attempt(x.__dlpack__, max_version=(1, 3), copy=False)
        if isinstance(err, TypeError):
            v.skip("R151", "does not know copy")
        elif err is not None:
            v.expect(isinstance(err, BufferError), "R151", f"copy=False raised {brief(err)}")
        elif n:
            c = abi.Export(cap)
            v.expect(c.data == e.data, "R151", "copy=False copied")
        del e, cap


@check("producer", "R017", "R150")
def export_copy(t: Target, v: Verdict) -> None:
    """copy=True: fresh memory with the same values, flagged IS_COPIED."""
    x = exports(t)
    v.input("copy=True")
    cap, err = attempt(x.__dlpack__, max_version=(1, 3), copy=True)
    if isinstance(err, TypeError):
        raise Skip("does not know copy")
    if err is not None:
        v.expect(isinstance(err, BufferError), "R150", f"raised {brief(err)}")
        v.skip("R017", "makes no copies")
        v.note("copy=True is refused with BufferError, which the rule allows")
        return
    c, e = abi.Export(cap), versioned(x)
    v.expect(c.data != e.data, "R150", "the memory is shared")
    v.expect(c.values() == e.values(), "R150", f"values {c.values()[:4]}")
    if c.versioned:
        v.expect(bool(c.flags & abi.IS_COPIED) or c.data == e.data, "R017", "IS_COPIED is not set")
    else:
        v.skip("R017", "an unversioned export has no flags")


@check("producer", "R014", "R057")
def export_readonly(t: Target, v: Verdict) -> None:
    """An array that must not be written: flag bit 0, and no unversioned export."""
    x = t.array("float32", (4,), "readonly") if not isinstance(t, Module) else None
    if x is None or not hasattr(x, "__dlpack__"):
        raise Skip("no read-only arrays")
    v.input("read-only float32 (4,)")
    e, err = attempt(versioned, x)
    if isinstance(err, BufferError):
        v.skip("R014", "refuses to export read-only memory")
        return
    if err is not None:
        raise err
    if e.versioned:
        v.expect(bool(e.flags & abi.READ_ONLY) or bool(e.flags & abi.IS_COPIED), "R014", f"flags {e.flags:#x}")
    else:
        v.expect(False, "R014", "exported without a flag that says so")
    cap, err = attempt(x.__dlpack__)
    v.expect(isinstance(err, BufferError), "R057", f"{'exported' if err is None else 'raised ' + brief(err)}")


_DTYPES = {
    "R024": {"bool": (6, 8, 1)},
    "R025": {"complex64": (5, 64, 1), "complex128": (5, 128, 1)},
    "R026": {"bfloat16": (4, 16, 1)},
    "R022": {"float6_e2m3fn": (15, 6, 1), "float6_e3m2fn": (16, 6, 1)},
    "R023": {"float4_e2m1fn": (17, 4, 1)},
    "R007": {
        "float8_e3m4": (7, 8, 1), "float8_e4m3": (8, 8, 1), "float8_e4m3b11fnuz": (9, 8, 1),
        "float8_e4m3fn": (10, 8, 1), "float8_e4m3fnuz": (11, 8, 1), "float8_e5m2": (12, 8, 1),
        "float8_e5m2fnuz": (13, 8, 1), "float8_e8m0fnu": (14, 8, 1),
    },
    "R289": {"bool": (6, 8, 1)},
}  # fmt: skip


def _dtype_check(rule: str) -> Any:
    def run(t: Target, v: Verdict) -> None:
        done = False
        for dtype, want in _DTYPES[rule].items():
            x, err = attempt(t.array, dtype, (8,))
            if err is not None or not hasattr(x, "__dlpack__"):
                continue
            v.input(dtype)
            e, err = attempt(versioned, x)
            if err is not None:
                v.note(f"{dtype} is refused: {brief(err)}")
                continue
            done = True
            lanes2 = rule == "R023" and e.dtype == (17, 4, 2)
            v.expect(
                e.dtype == want or lanes2 or (rule == "R007" and e.dtype[0] == want[0]),
                rule,
                f"dtype {e.dtype}",
            )
            if rule == "R007":
                if e.versioned:
                    v.expect(e.version is not None and e.version >= (1, 1), rule, f"{dtype} in version {e.version}")
            elif rule == "R025" and e.dtype == want:
                v.expect(e.values() == [complex(i) for i in range(8)], rule, f"values {e.values()[:3]}")
            elif rule == "R024" and e.dtype == want:
                v.expect([int(b) for b in e.values()] == [0, 1] * 4, rule, f"values {e.values()}")
        if not done:
            raise Skip("exports no such element type")

    run.__doc__ = f"The (code, bits, lanes) of {', '.join(_DTYPES[rule])}."
    run.__name__ = f"export_dtype_{rule}"
    check("producer", rule)(run)
    return run


for _rule in _DTYPES:
    _dtype_check(_rule)


@check("producer", "R020", "R021", "R031")
def export_subbyte(t: Target, v: Verdict) -> None:
    """4- and 6-bit elements: packed, or flagged as padded."""
    done = False
    seen = set()
    for dtype in ("float4_e2m1fn", "float6_e2m3fn", "int4", "uint4"):
        x, err = attempt(t.array, dtype, (8,))
        if err is not None or not hasattr(x, "__dlpack__"):
            continue
        e, err = attempt(versioned, x)
        if err is not None:
            v.note(f"{dtype} is refused: {brief(err)}")
            continue
        v.input(dtype)
        if e.dtype[1] * e.dtype[2] >= 8:
            v.note(f"{dtype} leaves as {e.dtype}")
            continue
        done = True
        raw = abi.peek(e.data, 4)
        bits = 2 if dtype.startswith("float4") else 1  # the encoding of 1.0 is 0b0010, of 1 is 1
        padded_bytes = bytes([0, bits, 0, bits]) if "float" in dtype else bytes([0, 1, 2, 3])
        if e.dtype[1] == 6:
            padded_bytes = bytes([0, 8, 0, 8])
        if e.flags & abi.PADDED:
            v.expect(raw == padded_bytes, "R020", f"bytes {raw.hex()} are not padded elements")
            seen.add("padded")
            cap, err = attempt(x.__dlpack__)
            v.expect(isinstance(err, BufferError) or (err is None and _repacked(cap, padded_bytes)), "R021",
                     "exported padded data unversioned" if err is None else brief(err))  # fmt: skip
        else:
            v.expect(raw != padded_bytes, "R020", f"bytes {raw.hex()} are padded, and the flag is not set")
            seen.add("packed")
            packed = sum(b << (i * e.dtype[1]) for i, b in enumerate(padded_bytes))
            width = 4 * e.dtype[1] // 8
            v.expect(
                raw == padded_bytes or raw[:width] == packed.to_bytes(width, "little"),
                "R031", f"bytes {raw.hex()}",
            )  # fmt: skip
    if not done:
        raise Skip("exports no elements below a byte")
    if "padded" not in seen:
        v.skip("R021", "exports packed elements only")
    if "packed" not in seen:
        v.skip("R031", "exports padded elements only")


def _repacked(cap: Any, padded: bytes) -> bool:
    e = abi.Export(cap)
    return not e.versioned and abi.peek(e.data, 4) != padded


def _special(t: Target, v: Verdict, kind: str, rule: str) -> None:
    x = t.special(kind)
    v.input(kind)
    if callable(x) and not hasattr(x, "__dlpack__"):  # made on demand: the refusal may come there
        x, err = attempt(x)
        if err is not None:
            v.expect(isinstance(err, (BufferError, NotImplementedError)), rule, f"raised {brief(err)}")
            return
    if not hasattr(x, "__dlpack__"):
        return
    cap, err = attempt(x.__dlpack__, max_version=(1, 3))
    if isinstance(err, TypeError):
        cap, err = attempt(x.__dlpack__)
    if err is None and kind == "oddstride":
        e = abi.Export(cap)
        v.expect(bool(e.flags & abi.IS_COPIED), rule, f"exported with strides {e.strides}")
        return
    v.expect(isinstance(err, BufferError), rule, f"{'exported' if err is None else 'raised ' + brief(err)}")


@check("producer", "R030", "R291")
def export_byteorder(t: Target, v: Verdict) -> None:
    """An array of the other byte order is refused."""
    _special(t, v, "byteorder", "R030")
    if "R030" in v.broken:
        v.broken["R291"] = v.broken["R030"]


@check("producer", "R058", "R281")
def export_oddstride(t: Target, v: Verdict) -> None:
    """Byte strides that are no multiple of the item size are refused (or copied)."""
    _special(t, v, "oddstride", "R058")
    if "R058" in v.broken:
        v.broken["R281"] = v.broken["R058"]


@check("producer", "R157", "R285")
def export_unexportable(t: Target, v: Verdict) -> None:
    """What DLPack cannot describe gives BufferError."""
    _special(t, v, "unexportable", "R157")
    if any("exported" in w for w in v.broken.get("R157", ())):
        v.broken["R285"] = v.broken["R157"]


@check("producer", "R040")
def export_alignment(t: Target, v: Verdict) -> None:
    """data is a multiple of 256, with the rest in byte_offset."""
    for layout, shape, x in layouts(t):
        e = versioned(x)
        if e.device[0] not in (1, 2, 10) or 0 in e.shape:
            continue
        v.input(f"{shape} {layout}")
        v.expect((e.t.data or 0) % 256 == 0, "R040", f"data is {(e.t.data or 0) % 256} above a multiple of 256")


@check("producer", "R043")
def export_empty(t: Target, v: Verdict) -> None:
    """An array without elements has data NULL."""
    for shape in ((0, 3), (0,), (2, 0, 3)):
        x, err = attempt(t.array, "float32", shape)
        if err is not None or not hasattr(x, "__dlpack__"):
            raise Skip("makes no empty arrays")
        v.input(str(shape))
        e = versioned(x)
        v.expect(not e.t.data, "R043", f"data {e.t.data or 0:#x}")


def _leaks(t: Target, kw: dict[str, Any]) -> bool:
    """Whether dropping fresh capsules of large arrays keeps their memory."""

    def resident() -> int:
        with Path("/proc/self/statm").open() as f:
            return int(f.read().split()[1]) * abi.PAGE

    def rounds(n: int) -> None:
        for _ in range(n):
            x, err = attempt(t.array, "float32", (2000,))
            for _ in range(40):
                if err is None:
                    x.__dlpack__(**kw)
        gc.collect()

    if sys.platform != "linux":
        return False
    rounds(20)
    before = resident()
    rounds(400)
    return resident() - before > 400 * 2000 * 4 // 2


@check("producer", "R077", "R078", "R059", "R060")
def capsule_destructor(t: Target, v: Verdict) -> None:
    """A dropped capsule frees once if fresh, not at all if taken; a NULL deleter is not called."""
    x = exports(t)
    for kw in ({}, {"max_version": (1, 3)}):
        cap, err = attempt(x.__dlpack__, **kw)
        if err is not None:
            continue
        v.input(f"capsule of __dlpack__({', '.join(f'{k}={a}' for k, a in kw.items())})")
        e = abi.Export(cap)
        calls: list[int] = []
        real, address, struct = e.struct.deleter, e.address, e.struct

        @abi.DELETER
        def counting(a: int, calls: list[int] = calls) -> None:
            calls.append(a)

        abi._alive.append(counting)
        struct.deleter = ctypes.cast(counting, c_void_p).value
        del e, cap
        gc.collect()
        if not calls:
            # Some free without going through the field; then nothing leaks.
            v.expect(
                not _leaks(t, kw),
                "R077",
                "the deleter was not called when the fresh capsule died, and memory leaks",
            )
            v.note("frees a fresh capsule without calling the deleter field")
        v.expect(len(calls) <= 1 and calls in ([], [address]), "R060", f"the deleter was called {len(calls)} times")
        if calls:
            struct.deleter = real
            if real:
                abi.DELETER(real)(address)
        # Taken: the name says so, nothing may happen.
        e = abi.Export(x.__dlpack__(**kw))
        address, real, struct = e.address, e.struct.deleter, e.struct
        calls.clear()
        struct.deleter = ctypes.cast(counting, c_void_p).value
        abi.api.PyCapsule_SetName(e.capsule, abi.static_name(b"used_" + (e.name or b"")))
        del e
        gc.collect()
        v.expect(not calls, "R078", "the destructor of a taken capsule called the deleter")
        struct.deleter = real
        if real and not calls:
            abi.DELETER(real)(address)
        # No deleter: the destructor has nothing to call. A call of NULL ends the process.
        e = abi.Export(x.__dlpack__(**kw))
        v.input("a capsule whose deleter is NULL, dropped", "R059")
        real, e.struct.deleter = e.struct.deleter, None
        del e
        gc.collect()


@check("producer", "R074")
def capsule_name_storage(t: Target, v: Verdict) -> None:
    """The name of a capsule has static storage: two capsules share it, and it outlives them."""
    x = exports(t)
    cap = x.__dlpack__() if attempt(x.__dlpack__)[1] is None else x.__dlpack__(max_version=(1, 3))
    where, text = abi.name_address(cap), abi.name_of(cap)
    del cap
    junk = [b"x" * n for n in range(8, 64) for _ in range(8)]
    gc.collect()
    now = ctypes.string_at(where)
    v.expect(now == text, "R074", f"the name {text!r} became {now[:16]!r} after the capsule died")
    heap = (
        [line for line in Path("/proc/self/maps").read_text().splitlines() if "[heap]" in line]
        if sys.platform == "linux"
        else []
    )
    for line in heap:
        lo, hi = (int(a, 16) for a in line.split()[0].split("-"))
        v.expect(not lo <= where < hi, "R074", "the name lies on the heap")
    del junk


@check("producer", "R079")
def capsule_pending_exception(t: Target, v: Verdict) -> None:
    """A fresh capsule that dies while an exception unwinds leaves the exception alone."""
    x = exports(t)

    class Marker(Exception):
        pass

    def fail() -> None:
        raise Marker

    kw = {} if attempt(x.__dlpack__)[1] is None else {"max_version": (1, 3)}
    try:
        # The capsule is on the stack of the frame, nowhere else, when fail raises.
        (lambda *a: None)(x.__dlpack__(**kw), fail())
    except Marker:
        return
    except BaseException as e:  # noqa: BLE001
        v.expect(False, "R079", f"became {brief(e)}")
        return
    v.expect(False, "R079", "the exception was lost")


@check("producer", "R066")
def deleter_pending_exception(t: Target, v: Verdict) -> None:
    """A deleter that runs while an exception unwinds leaves the exception alone."""
    x = exports(t)
    e = versioned(x)
    address, deleter = e.address, e.struct.deleter
    if not deleter:
        raise Skip("its deleter is NULL")
    abi.api.PyCapsule_SetName(e.capsule, abi.static_name(b"used_" + (e.name or b"")))

    # A capsule whose destructor calls the deleter, on the stack of a frame that an exception leaves.
    call = (c_void_p * 2)(deleter, address)
    abi._alive.append(call)
    holder = abi.api.PyCapsule_New(ctypes.addressof(call), abi.static_name(b"call"), native.address("hc_call"))

    class Marker(Exception):
        pass

    def fail() -> None:
        raise Marker

    stack = [holder]
    del holder
    try:
        (lambda *a: None)(stack.pop(), fail())
    except Marker:
        return
    except BaseException as err:  # noqa: BLE001
        v.expect(False, "R066", f"became {brief(err)}")
        return
    v.expect(False, "R066", "the exception was lost")


@check("producer", "R063", "R064", "R061")
def deleter_foreign_thread(t: Target, v: Verdict) -> None:
    """The deleter works on a thread that Python does not know, without the GIL."""
    for i in range(3):
        x = exports(t)
        e = versioned(x)
        address, deleter = e.address, e.struct.deleter
        if not deleter:
            raise Skip("its deleter is NULL")
        v.input("deleter on a new C thread" + (", source alive" if i % 2 else ", source dropped"))
        abi.api.PyCapsule_SetName(e.capsule, abi.static_name(b"used_" + (e.name or b"")))
        del e
        if i % 2 == 0:
            del x
        gc.collect()
        abi.call_on_foreign_thread(deleter, address)
    gc.collect()
    [bytearray(1 << 16) for _ in range(16)]


@check("producer", "R069")
def memory_outlives_source(t: Target, v: Verdict) -> None:
    """The memory stays valid when the array itself is dropped."""
    some = layouts(t)[:4]
    while some:
        _, shape, x = some.pop()
        e = versioned(x)
        if 0 in e.shape or not abi.readable(e.device[0]):
            continue
        before = e.values()
        del x
        gc.collect()
        junk = [bytearray(b"\xa5" * n) for n in (24, 48, 64, 128) for _ in range(64)]
        v.input(f"{shape}, source dropped")
        v.expect(e.values() == before, "R069", f"values {before[:4]} became {e.values()[:4]}")
        del junk


_FINALIZED = """
import ctypes, os, sys
from handoff_conformance import abi, targets
from handoff_conformance.checks_producer import exports, versioned
x = exports(targets.find(sys.argv[1]))
e = versioned(x)
abi.api.PyCapsule_SetName(e.capsule, abi.static_name(b"used_" + e.name))
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
# Handlers run in reverse: the deleter first, then this one, which says that it survived.
libc.__cxa_atexit(ctypes.cast(libc._exit, ctypes.c_void_p), 0, None)
libc.__cxa_atexit(e.struct.deleter, e.address, None)
print("armed", flush=True)
"""


@check("producer", "R065")
def deleter_after_finalization(t: Target, v: Verdict) -> None:
    """The deleter called after the interpreter has been finalized does not crash."""
    e = versioned(exports(t))
    if not e.struct.deleter:
        raise Skip("its deleter is NULL")
    name = t.name + (":" + t.fault if getattr(t, "fault", "") else "")
    p = subprocess.run([sys.executable, "-c", _FINALIZED, name], capture_output=True, text=True, timeout=60)
    if "armed" not in p.stdout:
        raise Skip(f"the child did not get so far: {p.stderr.strip().splitlines()[-1:]}")
    v.input("deleter from an exit handler of the C library")
    v.expect(p.returncode == 0, "R065", f"the process ended with {p.returncode}")


@check("producer", "R154", "R155", "R143")
def device_tuple(t: Target, v: Verdict) -> None:
    """__dlpack_device__ is a pair of ints, the device of the capsule."""
    x = exports(t)
    if not v.expect(hasattr(x, "__dlpack_device__"), "R154", "no __dlpack_device__"):
        return
    d = x.__dlpack_device__()
    ok = isinstance(d, tuple) and len(d) == 2 and all(isinstance(i, int) and not isinstance(i, bool) for i in d)
    v.expect(ok, "R154", f"{d!r}")
    if ok:
        e = versioned(x)
        v.expect(e.device == (int(d[0]), int(d[1])), "R155", f"says {tuple(map(int, d))}, exports {e.device}")
        cap, err = attempt(x.__dlpack__, max_version=(1, 3), dl_device=None)
        if isinstance(err, TypeError):
            v.skip("R143", "does not know dl_device")
        elif v.expect(err is None, "R143", f"dl_device=None raised {err and brief(err)}"):
            v.expect(abi.Export(cap).device == e.device, "R143", f"device {abi.Export(cap).device}")


@check("producer", "R144", "R149")
def dl_device(t: Target, v: Verdict) -> None:
    """dl_device: its own device is served, one that it cannot serve is refused with BufferError."""
    x = exports(t)
    own = versioned(x).device
    others: list[tuple[int, int]] = [(99, 0), (7, 0), (own[0], 77)]
    if own[0] == 1:
        others.append((10, 0))
    for d in others:
        v.input(f"dl_device={d}")
        cap, err = attempt(x.__dlpack__, max_version=(1, 3), dl_device=d)
        if isinstance(err, TypeError) and "dl_device" in str(err) and "keyword" in str(err):
            raise Skip("does not know dl_device")
        if err is None and abi.Export(cap).device == d:
            v.note(f"serves {d}")
            continue
        v.expect(
            isinstance(err, BufferError),
            "R144",
            f"{'exported on ' + str(abi.Export(cap).device) if err is None else 'raised ' + brief(err)}",
        )
    for d in {own, (1, 0)}:
        v.input(f"dl_device={d}")
        cap, err = attempt(x.__dlpack__, max_version=(1, 3), dl_device=d)
        if err is not None:
            if d == own:
                v.expect(False, "R144", f"its own device: raised {brief(err)}")
            continue
        v.expect(abi.Export(cap).device == d, "R149", f"exported on {abi.Export(cap).device}")


@check("producer", "R135", "R132", "R136")
def stream_on_cpu(t: Target, v: Verdict) -> None:
    """A stream for memory that has none is refused, a negative or odd one even more so."""
    x = exports(t)
    if versioned(x).device[0] != 1:
        raise Skip("not CPU memory")
    for stream, rule, kinds in (
        (1, "R135", (ValueError, BufferError, RuntimeError)),
        (1 << 40, "R135", (ValueError, BufferError, RuntimeError)),
        (-2, "R132", (ValueError, BufferError, RuntimeError)),
        ("x", "R136", (TypeError,)),
        (1.5, "R136", (TypeError,)),
    ):
        v.input(f"stream={stream!r}")
        _, err = attempt(x.__dlpack__, stream=stream)
        if err is None:
            v.expect(False, rule, "accepted")
        elif not isinstance(err, kinds):
            v.expect(isinstance(err, Exception) and rule != "R136", rule, f"raised {brief(err)}")
            v.note(f"stream={stream!r} raised {type(err).__name__}")


# --- streams on a GPU --------------------------------------------------------


def on_gpu(t: Target) -> Any:
    x = exports(t)
    d = x.__dlpack_device__()
    if int(d[0]) not in (2, 10, 13, 3):
        raise Skip("no GPU memory here: decided on a machine with a GPU")
    return x, int(d[0])


@check("producer", "R126", "R127", "R128", "R129", "R130", "R131")
def stream_values_cuda(t: Target, v: Verdict) -> None:
    """None, -1, 0, 1 and 2 as the consumer's stream on CUDA."""
    x, kind = on_gpu(t)
    if kind not in (2, 3, 13):
        raise Skip("not CUDA")
    for stream, rule in ((None, "R126"), (-1, "R127"), (1, "R129"), (2, "R130")):
        v.input(f"stream={stream}")
        _, err = attempt(x.__dlpack__, stream=stream, max_version=(1, 3))
        v.expect(err is None, rule, f"raised {err and brief(err)}")
    v.input("stream=0")
    _, err = attempt(x.__dlpack__, stream=0, max_version=(1, 3))
    v.expect(err is not None, "R128", "accepted")
    made = t.stream() if t.stream else None
    if made is None:
        v.skip("R131", "no stream to pass")
    else:
        v.input("the handle of a stream")
        handle = made if isinstance(made, int) else made.__cuda_stream__()[1]
        _, err = attempt(x.__dlpack__, stream=handle, max_version=(1, 3))
        v.expect(err is None, "R131", f"raised {err and brief(err)}")


@check("producer", "R133", "R134")
def stream_values_rocm(t: Target, v: Verdict) -> None:
    """0, 1 and 2 as the consumer's stream on ROCm."""
    x, kind = on_gpu(t)
    if kind != 10:
        raise Skip("no ROCm memory here")
    _, err = attempt(x.__dlpack__, stream=0, max_version=(1, 3))
    v.expect(err is None, "R133", f"raised {err and brief(err)}")
    for s in (1, 2):
        _, err = attempt(x.__dlpack__, stream=s, max_version=(1, 3))
        v.expect(err is not None, "R134", f"stream={s} accepted")


@check("producer", "R145", "R146", "R037")
def accelerator_to_cpu(t: Target, v: Verdict) -> None:
    """dl_device=(1, 0) of GPU memory: served complete, or BufferError."""
    x, kind = on_gpu(t)
    if kind in (2, 10):
        d = x.__dlpack_device__()
        v.expect(int(d[1]) >= 0 and versioned(x).device == (kind, int(d[1])), "R037", f"{d}")
    cap, err = attempt(x.__dlpack__, max_version=(1, 3), dl_device=(1, 0))
    if not v.expect(err is None, "R145", f"raised {err and brief(err)}"):
        v.skip("R146", "does not serve the CPU")
        return
    e = abi.Export(cap)
    v.expect(
        e.device == (1, 0) and e.values() == list(range(len(e.values()))),
        "R146",
        f"{e.device} {e.values()[:4]}",
    )
