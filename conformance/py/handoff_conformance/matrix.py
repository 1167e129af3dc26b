"""The matrix: what happens when one library's array is given to another."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import abi, targets
from .checks_producer import expected, versioned
from .core import attempt, brief, settle
from .targets import Target, Unsupported

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn",
          "float4_e2m1fn", "int4")  # fmt: skip

LAYOUTS: tuple[tuple[str, tuple[int, ...], str, tuple[str, ...]], ...] = (
    ("scalar", (), "C", ("R046",)),
    ("no elements", (0, 3), "C", ("R043", "R044")),
    ("column-major", (2, 3), "F", ("R048",)),
    ("sliced", (2, 3), "sliced", ("R039", "R042", "R048")),
    ("reversed", (6,), "reversed", ("R053",)),
    ("4 bytes above 64", (6,), "offset", ("R040", "R041")),
    ("broadcast", (3, 2), "broadcast", ("R052",)),
    ("read-only", (6,), "readonly", ("R014", "R015", "R016", "R057")),
    ("size-1 axis", (2, 1, 3), "C", ("R054",)),
)
_DTYPE_RULES = {"bool": ("R024", "R289"), "bfloat16": ("R026",), "complex64": ("R025",), "complex128": ("R025",),
                "float6_e2m3fn": ("R020", "R022"), "float4_e2m1fn": ("R020", "R023"), "int4": ("R031",)}  # fmt: skip


def cells() -> list[dict[str, Any]]:
    """The inputs, in order: element types in row-major order, then float32 in other layouts."""
    out = []
    for d in DTYPES:
        rules = _DTYPE_RULES.get(d, ("R007", "R027") if d.startswith("float8") else ("R027", "R039"))
        out.append({"protocol": "dlpack", "case": d, "dtype": d, "shape": (2, 3), "layout": "C", "rules": rules})
    for name, shape, layout, rules in LAYOUTS:
        out.append(
            {
                "protocol": "dlpack",
                "case": name,
                "dtype": "float32",
                "shape": shape,
                "layout": layout,
                "rules": rules,
            }
        )
    out.append({"protocol": "dlpack", "case": "a write pending", "dtype": "float32", "shape": (64,), "layout": "C",
                "rules": ("R137", "R139")})  # fmt: skip
    for name, shape, layout, rules in (
        ("float32", (2, 3), "C", ("R172", "R195")),
        ("sliced", (2, 3), "sliced", ("R178",)),
        ("read-only", (6,), "readonly", ("R175", "R176")),
        ("no elements", (0, 3), "C", ("R173", "R174")),
        ("a write pending", (64,), "C", ("R188", "R191")),
    ):
        out.append({"protocol": "cuda array interface", "case": name, "dtype": "float32", "shape": shape,
                    "layout": layout, "rules": rules})  # fmt: skip
    for protocol, base in (("buffer", ("R230", "R231")), ("array interface", ("R206", "R219"))):
        out.append(
            {
                "protocol": protocol,
                "case": "float32",
                "dtype": "float32",
                "shape": (2, 3),
                "layout": "C",
                "rules": base,
            }
        )
        for name, shape, layout, _ in LAYOUTS:
            if layout in ("sliced", "reversed", "readonly"):
                more = {"buffer": {"readonly": ("R242", "R243")}, "array interface": {"readonly": ("R211",)}}[protocol]
                out.append({"protocol": protocol, "case": name, "dtype": "float32", "shape": shape, "layout": layout,
                            "rules": more.get(layout, ("R246",) if protocol == "buffer" else ("R212",))})  # fmt: skip
    return out


def _way(t: Target, protocol: str) -> Callable[..., Any] | None:
    ways = {
        "dlpack": t.from_dlpack,
        "buffer": t.from_buffer,
        "array interface": t.from_array_interface,
        "cuda array interface": t.from_cai,
    }
    return ways[protocol]


def pending(p: Target, c: Target, cell: dict[str, Any]) -> dict[str, Any]:
    """A write of the producer is held back while the consumer takes the array for work on a stream of its own."""
    dlpack = cell["protocol"] == "dlpack"
    take = c.take_on if dlpack else c.take_cai_on
    if p.writer is None or take is None or p.machine is None or c.machine is None:
        return {"status": "missing", "what": "one side works on no stream that it is told"}
    if p is c and not c.explicit:
        return {"status": "missing", "what": "a library has one current stream: nobody can tell its own array's"}
    m = p.machine
    theirs, mine = m.new_stream(), m.new_stream()
    x, write, scope = p.writer(theirs)
    if not hasattr(x, "__dlpack__" if dlpack else "__cuda_array_interface__"):
        return {"status": "missing", "what": f"{p.name} does not speak it"}
    with scope():
        r, err = attempt(take, x, mine)  # loads what it needs
    if isinstance(err, Unsupported):
        return {"status": "missing", "what": str(err)}
    if err is not None:
        return {"status": "refused", "what": f"raised {brief(err)}", "how": type(err).__name__}
    m.sync(mine)
    m.sync(theirs)
    del r
    gate = m.gate(theirs)
    with scope():
        write()
        named = None if dlpack else x.__cuda_array_interface__.get("stream")
        r, err = attempt(take, x, mine)
    waits = not settle(lambda: m.done(mine), 0.05)
    gate.open()
    m.sync(theirs)
    m.sync(mine)
    if err is not None:
        return {"status": "refused", "what": f"raised {brief(err)}", "how": type(err).__name__}
    if gate.late:
        return {"status": "zero-copy", "what": "shared; the host waited for the write"}
    if waits:
        return {"status": "zero-copy", "what": "shared; the consumer's stream waits for the write"}
    # By DLPack the producer orders, by the other protocol the consumer, if a stream is named.
    blame = "producer" if dlpack or named is None else "consumer"
    return {"status": "wrong", "what": "taken, and nothing waits for the write: a race", "blame": blame}


def _array(p: Target, dtype: str, shape: Sequence[int], layout: str) -> tuple[Any, Exception | None]:
    """An array of the producer at a multiple of 64 bytes: some libraries share no other, and that must not be luck."""
    before: list[Any] = []
    while True:
        x, err = attempt(p.array, dtype, shape, layout)
        if err is not None or layout not in ("C", "F", "readonly") or len(before) == 64:
            return x, err
        got, err = attempt(p.look, x)
        if got is None or got.address % 64 == 0:
            return x, None
        before.append(x)  # kept, so that the next one is elsewhere


def exchange(p: Target, c: Target, cell: dict[str, Any]) -> dict[str, Any]:
    """One cell: its status, and what happened in words."""
    if cell["case"] == "a write pending":
        return pending(p, c, cell)
    take = _way(c, cell["protocol"])
    if take is None:
        return {"status": "missing", "what": f"{c.name} takes no {cell['protocol']}"}
    x, err = _array(p, cell["dtype"], cell["shape"], cell["layout"])
    if err is not None and len(cell["shape"]) == 2 and cell["layout"] == "C":
        x, err = _array(p, cell["dtype"], (6,), "C")  # libraries of one axis
    if isinstance(err, Unsupported):
        return {"status": "missing", "what": f"{p.name} has no such array: {err}"}
    if err is not None:
        return {"status": "missing", "what": f"{p.name} makes no such array: {brief(err)}"}
    if cell["protocol"] == "dlpack" and not hasattr(x, "__dlpack__"):
        return {"status": "missing", "what": f"{p.name} has no __dlpack__"}
    if cell["protocol"] == "array interface" and not hasattr(x, "__array_interface__"):
        return {"status": "missing", "what": f"{p.name} has no __array_interface__"}
    if cell["protocol"] == "cuda array interface" and not hasattr(x, "__cuda_array_interface__"):
        return {"status": "missing", "what": f"{p.name} has no __cuda_array_interface__"}
    if cell["protocol"] == "buffer":
        _, err = attempt(memoryview, x)
        if err is not None:
            return {"status": "missing", "what": f"{p.name} exports no buffer"}
    before, perr = attempt(p.look, x)
    r, err = attempt(take, x)
    if isinstance(err, Unsupported):
        return {"status": "missing", "what": str(err)}
    if err is not None:
        by = p.name
        if cell["protocol"] == "dlpack":
            _, own = attempt(versioned, x)
            by = p.name if own is not None else c.name
        return {"status": "refused", "what": f"{by} raised {brief(err)}", "how": type(err).__name__}
    after, lerr = attempt(c.look, r)
    if after is None or perr is not None or before is None:
        return {
            "status": "taken",
            "what": f"taken; cannot be looked into: {brief(lerr or perr or Exception())}",
        }
    size = max(after.dtype[1] * after.dtype[2] // 8, 1)
    n = 1
    for s in after.shape:
        n *= s
    want = expected(cell["dtype"], tuple(after.shape), cell["layout"]) if cell["dtype"] in _PLAIN else None
    same = before.address == after.address
    if n and want is not None and list(after.values()) != want:
        return {"status": "wrong", "what": f"elements {after.values()[:6]}, not {want[:6]}"}
    if tuple(after.shape) != tuple(before.shape):
        return {"status": "wrong", "what": f"shape {after.shape}, not {before.shape}"}
    if not n:
        return {"status": "zero-copy", "what": "taken; there is nothing to copy"}
    readonly = bool(p.readonly_arrays or before.readonly or cell["layout"] == "readonly")
    text = f"{after.dtype} {after.shape} strides {after.strides}"
    if same and readonly and after.readonly is False and not c.readonly_arrays:
        return {
            "status": "zero-copy",
            "what": f"shared; read-only memory came out writable; {text}",
            "lost": True,
        }
    if not same:
        return {"status": "copied", "what": f"copied, {text}"}
    if not readonly and cell["dtype"] in _PLAIN and cell["layout"] != "broadcast":
        # A byte written where the producer has it must show where the consumer looks.
        at = before.address
        old = abi.peek(at, size)
        abi.poke(at, bytes(255 - b for b in old) if cell["dtype"] != "bool" else bytes([1 - old[0]]))
        seen, _ = attempt(c.look, r)
        visible = seen is not None and abi.peek(seen.address, size) != old
        abi.poke(at, old)
        if not visible:
            return {"status": "copied", "what": f"same address, and a write does not show; {text}"}
        return {"status": "zero-copy", "what": f"shared, a write shows; {text}"}
    return {"status": "zero-copy", "what": f"shared, {'read-only' if readonly else 'same address'}; {text}"}


_PLAIN = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"}  # fmt: skip


def run(producer: str, consumer: str, say: Callable[..., None], after: int, only: int = -1) -> int:
    """Prints the cells of a pair, or only one of them. after: how many were done before."""
    try:
        say(at=f"importing {producer}")
        p = targets.find(producer)
        if consumer != producer:
            say(at=f"importing {consumer} after {producer}")
        c = targets.find(consumer) if consumer != producer else p
    except targets.Missing as e:
        say(missing=str(e))
        return 3
    say(producer=p.name, consumer=c.name, versions=[p.version, c.version])
    gc.collect()
    gc.freeze()
    for i, cell in enumerate(cells()):
        if i < after or only not in (-1, i):
            continue
        say(start=str(i), cell=cell)
        result, err = attempt(exchange, p, c, cell)
        lost = abi.machine.lost() if hasattr(abi.machine, "lost") else ""
        if lost:
            sys.stderr.write(f"Lost: {lost}\n")
            return 86
        if err is not None:
            result = {"status": "error", "what": brief(err)}
        say(cell={**cell, **result})
        gc.collect()
    say(end=True)
    return 0
