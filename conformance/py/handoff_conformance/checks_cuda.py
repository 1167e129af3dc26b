"""Checks of the CUDA Array Interface and of `__cuda_stream__`.

Those of the metadata need no GPU: an address that nobody reads does. What depends on the order of work
on a stream is decided by the Go half on the software device, and for Python libraries with a GPU.
"""

from __future__ import annotations

import gc
from typing import Any

from . import abi
from .checks_host import TYPESTR
from .checks_producer import simple
from .core import Skip, Verdict, attempt, brief, check
from .targets import Target

WILD = 0x7F00DEAD0000


def _interface(t: Target) -> Any:
    x = simple(t)
    try:
        cai = x.__cuda_array_interface__
    except AttributeError:
        raise Skip("its arrays have no __cuda_array_interface__") from None
    return x, cai


@check("cai", "R166", "R167", "R169", "R170", "R172", "R178", "R184", "R197", "R190")
def cai_form(t: Target, v: Verdict) -> None:
    """The dict, its keys and their types; the stream is None, 1, 2 or a handle."""
    x, cai = _interface(t)
    v.input("__cuda_array_interface__ of a small array")
    if not v.expect(isinstance(cai, dict), "R166", f"a {type(cai).__name__}"):
        return
    missing = {"shape", "typestr", "data", "version"} - set(cai)
    if not v.expect(not missing, "R167", f"no {sorted(missing)}"):
        return
    s = cai["shape"]
    v.expect(isinstance(s, tuple) and all(isinstance(n, int) and n >= 0 for n in s), "R169", f"shape {s!r}")
    v.expect(isinstance(cai["typestr"], str) and bool(TYPESTR.match(cai["typestr"])), "R170", f"{cai['typestr']!r}")
    d = cai["data"]
    ok = isinstance(d, tuple) and len(d) == 2 and isinstance(d[0], int) and isinstance(d[1], bool)
    v.expect(ok, "R172", f"data {d!r}")
    st = cai.get("strides")
    if st is not None:
        v.expect(
            isinstance(st, tuple) and len(st) == len(s) and all(isinstance(n, int) for n in st),
            "R178",
            f"{st!r}",
        )
    v.expect(
        isinstance(cai["version"], int) and not isinstance(cai["version"], bool),
        "R197",
        f"{cai['version']!r}",
    )
    stream = cai.get("stream")
    v.expect(stream is None or (isinstance(stream, int) and stream != 0), "R184", f"stream {stream!r}")
    if t.pending_stream is not None:
        got = t.pending_stream()
        v.expect(got.get("stream") is not None, "R190", "work is pending, and the default is to name no stream")
    else:
        v.skip("R190", "no way to make work pending")


@check("cai", "R173", "R287")
def cai_empty(t: Target, v: Verdict) -> None:
    """No elements: the pointer is 0."""
    _interface(t)
    x = t.array("float32", (0, 3))
    v.input("shape (0, 3)")
    cai = x.__cuda_array_interface__
    if cai.get("version", 0) < 2:
        raise Skip("version below 2")
    v.expect(cai["data"][0] == 0, "R173", f"pointer {cai['data'][0]:#x}")
    if "R173" in v.broken:
        v.broken["R287"] = v.broken["R173"]


@check("cai", "R176", "R280")
def cai_readonly(t: Target, v: Verdict) -> None:
    """Read-only memory says so."""
    _interface(t)
    x = t.array("float32", (4,), "readonly")
    v.input("read-only array")
    v.expect(x.__cuda_array_interface__["data"][1] is True, "R176", "data[1] is False")
    if "R176" in v.broken:
        v.broken["R280"] = v.broken["R176"]


@check("cai", "R198")
def cai_no_typestr(t: Target, v: Verdict) -> None:
    """bfloat16 has no typestr: the attribute is absent."""
    _interface(t)
    x = t.array("bfloat16", (4,))
    v.input("bfloat16")
    _, err = attempt(lambda: x.__cuda_array_interface__)
    v.expect(isinstance(err, AttributeError), "R198", f"{'a dict' if err is None else brief(err)}")


@check("cai", "R199")
def cai_absent_on_host(t: Target, v: Verdict) -> None:
    """Arrays on the CPU have no __cuda_array_interface__."""
    x = simple(t)
    if abi.on_device() or (hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) != 1):
        raise Skip("not host memory")
    v.input("an array in host memory")
    if getattr(t, "pretends_gpu", False):
        raise Skip("its arrays pretend to be on a GPU")
    v.expect(not hasattr(x, "__cuda_array_interface__"), "R199", "has the attribute")


@check("cai", "R192", "R193")
def cai_stream_of_idle(t: Target, v: Verdict) -> None:
    """Nothing pending: no stream. A stream that is named lives as long as the array."""
    x, cai = _interface(t)
    if cai.get("version", 0) < 3:
        raise Skip("version below 3 has no stream")
    v.input("an array without pending work")
    v.expect(cai.get("stream") is None, "R192", f"stream {cai.get('stream')}")
    if t.pending_stream is None:
        v.skip("R193", "no way to make work pending")
        return
    s = t.pending_stream()["stream"]
    v.expect(t.stream_alive(s), "R193", f"stream {s} is gone while its array lives")


