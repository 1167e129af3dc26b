"""Checks of how a library takes DLPack tensors that were built by hand, sound and malformed ones."""

from __future__ import annotations

import gc
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import abi
from .abi import Managed
from .core import Look, Skip, Verdict, attempt, brief, check, settle
from .targets import Target, Unsupported


class Producer:
    """An object with the methods of the protocol that records how it was called."""

    def __init__(self, managed: Managed | None = None, device: Any = None, legacy: Managed | None = None) -> None:
        self.managed = managed or Managed()
        self.legacy = legacy
        d = self.managed.struct.dl_tensor.device if device is None else None
        self.device = device if device is not None else (d.device_type, d.device_id)
        self.calls: list[dict[str, Any]] = []
        self.order: list[str] = []

    def __dlpack_device__(self) -> Any:
        self.order.append("device")
        return self.device

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.order.append("dlpack")
        self.calls.append(kwargs)
        if self.legacy is not None and not (kwargs.get("max_version") or (0,))[0] >= 1:
            return self.legacy.capsule()
        return self.managed.capsule()


def _forms(t: Target) -> bool:
    """Whether the target takes versioned tensors; decided once per process."""
    known = getattr(t, "_takes_versioned", None)
    if known is None:
        r, err = attempt(t.from_dlpack, Producer(Managed()))
        known = err is None
        if not known:
            r, err = attempt(t.from_dlpack, Producer(Managed(versioned=False)))
            if err is not None:
                known = True  # takes neither: the checks will say so
        t._takes_versioned = known
    return bool(known)


def need(t: Target) -> None:
    if t.from_dlpack is None:
        raise Skip("has no from_dlpack")


def fake(t: Target, v: Verdict, text: str, at: str = "", **kw: Any) -> Managed:
    """A tensor in a form that the target takes."""
    if not _forms(t) and "version" not in kw and "flags" not in kw:
        kw.setdefault("versioned", False)
    v.input(text, at)
    return Managed(**kw)


class Taken:
    """What came of handing a tensor to the target."""

    def __init__(self, result: Any, error: Exception | None, look: Look | None, why: str) -> None:
        self.result, self.error, self.look, self.why = result, error, look, why


@contextmanager
def taken(t: Target, v: Verdict, m: Managed, *, once: bool = True, producer: Any = None, **kw: Any) -> Iterator[Taken]:
    """Hands the tensor over; afterwards drops everything and checks that the deleter ran once (R060)."""
    p = producer if producer is not None else Producer(m)
    result, error = attempt(t.from_dlpack, p, **kw)
    if isinstance(error, Unsupported):
        raise error
    look = why = None
    if error is None:
        look, lerr = attempt(t.look, result)
        why = brief(lerr) if lerr else ""
    box = Taken(result, error, look, why or "")
    del result
    try:
        yield box
    finally:
        box.result = box.look = None
        if box.error is not None:
            box.error.__traceback__ = None
        del p
        if once and m.has_deleter and m.made:
            what = "refused" if box.error is not None else "taken and dropped"
            if settle(lambda: m.deleted > 0):
                v.expect(m.deleted == 1, "R060", f"{what}: the deleter ran {m.deleted} times")
                v.expect(m.wrong == 0, "R061", "the deleter was given another address")
            else:
                v.expect(False, "R067" if box.error is not None else "R060", f"{what}: the deleter did not run")


def refuse(
    t: Target, v: Verdict, rule: str, text: str, *, error: type | tuple[type, ...] | None = None, **kw: Any
) -> None:
    """The tensor must be refused, and released once."""
    m = fake(t, v, text, rule, **kw)
    with taken(t, v, m) as r:
        if v.expect(r.error is not None, rule, f"accepted {r.look}"[:200]) and error is not None:
            v.expect(isinstance(r.error, error), rule, f"raised {brief(r.error)}")


