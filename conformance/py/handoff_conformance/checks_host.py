"""Checks of NumPy's array interface, `__array_struct__` and the buffer protocol."""

from __future__ import annotations

import array as pyarray
import ctypes
import gc
import re
import struct
from typing import Any

from . import abi
from .abi import PyArrayInterface, PyBuffer
from .checks_producer import layouts, simple, versioned
from .core import Skip, Verdict, attempt, brief, check
from .targets import Module, Target, Unsupported

TYPESTR = re.compile(
    r"^[<>|=]?(?:[bifucSVO]\d+|t\d+|U\d+|[mM]8\[\d*(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as|generic)(/\d+)?\])$"
)


def _interface(t: Target) -> tuple[Any, dict[str, Any]]:
    x = simple(t)
    ai = getattr(x, "__array_interface__", None)
    if ai is None:
        raise Skip("its arrays have no __array_interface__")
    return x, ai


@check("array interface", "R200", "R201", "R202", "R203", "R282", "R280")
def interface_form(t: Target, v: Verdict) -> None:
    """The dict, its keys, and what they say of arrays of every layout."""
    _interface(t)
    for layout, shape, x in layouts(t):
        v.input(f"{shape} {layout}")
        ai, err = attempt(lambda x=x: x.__array_interface__)
        if err is not None:
            continue
        if not v.expect(isinstance(ai, dict), "R200", f"a {type(ai).__name__}"):
            continue
        missing = {"shape", "typestr", "version"} - set(ai)
        if not v.expect(not missing, "R201", f"no {missing}"):
            continue
        s = ai["shape"]
        v.expect(isinstance(s, tuple) and all(isinstance(n, int) and n >= 0 for n in s), "R202", f"shape {s!r}")
        v.expect(
            isinstance(ai["typestr"], str) and bool(TYPESTR.match(ai["typestr"])),
            "R203",
            f"{ai['typestr']!r}",
        )
        data = ai.get("data")
        if isinstance(data, tuple) and not isinstance(t, Module):
            v.expect(isinstance(data[1], bool), "R280", f"data {data!r}")
            if layout == "readonly":
                v.expect(data[1] is True, "R280", "read-only memory, and data[1] is False")
            if 0 not in shape and ai["typestr"][1:] == "f4":
                steps = ai.get("strides") or tuple(4 * k for k in abi.row_major(s))
                n = len(s)
                got = (
                    [struct.unpack("<f", ctypes.string_at(data[0] + o, 4))[0] for o in abi.offsets(s, steps)]
                    if n == len(steps)
                    else None
                )
                from .checks_producer import expected

                v.expect(
                    got == [float(i) for i in expected("float32", shape, layout)],
                    "R282",
                    f"strides {ai.get('strides')}",
                )


@check("array interface", "R205", "R220")
def interface_text_and_time(t: Target, v: Verdict) -> None:
    """Text counts characters, times have their unit in brackets."""
    _interface(t)
    numpy = getattr(t, "np", None)
    made = (
        [
            ("U3", numpy.zeros(2, "U3")),
            ("M8[ms]", numpy.zeros(2, "M8[ms]")),
            ("m8[3us]", numpy.zeros(2, "m8[3us]")),
        ]
        if numpy
        else t.extra_interfaces()
        if hasattr(t, "extra_interfaces")
        else []
    )
    if not made:
        raise Skip("makes no arrays of text or times")
    for want, x in made:
        v.input(want)
        ai = x.__array_interface__
        got = ai["typestr"].lstrip("<>|=")
        if want[0] == "U":
            view = memoryview(bytes(1))
            size = getattr(x, "itemsize", 4 * int(want[1:]))
            v.expect(got == want and size == 4 * int(got[1:]), "R205", f"{got}")
            del view
        else:
            v.expect(got == want and "[" in got, "R220", f"{got}")


class _AI:
    """An object with a dict, which counts as the owner of the memory."""

    def __init__(self, m: Any, **change: Any) -> None:
        self.m = m
        self.d = {"shape": (2, 3), "typestr": "<f4", "data": (m.address, False), "version": 3}
        self.d.update(change)
        self.d = {k: w for k, w in self.d.items() if w is not ...}

    @property
    def __array_interface__(self) -> Any:
        return self.d