def address() -> int:
    """Device memory where there is any, else an address that nobody may read."""
    return int(abi.machine.allocate(4096)) if abi.on_device() else WILD


class _CAI:
    def __init__(self, **change: Any) -> None:
        self.d: Any = {"shape": (2, 3), "typestr": "<f4", "data": (address(), False), "version": 3}
        self.d.update(change)
        self.d = {k: w for k, w in self.d.items() if w is not ...}

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.d


def _take(t: Target) -> Any:
    if t.from_cai is None:
        raise Skip("takes no __cuda_array_interface__ here")
    return t.from_cai


@check("cai", "R168", "R171", "R179", "R181", "R184")
def cai_refused(t: Target, v: Verdict) -> None:
    """Malformed dicts, foreign byte order, masks and stream 0 are refused."""
    take = _take(t)
    for rule, text, change in (
        ("R168", "no shape", {"shape": ...}),
        ("R168", "no typestr", {"typestr": ...}),
        ("R168", "no data", {"data": ...}),
        ("R168", "data as text", {"data": ("x", False)}),
        ("R171", "typestr '>f4'", {"typestr": ">f4"}),
        ("R171", "typestr '|O8'", {"typestr": "|O8"}),
        ("R179", "three strides for two axes", {"strides": (12, 4, 4)}),
        ("R181", "a mask", {"mask": _CAI(typestr="|b1")}),
        ("R184", "stream 0", {"stream": 0}),
    ):
        v.input(text, rule)
        r, err = attempt(take, _CAI(**change))
        if err is None and str(getattr(getattr(r, "dtype", None), "str", "")).startswith(">"):
            v.note("takes foreign byte order, and its dtype says so")
            continue
        v.expect(err is not None, rule, "accepted")
        del r


@check("cai", "R174", "R175", "R177", "R180", "R182", "R183", "R185", "R186", "R196", "R288", "R195")
def cai_taken(t: Target, v: Verdict) -> None:
    """Optional keys left out, None or newer than known; streams 1 and 2; read-only; no elements."""
    take = _take(t)
    for rule, text, change in (
        ("R177", "strides missing", {}),
        ("R177", "strides None", {"strides": None}),
        ("R180", "descr with a numeric typestr", {"descr": [("", "<f4")]}),
        ("R182", "mask None", {"mask": None}),
        ("R183", "stream None", {"stream": None}),
        ("R183", "version 2", {"version": 2}),
        ("R185", "stream 1", {"stream": 1}),
        ("R186", "stream 2", {"stream": 2}),
        ("R196", "version 4", {"version": 4}),
        ("R174", "no elements, pointer 0", {"shape": (0,), "data": (0, False)}),
        ("R174", "no elements, a wild pointer", {"shape": (0,), "data": (WILD, False)}),
    ):
        v.input(text)
        r, err = attempt(take, _CAI(**change))
        if v.expect(err is None, rule, f"raised {err and brief(err)}") and rule == "R177":
            got, lerr = attempt(t.look, r)
            v.expect(got is None or tuple(got.strides) == (3, 1), "R177", f"strides {got and got.strides}")
    v.input("data (address, True)")
    r, err = attempt(take, _CAI(data=(address(), True)))
    if err is None:
        got, lerr = attempt(t.look, r)
        v.expect(got is None or got.readonly is True, "R175", "the view says that it may be written")
    v.input("device asked of the driver")
    r, err = attempt(take, _CAI())
    if err is None:
        got, lerr = attempt(t.look, r)
        v.expect(got is None or got.device[0] in (2, 3, 13), "R288", f"device {got and got.device}")
        v.expect(got is None or got.device[0] in (2, 3, 13), "R195", f"device {got and got.device}")


@check("cai", "R194")
def cai_keeps_object(t: Target, v: Verdict) -> None:
    """The view keeps the object that exported the dict."""
    take = _take(t)

    class Watched(_CAI):
        gone = False

        def __del__(self) -> None:
            Watched.gone = True

    v.input("an object that says when it is gone")
    r, err = attempt(take, Watched())
    gc.collect()
    v.expect(err is not None or not Watched.gone, "R194", "the object was dropped while the view lives")
    del r


@check("cai", "R286")
def cai_void_is_no_bfloat(t: Target, v: Verdict) -> None:
    """typestr V2 is not taken as bfloat16 by itself."""
    take = t.from_cai or t.from_array_interface
    if take is None:
        raise Skip("takes neither interface")
    v.input("typestr '|V2'")
    if t.from_cai is not None:
        x: Any = _CAI(typestr="|V2")
    else:
        from .checks_host import _AI, memory

        x = _AI(memory(), typestr="|V2")
    r, err = attempt(take, x)
    if err is None:
        got, lerr = attempt(lambda: t.look(r))
        v.expect(got is None or got.dtype is None or got.dtype[0] != 4, "R286", "was taken as bfloat16")