def accept(t: Target, v: Verdict, rule: str, text: str, want: list[Any] | None, **kw: Any) -> None:
    """The tensor must be accepted with these elements. want None: do not look at elements."""
    m = fake(t, v, text, rule, **kw)
    with taken(t, v, m) as r:
        if not v.expect(r.error is None, rule, f"raised {r.error and brief(r.error)}"):
            return
        if want is not None and r.look is not None:
            got = r.look.values()
            v.expect(got == want, rule, f"elements {got[:6]}, not {want[:6]}")


def right_or_refused(t: Target, v: Verdict, rule: str, text: str, want: list[Any], **kw: Any) -> None:
    """The tensor may be refused; if it is taken the elements must be right."""
    m = fake(t, v, text, rule, **kw)
    with taken(t, v, m) as r:
        if r.error is not None:
            v.expect(not isinstance(r.error, (SystemError, MemoryError)), rule, f"raised {brief(r.error)}")
            v.note(f"{text}: refused, {brief(r.error)}")
        elif r.look is not None:
            got = r.look.values()
            v.expect(got == want, rule, f"elements {got[:6]}, not {want[:6]}")


F = [float(i) for i in range(64)]
OWN = ("R060", "R061", "R067")


@check("consumer", "R060", "R061", "R062", "R055", "R073", "R010", "R083", "R050")
def take_plain(t: Target, v: Verdict) -> None:
    """Plain tensors of both forms whose struct and lists cannot be written; the deleter runs once, then all is gone."""
    need(t)
    ok = 0
    for text, rule, kw in (
        ("unversioned, struct and lists read-only", "R073", {"versioned": False}),
        ("version 1.0, struct and lists read-only", "R083", {"version": (1, 0)}),
        ("version 1.1", "R010", {"version": (1, 1)}),
        ("version 1.3", "R010", {"version": (1, 3)}),
        ("version 1.9", "R010", {"version": (1, 9)}),
    ):
        versioned = kw.get("versioned", True)
        if versioned and not _forms(t) and rule == "R010":
            v.skip("R010", "takes no versioned tensors")
            continue
        v.input(text, "R055")
        m = Managed(frozen=True, **kw)
        with taken(t, v, m) as r:
            if v.expect(r.error is None, rule, f"raised {r.error and brief(r.error)}"):
                ok += 1
                if r.look is not None:
                    v.expect(r.look.values() == F[:6], rule, f"elements {r.look.values()[:6]}")
                    v.expect(r.look.shape == (2, 3), rule, f"shape {r.look.shape}")
    if not ok:
        raise Skip("takes no plain tensor")
    accept(t, v, "R050", "unversioned, strides NULL", F[:6], versioned=False, strides=None)
    if _forms(t):
        accept(t, v, "R050", "version 1.0, strides NULL", F[:6], version=(1, 0), strides=None)
    gc.collect()


@check("consumer", "R055")
def take_null_strides_untouched(t: Target, v: Verdict) -> None:
    """The producer's struct, shape and strides are as they were after the import."""
    need(t)
    for text, kw in (
        ("strides NULL", {"strides": None}),
        ("strides", {}),
        ("size-1 axis with an odd stride", {"shape": (1, 3), "strides": (77, 1)}),
    ):
        m = fake(t, v, text, **kw)
        before = bytes(memoryview(m.struct).cast("B"))
        cap_result, err = attempt(t.from_dlpack, Producer(m))
        if err is None:
            import ctypes

            same = bytes(memoryview(m.struct).cast("B")) == before if not m.deleted else True
            v.expect(same, "R055", "the struct was changed")
            if not m.deleted:
                lists = ctypes.string_at(m.lists.address, abi.PAGE)
                v.expect(lists == m.lists_before, "R055", "shape or strides were changed")
        del cap_result, err