def memory() -> abi.Pages:
    m = abi.Pages(8192)
    ctypes.memmove(m.address, struct.pack("<1024f", *range(1024)), 4096)
    return m


def _needs(f: Any, what: str) -> Any:
    if f is None:
        raise Skip(f"takes no {what}")
    return f


_AI_REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("R200", "a list instead of a dict", {}),
    ("R201", "no shape", {"shape": ...}),
    ("R201", "no typestr", {"typestr": ...}),
    ("R203", "typestr 'x9'", {"typestr": "x9"}),
    ("R202", "shape as a list", {"shape": [2, 3]}),
    ("R202", "negative extent", {"shape": (2, -3)}),
    ("R206", "data as an int tuple of one", {"data": (1,)}),
    ("R206", "data with a text address", {"data": ("x", False)}),
    ("R209", "address 0, 6 elements", {"data": (0, False)}),
    ("R213", "three strides for two axes", {"strides": (12, 4, 4)}),
    ("R214", "strides as a list", {"strides": [12, 4]}),
    ("R216", "descr of 8 bytes for V4", {"typestr": "|V4", "descr": [("a", "<f8")]}),
    ("R217", "a mask that is no array", {"mask": 5}),
]


@check("array interface", *sorted({r for r, _, _ in _AI_REFUSED}))
def interface_refused(t: Target, v: Verdict) -> None:
    """Malformed dicts are refused."""
    take = _needs(t.from_array_interface, "__array_interface__")
    for rule, text, change in _AI_REFUSED:
        v.input(text, rule)
        x = _AI(memory(), **change)
        if rule == "R200":
            x.d = [1, 2]  # type: ignore[assignment]
        r, err = attempt(take, x)
        if err is None and getattr(r, "dtype", None) is not None and str(r.dtype) == "object":
            err = TypeError("was not taken as an array")  # NumPy wraps what it cannot read
        v.expect(err is not None, rule, "accepted")
        v.expect(not isinstance(err, SystemError), rule, f"raised {err and brief(err)}")


@check("array interface", "R210", "R212", "R215", "R218", "R204", "R208", "R207")
def interface_accepted(t: Target, v: Verdict) -> None:
    """Dicts with optional keys left out, None, or newer than known are read right."""
    take = _needs(t.from_array_interface, "__array_interface__")
    F = [float(i) for i in range(64)]
    cases: list[tuple[str, str, dict[str, Any], list[float] | None]] = [
        ("R210", "address 0, no elements", {"shape": (0, 3), "data": (0, False)}, None),
        ("R212", "strides missing", {}, F[:6]),
        ("R212", "strides None", {"strides": None}, F[:6]),
        ("R215", "descr with a numeric typestr", {"descr": [("", "<f4")]}, F[:6]),
        ("R218", "version 4", {"version": 4}, F[:6]),
        ("R212", "strides (4, 8)", {"strides": (4, 8)}, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]),
    ]
    for rule, text, change, want in cases:
        v.input(text, rule)
        x = _AI(memory(), **change)
        r, err = attempt(take, x)
        if not v.expect(err is None, rule, f"raised {err and brief(err)}"):
            continue
        got, lerr = attempt(t.look, r)
        if got is not None and want is not None:
            v.expect(got.values() == want, rule, f"elements {got.values()[:6]}")
    v.input("typestr of the other byte order")
    big = memory()
    ctypes.memmove(big.address, struct.pack(">6f", *range(6)), 24)
    r, err = attempt(take, _AI(big, typestr=">f4"))
    if err is None:
        got, lerr = attempt(t.look, r)
        swapped = list(map(float, r.ravel())) if hasattr(r, "ravel") else got.values() if got else F[:6]
        v.expect(swapped == F[:6], "R204", f"elements {swapped[:3]}")
    v.input("data is a bytearray, offset 8")
    raw = bytearray(struct.pack("<64f", *range(64)))
    r, err = attempt(take, _AI(memory(), data=raw, offset=8))
    if err is None:
        got, lerr = attempt(t.look, r)
        v.expect(got is None or got.values() == F[2:8], "R208", f"elements {got and got.values()[:3]}")
    else:
        v.expect(isinstance(err, (TypeError, ValueError, BufferError)), "R208", brief(err))
    v.input("data missing: the buffer of the object itself")

    class Bytes(bytearray):
        __array_interface__ = {"shape": (2, 3), "typestr": "<f4", "version": 3}

    r, err = attempt(take, Bytes(struct.pack("<6f", *range(6))))
    got = attempt(t.look, r)[0] if err is None else None
    if got is not None and got.dtype == (1, 8, 1):
        v.skip("R207", "an object with a buffer is read by its buffer")
    elif v.expect(err is None, "R207", f"raised {err and brief(err)}"):
        v.expect(got is None or got.values() == F[:6], "R207", "other elements")