# --- __cuda_stream__ ---------------------------------------------------------


@check("stream", "R260", "R261", "R262", "R263", "R272", "R273", "R271")
def stream_form(t: Target, v: Verdict) -> None:
    """A method without arguments that gives (0, handle), the same handle while the stream lives."""
    made = t.stream() if t.stream is not None else None
    if made is None:
        raise Skip("makes no streams here")
    v.input("__cuda_stream__()")
    f = getattr(made, "__cuda_stream__", None)
    if not v.expect(callable(f), "R260", f"__cuda_stream__ is {type(f).__name__}"):
        return
    got, err = attempt(f)
    if not v.expect(err is None, "R260", f"raised {err and brief(err)}"):
        return
    ok = isinstance(got, tuple) and len(got) == 2
    ok = ok and all(isinstance(i, int) and not isinstance(i, bool) for i in got)
    if not v.expect(ok, "R261", f"{got!r}"):
        return
    v.expect(got[0] == 0, "R262", f"version {got[0]}")
    v.expect(0 <= got[1] < 1 << 64, "R263", f"handle {got[1]}")
    gc.collect()
    v.expect(made.__cuda_stream__()[1] == got[1], "R271", "the handle changed")
    if t.default_streams is None:
        v.skip("R272", "no default streams to ask")
        v.skip("R273", "no default streams to ask")
        return
    null, legacy, thread = t.default_streams()
    v.expect(
        null is None or null.__cuda_stream__()[1] in (0, 1, 2),
        "R272",
        "the default stream has another handle",
    )
    v.expect(legacy.__cuda_stream__()[1] == 1 and thread.__cuda_stream__()[1] == 2, "R273", "not 1 and 2")


class _Stream:
    def __init__(self, answer: Any, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error

    def __cuda_stream__(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.answer


@check("stream", "R264", "R265", "R266", "R267", "R268", "R272", "R273", "R275", "R277", "R269")
def stream_taken(t: Target, v: Verdict) -> None:
    """Streams whose method is missing, raises, or gives something else; the default handles; who is kept."""
    take = t.take_stream
    if take is None:
        raise Skip("takes no streams here")
    cases: list[tuple[str, str, Any]] = [
        ("R264", "no method", object()),
        ("R265", "one element", _Stream((0,))),
        ("R265", "three elements", _Stream((0, 5, 6))),
        ("R266", "version 1", _Stream((1, 5))),
        ("R266", "version -1", _Stream((-1, 5))),
        ("R267", "handle is text", _Stream((0, "5"))),
        ("R267", "handle is None", _Stream((0, None))),
        ("R268", "handle is True", _Stream((0, True))),
        ("R268", "handle is negative", _Stream((0, -5))),
        ("R268", "handle of 65 bits", _Stream((0, 1 << 64))),
    ]
    for rule, text, s in cases:
        v.input(text, rule)
        _, err = attempt(take, s)
        v.expect(err is not None, rule, "accepted")
    for rule, handle in (("R272", 0), ("R273", 1), ("R273", 2)):
        v.input(f"handle {handle}")
        r, err = attempt(take, _Stream((0, handle)))
        if v.expect(err is None, rule, f"raised {err and brief(err)}"):
            again = getattr(r, "__cuda_stream__", None)
            if again is not None:
                v.expect(again()[1] == handle, rule, f"became {again()[1]}")
    v.input("the method raises")
    e = ZeroDivisionError("its own")
    _, err = attempt(take, _Stream(None, e))
    v.expect(type(err) is ZeroDivisionError, "R277", f"{err and brief(err)}")
    v.input("an attribute instead of a method")

    class Old:
        __cuda_stream__ = (0, 1)

    _, err = attempt(take, Old())
    v.expect(err is None or isinstance(err, TypeError), "R275", f"raised {err and brief(err)}")

    class Watched(_Stream):
        gone = False

        def __del__(self) -> None:
            Watched.gone = True

    r, err = attempt(take, Watched((0, 1)))
    gc.collect()
    v.expect(err is not None or not Watched.gone, "R269", "the object was dropped while the handle is in use")
    del r


@check("stream", "R142", "R274")
def stream_translated(t: Target, v: Verdict) -> None:
    """Handle 0 is never passed on as 0: a consumer on the default stream passes 1 or 2."""
    if t.dlpack_stream is None:
        raise Skip("cannot be told which stream to work on here")
    v.input("work on a stream with handle 0")
    got = t.dlpack_stream(_Stream((0, 0)))
    v.expect(got != 0, "R142", "passed 0 to __dlpack__")
    v.expect(got in (1, 2, None, -1), "R274", f"passed {got!r}")