@check("consumer", "R008", "R009", "R082", "R121", *OWN)
def take_other_major(t: Target, v: Verdict) -> None:
    """Another major version: refused, released once, nothing behind flags read (it is unreadable)."""
    need(t)
    if not _forms(t):
        raise Skip("takes no versioned tensors")
    for version in ((2, 0), (3, 7), (0, 5)):
        v.input(
            f"version {version}, fields behind flags unreadable" if version[0] else f"version {version}",
            "R009",
        )
        m = Managed(version=version, guard=version[0] != 0)
        p = Producer(m, device=abi.home())
        with taken(t, v, m, producer=p) as r:
            ok = r.error is not None
            v.expect(ok, "R008", "accepted")
            v.expect(ok, "R121", "the version of the capsule was not looked at")
            if ok:
                v.expect(
                    isinstance(r.error, (BufferError, RuntimeError, ValueError, TypeError)),
                    "R008",
                    brief(r.error),
                )
        v.expect(m.deleted == 1 or not m.made, "R082", f"the deleter ran {m.deleted} times")
        if "R008" in v.broken:
            break


@check("consumer", "R011", "R012", "R027", "R035", "R038", *OWN)
def take_unknown_values(t: Target, v: Verdict) -> None:
    """Unknown dtype code, device type or flag bit: refused and released."""
    need(t)
    v_ok = _forms(t)
    extra: dict[str, Any] = {"version": (1, 9)} if v_ok else {}
    refuse(t, v, "R027", "dtype code 200", dtype=(200, 32, 1))
    refuse(t, v, "R011", "dtype code 99 in version 1.9", dtype=(99, 8, 1), **extra)
    refuse(t, v, "R027", "float of 24 bits", dtype=(2, 24, 1))
    if v_ok:
        refuse(t, v, "R012", "flag bit 40", flags=1 << 40)
        refuse(t, v, "R012", "flag bit 3", flags=8)
    else:
        v.skip("R012", "takes no versioned tensors")
    # Last what some take without a look, and die of.
    m_device = (
        ((2, 0), "R035", "CUDA memory at a wild address")
        if not t.gpu
        else ((10, 0), "R035", "ROCm memory at a wild address")
    )
    for (device, rule, text) in (((99, 0), "R011", "device type 99"), ((5, 0), "R011", "device type 5"),
                                 ((7, 0), "R038", "a Vulkan handle"), m_device):  # fmt: skip
        m = fake(t, v, text, rule, device=device, data=0xDEAD0000)
        with taken(t, v, m) as r:
            if rule == "R038" and r.error is None and r.look is not None:
                v.expect(r.look.address == 0xDEAD0000, rule, "did arithmetic on the handle")
            elif rule == "R035" and r.error is None and r.look is not None and r.look.device == device:
                v.note("takes the metadata of memory that it cannot touch")
            else:
                v.expect(r.error is not None, rule, "accepted")


@check("consumer", "R022", "R023", "R026", "R028", "R029", *OWN)
def take_odd_dtypes(t: Target, v: Verdict) -> None:
    """fp6 and fp4 of other widths, no lanes, no bits, several lanes, bfloat of 32 bits."""
    need(t)
    kw: dict[str, Any] = {"version": (1, 1)} if _forms(t) else {}
    for d in ((15, 8, 1), (16, 4, 1)):
        refuse(t, v, "R022", f"dtype {d}", dtype=d, **kw)
    for d in ((17, 8, 1), (17, 6, 1)):
        refuse(t, v, "R023", f"dtype {d}", dtype=d, **kw)
    for d in ((4, 32, 1), (4, 8, 1)):
        refuse(t, v, "R026", f"dtype {d}", dtype=d, **kw)
    for d in ((2, 32, 0), (2, 0, 1), (0, 0, 1), (0, 0, 0)):
        refuse(t, v, "R029", f"dtype {d}", dtype=d, **kw)
    m = fake(t, v, "float32 with 2 lanes", "R028", dtype=(2, 32, 2), **kw)
    with taken(t, v, m) as r:
        if r.error is None and r.look is not None:
            whole = r.look.dtype == (2, 32, 2) or (r.look.dtype == (2, 32, 1) and r.look.shape[-1:] == (2,))
            v.expect(whole, "R028", f"taken as {r.look.dtype} {r.look.shape}")