@check("array interface", "R206", "R211", "R219", "R279")
def interface_owner(t: Target, v: Verdict) -> None:
    """A read-only array stays read-only on every way out; the view keeps its object."""
    take = _needs(t.from_array_interface, "__array_interface__")
    m = memory()
    m.protect(abi.PROT_READ)
    v.input("data (address, True), pages read-only")
    x = _AI(m, shape=(6,), data=(m.address, True))
    r, err = attempt(take, x)
    if not v.expect(err is None, "R206", f"raised {err and brief(err)}"):
        return
    got, lerr = attempt(t.look, r)
    v.expect(got is None or got.readonly is True or got.address != m.address, "R211", "the view is writable")
    if got is not None and got.address == m.address:
        _, werr = attempt(t.write, r, 0, 5.0)
        v.expect(werr is not None, "R211", "wrote")
        out, derr = attempt(versioned, r)
        if derr is None:
            v.expect(
                not out.versioned or bool(out.flags & abi.READ_ONLY) or out.data != m.address,
                "R279",
                "the flag is lost",
            )
            v.expect(out.versioned or out.data != m.address, "R279", "left unversioned")
        else:
            v.expect(isinstance(derr, BufferError), "R279", brief(derr))
        del out, derr

    class Watched(_AI):
        gone = False

        def __del__(self) -> None:
            Watched.gone = True

    v.input("an object that says when it is gone")
    w, err = attempt(take, Watched(memory()))
    if err is None:
        gc.collect()
        got, lerr = attempt(t.look, w)
        v.expect(not Watched.gone, "R219", "the object was dropped while the view lives")
        del w
        gc.collect()


# --- __array_struct__ --------------------------------------------------------


@check("array interface", "R221", "R226")
def struct_form(t: Target, v: Verdict) -> None:
    """__array_struct__: a capsule without a name, to a struct whose flags do not own."""
    x = simple(t)
    cap = getattr(x, "__array_struct__", None)
    if cap is None:
        raise Skip("its arrays have no __array_struct__")
    ok = type(cap).__name__ == "PyCapsule"
    if not v.expect(ok and abi.name_of(cap) is None, "R221", f"{type(cap).__name__} {ok and abi.name_of(cap)}"):
        return
    s = PyArrayInterface.from_address(abi.api.PyCapsule_GetPointer(cap, None))
    v.expect(s.two == 2 and s.nd >= 0 and s.itemsize > 0, "R221", f"two {s.two}, nd {s.nd}, itemsize {s.itemsize}")
    v.expect(not s.flags & (0x4 | 0x2000), "R226", f"flags {s.flags:#x}")


class _AS:
    """An object with an array struct."""

    def __init__(
        self,
        m: abi.Pages,
        *,
        two: int = 2,
        nd: int = 2,
        flags: int = 0x701,
        descr: int = 0,
        lists: bool = True,
    ) -> None:
        self.m = m
        self.shape, self.strides = (ctypes.c_ssize_t * 2)(2, 3), (ctypes.c_ssize_t * 2)(12, 4)
        a = ctypes.addressof
        self.s = PyArrayInterface(
            two,
            nd,
            b"f",
            4,
            flags,
            a(self.shape) if lists else None,
            a(self.strides) if lists else None,
            m.address,
            descr or None,
        )
        abi._alive.append(self)

    @property
    def __array_struct__(self) -> Any:
        return abi.api.PyCapsule_New(ctypes.addressof(self.s), None, None)