@check("consumer", "R024", "R025", "R289", *OWN)
def take_dtypes(t: Target, v: Verdict) -> None:
    """bool stays bool, complex counts both parts, integers and floats of all widths keep their elements."""
    need(t)
    m = fake(t, v, "bool", "R024", shape=(4,), strides=(1,), dtype=(6, 8, 1), fill=b"\1\0\1\1")
    with taken(t, v, m) as r:
        if r.error is None and r.look is not None:
            v.expect(
                r.look.dtype[1:] == (8, 1) and list(map(int, r.look.values())) == [1, 0, 1, 1],
                "R024",
                f"{r.look}",
            )
            v.expect(r.look.dtype[0] == 6, "R289", f"bool was taken as {r.look.dtype}")
        elif r.error is not None:
            v.note(f"bool refused: {brief(r.error)}")
    for bits, fmt in ((64, "<8f"), (128, "<8d")):
        fill = struct.pack(fmt, *range(8))
        m = fake(t, v, f"complex of {bits} bits", "R025", shape=(4,), strides=(1,), dtype=(5, bits, 1), fill=fill)
        with taken(t, v, m) as r:
            if r.error is None and r.look is not None:
                want = [complex(2 * i, 2 * i + 1) for i in range(4)]
                v.expect(r.look.dtype == (5, bits, 1) and r.look.values() == want, "R025", f"{r.look.values()[:2]}")
    for code, bits, fmt in (
        (0, 8, "b"),
        (0, 16, "h"),
        (0, 64, "q"),
        (1, 8, "B"),
        (1, 32, "I"),
        (2, 16, "e"),
        (2, 64, "d"),
    ):
        fill = struct.pack(f"<6{fmt}", *range(6))
        m = fake(t, v, f"dtype ({code}, {bits}, 1)", dtype=(code, bits, 1), fill=fill)
        with taken(t, v, m) as r:
            if r.error is None and r.look is not None and r.look.dtype == (code, bits, 1):
                v.expect(r.look.values() == list(range(6)), "R025", f"{r.look.values()}")


@check("consumer", "R020", "R031", *OWN)
def take_subbyte(t: Target, v: Verdict) -> None:
    """Packed and padded 4-bit elements are told apart, or refused."""
    need(t)
    if not _forms(t):
        raise Skip("takes no versioned tensors")
    seen = {}
    for text, flags, fill in (("packed fp4", 0, b"\x10\x32"), ("padded fp4", abi.PADDED, b"\0\1\2\3")):
        m = fake(
            t,
            v,
            text,
            "R020" if flags else "R031",
            shape=(4,),
            strides=(1,),
            dtype=(17, 4, 1),
            version=(1, 1),
            flags=flags,
            fill=fill,
        )
        with taken(t, v, m) as r:
            if r.error is None:
                again, err = attempt(lambda res=r.result: abi.Export(res.__dlpack__(max_version=(1, 3))))
                seen[text] = (again.flags & abi.PADDED, again.dtype) if err is None else None
                del again
            else:
                v.note(f"{text} refused: {brief(r.error)}")
    if not seen:
        v.skip("R020", "refuses 4-bit elements")
        v.skip("R031", "refuses 4-bit elements")
    if seen.get("packed fp4"):
        v.expect(not seen["packed fp4"][0], "R031", "packed data came back as padded")
    if seen.get("padded fp4"):
        padded, dtype = seen["padded fp4"]
        v.expect(bool(padded) or dtype[1] == 8, "R020", "padded data came back as packed")


@check("consumer", "R033", "R034", "R045", "R047", *OWN)
def take_impossible(t: Target, v: Verdict) -> None:
    """Sizes that overflow, negative extents, missing lists, no data: refused and released."""
    need(t)
    big = 1 << 62
    for shape in ((big, 4), (1 << 32, 1 << 32, 16), (3, -1), (-5,)):
        refuse(
            t,
            v,
            "R034",
            f"shape {shape}",
            shape=shape,
            strides=None,
            **({"version": (1, 0)} if _forms(t) else {}),
        )
    refuse(t, v, "R033", "2**61 float64 elements", shape=(1 << 61,), strides=(1,), dtype=(2, 64, 1))
    refuse(t, v, "R045", "data NULL, 6 elements", data=0)
    refuse(t, v, "R047", "ndim -1", ndim=-1)
    refuse(t, v, "R047", "ndim 2, shape NULL", null_shape=True)
    refuse(t, v, "R047", "ndim -2147483648", ndim=-(1 << 31))