@check("array interface", "R222", "R223", "R224", "R225", "R227", "R228")
def struct_taken(t: Target, v: Verdict) -> None:
    """Array structs: the sanity value, foreign order, read-only, descr, no axes, and who is kept."""
    take = _needs(t.from_array_interface, "__array_struct__")
    probe, err = attempt(take, _AS(memory()))
    if err is not None or str(getattr(probe, "dtype", "")) == "object":
        raise Skip("takes no __array_struct__")
    v.input("two = 3")
    r, err = attempt(take, _AS(memory(), two=3))
    v.expect(err is not None or str(getattr(r, "dtype", "")) == "object", "R222", "accepted")
    v.input("flag NOTSWAPPED absent")
    m = memory()
    ctypes.memmove(m.address, struct.pack(">6f", *range(6)), 24)
    r, err = attempt(take, _AS(m, flags=0x501))
    if err is None:
        v.expect([float(i) for i in r.ravel()] == [float(i) for i in range(6)], "R223", "read in native order")
    v.input("flag WRITEABLE absent")
    m = memory()
    r, err = attempt(take, _AS(m, flags=0x301))
    got = attempt(t.look, r)[0] if err is None else None
    v.expect(got is None or got.readonly is True, "R224", "the view is writable")
    v.input("HAS_DESCR absent, descr a wild pointer")
    r, err = attempt(take, _AS(memory(), descr=0x8))
    v.expect(err is None, "R225", f"raised {err and brief(err)}")
    v.input("nd 0, lists NULL")
    r, err = attempt(take, _AS(memory(), nd=0, lists=False))
    v.expect(err is None, "R227", f"raised {err and brief(err)}")

    class Watched(_AS):
        gone = False

        def __del__(self) -> None:
            Watched.gone = True

    w = Watched(memory())
    abi._alive.remove(w)
    r, err = attempt(take, w)
    del w
    gc.collect()
    v.expect(err is not None or not Watched.gone, "R228", "the object was dropped while the view lives")
    del r


# --- buffers -----------------------------------------------------------------


def _buffers(t: Target) -> list[tuple[str, tuple[int, ...], Any]]:
    out = []
    try:
        for layout, shape, x in layouts_any(t):
            view, err = attempt(abi.get_buffer, x, abi.FULL_RO)
            if err is None:
                abi.release_buffer(view)
                out.append((layout, shape, x))
    except Skip:
        pass
    if not out:
        raise Skip("its arrays export no buffers")
    return out


def layouts_any(t: Target) -> list[tuple[str, tuple[int, ...], Any]]:
    if isinstance(t, Module):
        return [("C", (), t.any())]
    out = []
    for layout, shape in (
        ("C", (2, 3)),
        ("C", ()),
        ("F", (2, 3)),
        ("sliced", (2, 3)),
        ("readonly", (4,)),
        ("C", (6,)),
        ("C", (1, 3)),
    ):
        x, err = attempt(t.array, "float32", shape, layout)
        if err is None:
            out.append((layout, shape, x))
        elif not isinstance(err, Unsupported):
            raise err
    if not out:
        raise Skip("makes no arrays")
    return out


@check("buffer", "R229", "R234", "R235", "R237", "R239", "R240", "R241", "R242", "R244")
def buffer_export(t: Target, v: Verdict) -> None:
    """Every kind of request on every layout: the fields, and BufferError where it cannot be met."""
    for layout, shape, x in _buffers(t):
        full = abi.get_buffer(x, abi.FULL_RO)
        n = full.ndim
        s, st = abi.ints(full.shape, n), abi.ints(full.strides, n)
        size = full.itemsize
        total = size
        for k in s:
            total *= k
        v.input(f"{shape} {layout}, FULL_RO")
        if n == 0:
            v.expect(not full.shape and not full.strides and not full.suboffsets, "R234", "lists are not NULL")
        v.expect(full.len == total, "R235", f"len {full.len}, not {total}")
        if full.suboffsets:
            v.expect(any(k >= 0 for k in abi.ints(full.suboffsets, n)), "R244", "suboffsets without one >= 0")
        readonly = bool(full.readonly)
        if layout == "readonly":
            v.expect(readonly, "R242", "read-only memory, and readonly is 0")
        c = tuple(size * k for k in abi.row_major(s))
        f = tuple(reversed([size * k for k in abi.row_major(tuple(reversed(s)))]))
        isc = n == 0 or all(a == b or k == 1 for a, b, k in zip(st, c, s, strict=True))
        isf = n == 0 or all(a == b or k == 1 for a, b, k in zip(st, f, s, strict=True))
        abi.release_buffer(full)
        for text, flags, ok, rule in (
            ("SIMPLE", abi.SIMPLE, isc, "R237"),
            ("ND", abi.ND, isc, "R239"),
            ("C_CONTIGUOUS", abi.C_CONTIGUOUS, isc, "R240"),
            ("F_CONTIGUOUS", abi.F_CONTIGUOUS, isf, "R240"),
            ("ANY_CONTIGUOUS", abi.ANY_CONTIGUOUS, isc or isf, "R240"),
            ("STRIDES|WRITABLE", abi.STRIDES | abi.WRITABLE, not readonly, "R241"),
            ("STRIDES", abi.STRIDES, True, "R244"),
        ):
            v.input(f"{shape} {layout}, {text}")
            raw = PyBuffer(obj=0x10)
            view, err = attempt(abi.get_buffer, x, flags, raw)
            if err is not None:
                v.expect(not ok and isinstance(err, BufferError), rule, f"raised {brief(err)}")
                v.expect(raw.obj is None, "R229", "view->obj is not NULL after the refusal")
                continue
            v.expect(ok, rule, "was given")
            if flags == abi.SIMPLE:
                v.expect(not view.shape or n <= 1, "R237", "shape is not NULL")
            if flags in (abi.SIMPLE, abi.ND):
                v.expect(not view.strides, "R239", "strides are not NULL")
            v.expect(not view.suboffsets, "R244", "suboffsets without INDIRECT")
            v.expect(
                bool(view.readonly) == readonly or bool(flags & abi.WRITABLE),
                "R242",
                f"readonly {view.readonly}",
            )
            abi.release_buffer(view)


@check("buffer", "R231")
def buffer_locked(t: Target, v: Verdict) -> None:
    """While exported the memory stays, also when the array itself is dropped."""
    layout, shape, x = _buffers(t)[0]
    view = abi.get_buffer(x, abi.FULL_RO)
    before = ctypes.string_at(view.buf, view.len)
    resize = getattr(x, "resize", None)
    if resize is not None:
        attempt(resize, 1 << 16)
        attempt(resize, (1 << 8, 1 << 8))
    if isinstance(x, (bytearray, pyarray.array)):
        attempt(x.extend, x[:] * 1024)
    del x, resize
    gc.collect()
    junk = [bytearray(b"\xa5" * n) for n in (16, 24, 48, 64) for _ in range(64)]
    v.input(f"{shape} {layout}, array dropped")
    v.expect(ctypes.string_at(view.buf, view.len) == before, "R231", "the memory changed")
    abi.release_buffer(view)
    del junk


@check("buffer", "R258")
def buffer_python_hook(t: Target, v: Verdict) -> None:
    """From Python 3.12 __buffer__(flags) returns a memoryview."""
    layout, shape, x = _buffers(t)[0]
    hook = getattr(x, "__buffer__", None)
    if hook is None:
        raise Skip("no __buffer__ (Python 3.12)")
    got, err = attempt(hook, abi.FULL_RO)
    v.expect(isinstance(got, memoryview), "R258", f"{type(got).__name__} {err and brief(err)}")


def RAW(n: int = 64) -> bytes:  # noqa: N802
    return struct.pack(f"<{n}f", *range(n))