@check("consumer", "R042", "R039", "R041", *OWN)
def take_offsets(t: Target, v: Verdict) -> None:
    """byte_offset is honoured, in every form and for scalars; data aligned to one element only."""
    need(t)
    accept(t, v, "R042", "byte_offset 8", F[2:8], byte_offset=8)
    accept(t, v, "R039", "byte_offset 64, data at the base", F[16:22], byte_offset=64)
    accept(t, v, "R042", "byte_offset 8, no axes", [2.0], byte_offset=8, shape=(), strides=None)
    accept(
        t,
        v,
        "R042",
        "byte_offset 8, unversioned, strides NULL",
        F[2:8],
        byte_offset=8,
        strides=None,
        versioned=False,
    )
    for shift in (4, 12, 20):
        accept(t, v, "R041", f"data {shift} above a multiple of 256", F[:6], shift=shift)


@check("consumer", "R044", *OWN)
def take_empty(t: Target, v: Verdict) -> None:
    """Arrays without elements, with data NULL and with data that cannot be read."""
    need(t)
    for shape, strides in (((0,), (1,)), ((0, 3), (3, 1)), ((2, 0, 3), (3, 3, 1)), ((2, 0), (7, 9))):
        for data, text in ((0, "NULL"), (0xDEAD0000, "a wild address")):
            accept(t, v, "R044", f"shape {shape}, data {text}", None, shape=shape, strides=strides, data=data)


@check("consumer", "R046", *OWN)
def take_scalar(t: Target, v: Verdict) -> None:
    """No axes: shape and strides may be NULL; there is one element."""
    need(t)
    accept(t, v, "R046", "ndim 0, both lists NULL", [0.0], shape=(), strides=None, null_shape=True)
    accept(t, v, "R046", "ndim 0, lists given", [0.0], shape=(), strides=())


@check("consumer", "R048", "R052", "R053", "R054", *OWN)
def take_strides(t: Target, v: Verdict) -> None:
    """Strides count elements; transposed, spaced, zero and negative ones; those of size-1 axes mean nothing."""
    need(t)
    right_or_refused(t, v, "R048", "strides (1, 2)", [0.0, 2.0, 4.0, 1.0, 3.0, 5.0], strides=(1, 2))
    right_or_refused(t, v, "R048", "strides (8, 2)", [0.0, 2.0, 4.0, 8.0, 10.0, 12.0], strides=(8, 2))
    right_or_refused(t, v, "R052", "strides (0, 1)", F[:3] * 2, strides=(0, 1))
    right_or_refused(
        t,
        v,
        "R053",
        "strides (-1)",
        [5.0, 4.0, 3.0, 2.0, 1.0, 0.0],
        shape=(6,),
        strides=(-1,),
        byte_offset=20,
    )
    right_or_refused(t, v, "R053", "strides (-3, 1)", [3.0, 4.0, 5.0, 0.0, 1.0, 2.0], strides=(-3, 1), byte_offset=12)
    accept(t, v, "R054", "shape (1, 3), strides (77, 1)", F[:3], shape=(1, 3), strides=(77, 1))
    accept(t, v, "R054", "shape (3, 1), strides (1, -5)", F[:3], shape=(3, 1), strides=(1, -5))


@check("consumer", "R051", *OWN)
def take_null_strides_new(t: Target, v: Verdict) -> None:
    """Version 1.2 or later with strides NULL: row-major, or refused by a strict consumer."""
    need(t)
    if not _forms(t):
        raise Skip("takes no versioned tensors")
    right_or_refused(t, v, "R051", "version 1.3, strides NULL", F[:6], version=(1, 3), strides=None)