_F6 = [float(i) for i in range(6)]
_BUF_OK: list[tuple[str, str, dict[str, Any], list[Any]]] = [
    ("R233", "format NULL", {"shape": (6,), "strides": (1,), "fmt": None, "itemsize": 1}, list(RAW(2)[:6])),
    ("R246", "negative stride", {"shape": (6,), "strides": (-4,), "start": 20}, _F6[::-1]),
    ("R248", "format '<f'", {"fmt": b"<f", "shape": (6,), "strides": (4,)}, _F6),
    ("R248", "format '=f'", {"fmt": b"=f", "shape": (6,), "strides": (4,)}, _F6),
    ("R256", "extent 1 with stride 77", {"shape": (1, 3), "strides": (77, 4)}, _F6[:3]),
    ("R238", "no shape wanted: bytes", {"shape": (6,), "strides": (4,)}, _F6),
]  # fmt: skip
_BUF_BAD: list[tuple[str, str, dict[str, Any]]] = [
    ("R236", "len 20 for 24 bytes", {"shape": (6,), "strides": (4,), "length": 20}),
    ("R245", "suboffset 0", {"shape": (2, 3), "strides": (8, 4), "suboffsets": (0, -1)}),
    ("R247", "format 'd' with itemsize 4", {"shape": (6,), "strides": (4,), "fmt": b"d"}),
    ("R250", "format '<n'", {"shape": (3,), "strides": (8,), "fmt": b"<n", "itemsize": 8}),
    ("R251", "format 'O'", {"shape": (3,), "strides": (8,), "fmt": b"O", "itemsize": 8}),
    ("R251", "format 'P'", {"shape": (3,), "strides": (8,), "fmt": b"P", "itemsize": 8}),
    ("R251", "format '3s'", {"shape": (2,), "strides": (3,), "fmt": b"3s", "itemsize": 3}),
    ("R252", "format '>f'", {"shape": (6,), "strides": (4,), "fmt": b">f"}),
    ("R259", "itemsize 0", {"shape": (6,), "strides": (0,), "itemsize": 0, "fmt": b"f"}),
    ("R255", "65 axes", {"shape": (1,) * 65, "strides": (4,) * 65}),
]  # fmt: skip


def _plain(r: Any) -> bool:
    """Whether the result is a flat numeric array: one scalar type, no objects, no text."""
    kind = getattr(getattr(r, "dtype", None), "kind", "f")
    return kind in "biufc"


@check("buffer", "R233", "R236", "R238", "R245", "R246", "R247", "R248", "R249", "R250", "R251", "R252", "R253", "R255",
       "R256", "R259")  # fmt: skip
def buffer_taken(t: Target, v: Verdict) -> None:
    """Buffers with every kind of field: read right, or refused."""
    take = _needs(t.from_buffer, "buffers")
    for rule, text, kw, want in _BUF_OK:
        v.input(text, rule)
        b, berr = attempt(abi.buffer_of, RAW(), **kw)
        if berr is not None:
            v.skip(rule, "cannot be built here")
            continue
        r, err = attempt(take, b)
        if not v.expect(err is None, rule, f"raised {err and brief(err)}"):
            continue
        got, lerr = attempt(t.look, r)
        v.expect(got is None or list(got.values()) == want, rule, f"elements {got and got.values()[:6]}")
    for rule, text, kw in _BUF_BAD:
        v.input(text, rule)
        b, berr = attempt(abi.buffer_of, RAW(), **kw)
        if berr is not None:
            v.skip(rule, "Python itself refuses such a buffer")
            continue
        r, err = attempt(take, b)
        if err is None and not _plain(r):
            continue
        if err is None and rule == "R252":
            got = attempt(t.look, r)[0]
            swaps = str(getattr(r, "dtype", "")).startswith(">")
            v.expect(swaps or got is None or got.values() != _F6, rule, "read in native order")
            continue
        v.expect(err is not None, rule, "accepted")
    for code, size in (("l", ctypes.sizeof(ctypes.c_long)), ("<l", 4), ("=l", 4)):
        v.input(f"format {code!r}")
        b = abi.buffer_of(struct.pack("<4q", 1, 2, 3, 4), (2,), (size,), fmt=code.encode(), itemsize=size)
        r, err = attempt(take, b)
        got = attempt(t.look, r)[0] if err is None else None
        v.expect(
            err is None and (got is None or got.dtype == (0, 8 * size, 1)),
            "R249",
            f"{err and brief(err)} {got}",
        )
    v.input("formats 'Zf' and 'Zd'")
    for fmt, size in ((b"Zf", 8), (b"Zd", 16)):
        r, err = attempt(take, abi.buffer_of(RAW(), (2,), (size,), fmt=fmt, itemsize=size))
        got = attempt(t.look, r)[0] if err is None else None
        v.expect(err is None and (got is None or got.dtype == (5, 8 * size, 1)), "R253", f"{err and brief(err)}")