@check("consumer", "R015", "R016", "R280", *OWN)
def take_readonly(t: Target, v: Verdict) -> None:
    """READ_ONLY memory is taken, and cannot be written through the result; it is read-only in fact."""
    need(t)
    if not _forms(t):
        raise Skip("takes no versioned tensors")
    m = fake(t, v, "READ_ONLY, pages read-only", "R016", shape=(6,), strides=(1,), flags=abi.READ_ONLY)
    with taken(t, v, m) as r:
        if not v.expect(r.error is None, "R016", f"raised {r.error and brief(r.error)}"):
            v.skip("R015", "refuses read-only memory")
            v.skip("R280", "refuses read-only memory")
            return
        _, err = attempt(t.write, r.result, 0, 77.0)
        now = struct.unpack("<f", abi.peek(m.base, 4))[0]
        v.expect(now == 0.0, "R015", "a write through the result changed the memory")
        ai = getattr(r.result, "__array_interface__", None)
        exported, err = attempt(lambda res=r.result: abi.Export(res.__dlpack__(max_version=(1, 3))))
        if ai is not None and r.look and r.look.address == m.base:
            v.expect(ai["data"][1] is True, "R280", "__array_interface__ says that it may be written")
        if err is None and exported.versioned and exported.data == m.base:
            v.expect(bool(exported.flags & abi.READ_ONLY), "R280", "the flag is lost on the way out")
        view, berr = attempt(memoryview, r.result)
        if berr is None:
            v.expect(view.readonly, "R280", "the buffer says that it may be written")
        del exported, ai, view, err, berr


@check("consumer", "R059")
def take_without_deleter(t: Target, v: Verdict) -> None:
    """A tensor whose deleter is NULL: nothing is called."""
    need(t)
    m = fake(t, v, "deleter NULL", deleter=False)
    r, err = attempt(t.from_dlpack, Producer(m))
    v.expect(err is None, "R059", f"raised {err and brief(err)}")
    del r, err
    gc.collect()
    m = fake(t, v, "deleter NULL, refused", deleter=False, dtype=(200, 32, 1))
    r, err = attempt(t.from_dlpack, Producer(m))
    del r, err
    gc.collect()


class _CapsuleKeeper(Producer):
    """Keeps the capsule that it gave."""

    cap: Any = None

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls.append(kwargs)
        if self.cap is None:
            self.cap = self.managed.capsule()
        return self.cap


@check("consumer", "R075", "R081", "R076", "R080", "R060")
def take_capsule_names(t: Target, v: Verdict) -> None:
    """The capsule is renamed when taken, left alone when refused, never taken twice."""
    need(t)
    m = fake(t, v, "capsule kept by the producer")
    p = _CapsuleKeeper(m)
    r, err = attempt(t.from_dlpack, p)
    if err is not None:
        v.expect(False, "R075", f"raised {brief(err)}")
        return
    name = abi.name_of(p.cap)
    alive = not m.deleted
    v.expect(name == b"used_" + m.fresh, "R075", f"the capsule is called {name!r} while the result lives")
    v.input("the same capsule again", "R081")
    if alive:
        r2, err = attempt(t.from_dlpack, p)
        v.expect(err is not None, "R081", "a capsule was taken twice")
        del r2
    del r, err
    settle(lambda: m.deleted > 0, 0.3)
    p.cap = None
    gc.collect()
    v.expect(m.deleted == 1, "R060", f"the deleter ran {m.deleted} times")
    for bad in (b"used_dltensor_versioned", b"used_dltensor", b"nonsense"):
        m = fake(t, v, f"a capsule called {bad.decode()}")
        p = _CapsuleKeeper(m)
        p.cap = m.capsule(name=bad)
        r, err = attempt(t.from_dlpack, p)
        v.expect(err is not None, "R076", "accepted")
        del r, err
        gc.collect()
        v.expect(m.deleted == 0 and abi.name_of(p.cap) == bad, "R076", "touched")
    m = fake(t, v, "refused for its dtype", dtype=(200, 32, 1))
    p = _CapsuleKeeper(m)
    r, err = attempt(t.from_dlpack, p)
    if err is not None:
        fresh = abi.name_of(p.cap) == m.fresh
        v.expect(fresh == (m.deleted == 0), "R080", f"name {abi.name_of(p.cap)!r}, deleter ran {m.deleted} times")
    del r, err
    p.cap = None
    gc.collect()
    v.expect(m.deleted == 1, "R080", f"released {m.deleted} times in all")


# --- how the producer is asked ----------------------------------------------


@check("consumer", "R122", "R156", "R164", "R147")
def asks_politely(t: Target, v: Verdict) -> None:
    """max_version is passed, the device is asked first, dl_device and copy are left out when not wanted."""
    need(t)
    v.input("a producer that records its calls")
    m, old = Managed(), Managed(versioned=False)
    p = Producer(m, legacy=old)
    r, err = attempt(t.from_dlpack, p)
    if not p.calls:
        raise Skip(f"did not call __dlpack__: {err and brief(err)}")
    first = p.calls[0]
    v.expect(any((c.get("max_version") or (0,))[0] >= 1 for c in p.calls), "R122", f"called with {p.calls}")
    v.expect("device" in p.order and p.order.index("device") < p.order.index("dlpack"), "R156", f"order {p.order}")
    for key in ("dl_device", "copy"):
        v.expect(first.get(key, ...) is ..., "R164", f"passed {key}={first.get(key)!r}")
    del r, err
    p = Producer(Managed(), legacy=Managed(versioned=False))
    r, err = attempt(t.from_dlpack, p, device="cpu")
    asked = [c for c in p.calls if c.get("dl_device")]
    if not asked:
        v.skip("R147", "does not pass dl_device")
    for c in asked:
        v.expect(c.get("stream") is None, "R147", f"passed stream={c.get('stream')!r} with dl_device")
    del r, err


class _Old:
    """A producer of 2021: only stream."""

    def __init__(self, m: Managed) -> None:
        self.m, self.calls = m, 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return abi.home()

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.calls += 1
        return self.m.capsule()


class _Ancient(_Old):
    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        self.calls += 1
        return self.m.capsule()


class _Raises:
    def __init__(self, error: Exception) -> None:
        self.error, self.calls = error, 0

    def __dlpack_device__(self) -> tuple[int, int]:
        return abi.home()

    def __dlpack__(self, **kwargs: Any) -> Any:
        self.calls += 1
        raise self.error


@check("consumer", "R123", "R124", "R163")
def asks_again(t: Target, v: Verdict) -> None:
    """An old producer is asked again without the new keywords; other exceptions pass through at once."""
    need(t)
    for cls in (_Old, _Ancient):
        v.input("a producer that knows only stream", "R123")
        m = Managed(versioned=False)
        r, err = attempt(t.from_dlpack, cls(m))
        v.expect(err is None, "R123", f"raised {err and brief(err)}")
        del r, err
    for kind in (KeyError, BufferError, ValueError, ZeroDivisionError):
        e = kind("the producer's own")
        p = _Raises(e)
        v.input(f"a producer that raises {kind.__name__}", "R163")
        _, err = attempt(t.from_dlpack, p)
        v.expect(
            err is e or (type(err) is kind and "the producer's own" in str(err)),
            "R163",
            f"got {err and brief(err)}",
        )
        v.expect(p.calls <= 1, "R124", f"asked {p.calls} times")


@check("consumer", "R158", "R112")
def asks_without_dunders(t: Target, v: Verdict) -> None:
    """An object without the methods: AttributeError. One without an exchange table: __dlpack__ is used."""
    need(t)
    for x in (object(), None, 5):
        v.input(type(x).__name__, "R158")
        _, err = attempt(t.from_dlpack, x)
        v.expect(
            isinstance(err, AttributeError),
            "R158",
            f"{'accepted' if err is None else 'raised ' + brief(err)}",
        )
    m = fake(t, v, "no exchange table", "R112")
    p = Producer(m)
    r, err = attempt(t.from_dlpack, p)
    v.expect(bool(p.calls), "R112", "__dlpack__ was not called")
    del r, err