@check("buffer", "R230", "R243", "R257", "R254", "R279", "R281")
def buffer_held(t: Target, v: Verdict) -> None:
    """Released once, never written when read-only; strides that DLPack cannot say stop at the way out."""
    take = _needs(t.from_buffer, "buffers")
    b = bytearray(RAW(8))
    v.input("a bytearray, held and dropped")
    r, err = attempt(take, b)
    v.expect(err is None, "R230", f"raised {err and brief(err)}")
    if err is None:
        _, locked = attempt(b.append, 1)
        v.expect(isinstance(locked, BufferError), "R230", "was released while the view lives")
        del r, locked
        gc.collect()
        _, locked = attempt(b.append, 1)
        v.expect(locked is None, "R230", "is not released when the view is gone")
    counts: list[str] = []
    block = ctypes.create_string_buffer(RAW(6))

    def get(view: PyBuffer, flags: int) -> None:
        counts.append("get")
        shape = (ctypes.c_ssize_t * 1)(24)
        strides = (ctypes.c_ssize_t * 1)(1)
        abi._alive.append((shape, strides))
        view.buf, view.len, view.itemsize, view.readonly, view.ndim = ctypes.addressof(block), 24, 1, 1, 1
        view.format = b"B" if flags & abi.FORMAT else None
        view.shape = ctypes.addressof(shape) if flags & abi.ND else None
        view.strides = ctypes.addressof(strides) if flags & abi.STRIDES == abi.STRIDES else None
        view.suboffsets = None

    kind = abi.buffer_type(get, lambda view: counts.append("release"))
    v.input("an exporter that counts, read-only")
    r, err = attempt(take, kind())
    if v.expect(err is None, "R230", f"raised {err and brief(err)}"):
        _, werr = attempt(t.write, r, 0, 5)
        v.expect(block.raw[:4] == RAW(6)[:4], "R243", "wrote into a read-only buffer")
        got = attempt(t.look, r)[0]
        v.expect(got is None or got.readonly is True, "R243", "the view says that it may be written")
        out, derr = attempt(versioned, r)
        if derr is None:
            v.expect(
                bool(out.flags & abi.READ_ONLY) or out.data != ctypes.addressof(block),
                "R279",
                "the flag is lost",
            )
        del r, werr, out, derr
        gc.collect()
        v.expect(counts.count("get") == counts.count("release"), "R230", f"{counts}")
    v.input("stride 6 for 4-byte items")
    r, err = attempt(take, abi.buffer_of(RAW(), (3,), (6,)))
    if err is None:
        out, derr = attempt(versioned, r)
        ok = derr is not None or bool(out.flags & abi.IS_COPIED)
        v.expect(ok, "R257", f"left as strides {out.strides if derr is None else ''}")
        v.expect(ok, "R281", "the stride was rounded")
        del out, derr
    x, err = attempt(t.array, "bfloat16", (4,))
    if err is None:
        view, berr = attempt(abi.get_buffer, x, abi.FULL_RO)
        if berr is None:
            f = (view.format or b"").decode()
            v.expect(f in ("", "B", "V2", "2x", "2s") or f.endswith("x"), "R254", f"bfloat16 is exported as {f!r}")
            abi.release_buffer(view)
    else:
        v.skip("R254", "makes no bfloat16")