@check("consumer", "R159", "R160", "R161", "R162", "R125")
def asks_device_and_copy(t: Target, v: Verdict) -> None:
    """device= and copy=: kept, or refused with the right exception."""
    need(t)
    m = fake(t, v, "device None", "R159")
    with taken(t, v, m, once=False) as r:
        if r.look is not None:
            v.expect(tuple(r.look.device) == abi.home(), "R159", f"device {r.look.device}")
    v.input("copy=True", "R162")
    p = Producer(Managed(), legacy=Managed(versioned=False))
    kept = (p.managed, p.legacy)
    r1, err = attempt(t.from_dlpack, p, copy=True)
    if isinstance(err, (Unsupported, TypeError, NotImplementedError)):
        for rule in ("R161", "R162", "R125", "R160"):
            v.skip(rule, "from_dlpack has no device and copy")
        return
    asked = any(c.get("copy") is True for c in p.calls)
    if err is None:
        got, lerr = attempt(t.look, r1)
        if got is not None and not asked:
            v.expect(got.address not in {m.base for m in kept if m}, "R162", "shares memory with the source")
        elif got is not None:
            v.note("relies on the producer to copy; a producer that ignores copy=True is not noticed")
    del r1, err
    v.input("copy=True, a producer that knows only stream", "R125")
    m = Managed(versioned=False)
    r1, err = attempt(t.from_dlpack, _Old(m), copy=True)
    if err is None:
        got, lerr = attempt(t.look, r1)
        v.expect(got is None or got.address != m.base, "R125", "copy=True was dropped with the keywords")
    else:
        v.expect(isinstance(err, (BufferError, ValueError, TypeError, NotImplementedError)), "R125", brief(err))
    del r1, err

    class Gpu(Producer):
        def __dlpack__(self, **kwargs: Any) -> Any:
            self.calls.append(kwargs)
            if kwargs.get("dl_device") == (1, 0):
                raise BufferError("cannot serve the CPU")
            return self.managed.capsule()

    v.input("device='cpu', a producer on another device that cannot serve it", "R160")
    m = Managed(device=(2, 0), data=0xDEAD0000)
    _, err = attempt(t.from_dlpack, Gpu(m), device="cpu")
    v.expect(isinstance(err, BufferError), "R160", f"{'accepted' if err is None else 'raised ' + brief(err)}")
    v.input("device='cpu', copy=False, memory on another device", "R161")
    _, err = attempt(t.from_dlpack, Gpu(Managed(device=(2, 0), data=0xDEAD0000)), device="cpu", copy=False)
    v.expect(
        isinstance(err, (BufferError, ValueError)),
        "R161",
        f"{'accepted' if err is None else 'raised ' + brief(err)}",
    )


@check("consumer", "R290", "R283", "R282")
def hands_on(t: Target, v: Verdict) -> None:
    """A result handed on: pointer with the offset, strides in bytes, the first owner kept to the end."""
    need(t)
    m = fake(t, v, "byte_offset 8, handed on by every protocol", byte_offset=8, strides=(4, 1))
    r, err = attempt(t.from_dlpack, Producer(m))
    if err is not None:
        raise Skip(f"refused: {brief(err)}")
    ai = getattr(r, "__array_interface__", None)
    got, lerr = attempt(t.look, r)
    if got is None or got.address != m.base + 8:
        v.skip("R290", "copies")
    if ai is not None and got is not None and got.address == m.base + 8:
        v.expect(ai["data"][0] == m.base + 8, "R283", f"pointer is {ai['data'][0] - m.base:#x} above data")
        v.expect(tuple(ai.get("strides") or ()) == (16, 4), "R282", f"strides {ai.get('strides')}")
    elif ai is None:
        v.skip("R283", "offers no pointer protocol")
        v.skip("R282", "offers no pointer protocol")
    second, err = attempt(lambda: abi.Export(r.__dlpack__(max_version=(1, 3))))
    if err is not None:
        second, err = attempt(lambda: abi.Export(r.__dlpack__()))
    if err is None and second.data == m.base + 8:
        del r
        gc.collect()
        v.expect(m.deleted == 0, "R290", "the owner was released while the memory is still lent")
        del second
        v.expect(settle(lambda: m.deleted == 1), "R290", "the owner is never released")
