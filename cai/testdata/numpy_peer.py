"""What NumPy says about typestrings, formats and dictionaries, for peer_test.go.

Reads one JSON object from stdin, writes one to stdout. A tuple is {"t": [...]}.
"""

import json
import struct
import sys
import warnings

import numpy as np
from numpy._core._internal import _dtype_from_pep3118


def plain(v):
    if isinstance(v, tuple):
        return {"t": [plain(x) for x in v]}
    if isinstance(v, list):
        return [plain(x) for x in v]
    return v


def python(v):
    if isinstance(v, dict):
        return tuple(python(x) for x in v["t"])
    if isinstance(v, list):
        return [python(x) for x in v]
    return v


def dtype(f, s):
    try:
        d = f(s)
    except Exception as e:  # any refusal counts
        return {"error": type(e).__name__}
    return {"str": d.str, "itemsize": d.itemsize}


def calcsize(s):
    try:
        return struct.calcsize(s)
    except struct.error:
        return -1


class Holder:
    def __init__(self, d):
        self.__array_interface__ = d


def consume(m):
    try:
        a = np.asarray(Holder({k: python(v) for k, v in m.items()}))
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}
    return {
        "str": a.dtype.str, "shape": list(a.shape), "strides": list(a.strides),
        "address": a.__array_interface__["data"][0], "writable": a.flags.writeable,
    }


def arrays():
    base = np.arange(240)
    for t in "? i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8 c8 c16 g G >i4 >c16 S5 U3 V4 M8[ns] m8[25s] O".split():
        d = np.dtype(t)
        for a in (
            np.zeros((), d), np.zeros((3,), d), np.zeros((2, 3, 4), d), np.zeros((2, 3), d, order="F"), np.zeros((0, 3), d),
            np.zeros((8,), d)[::-2], np.zeros((4, 6), d)[1:, ::3], np.broadcast_to(np.zeros((), d), (2, 2)), np.zeros((1, 5), d)[:, :1],
        ):
            yield a
    s = np.zeros(3, [("a", "i4"), ("b", "f8"), (("t", "c"), "u1", (2, 2)), ("n", [("x", "<i2"), ("y", ">f4")])])
    yield s
    yield s["b"]
    yield np.zeros(3, np.dtype([("a", "i1"), ("b", "f8")], align=True))
    b = base.view()
    b.flags.writeable = False
    yield b


def describe(a):
    out = {"interface": {k: plain(v) for k, v in a.__array_interface__.items()}, "itemsize": a.itemsize,
           "str": a.dtype.str, "shape": list(a.shape), "strides": list(a.strides), "writable": a.flags.writeable}
    try:
        m = memoryview(a)
        out["buffer"] = {"format": m.format, "itemsize": m.itemsize, "len": m.nbytes, "ndim": m.ndim,
                         "shape": list(m.shape), "strides": list(m.strides), "readonly": m.readonly}
    except (ValueError, BufferError):
        pass
    try:
        a.__dlpack__()
        out["dlpack"] = True
    except (BufferError, TypeError, ValueError, RuntimeError):
        out["dlpack"] = False
    return out


def main():
    warnings.simplefilter("ignore")
    q = json.load(sys.stdin)
    json.dump({
        "numpy": np.__version__,
        "typestrs": [dtype(np.dtype, s) for s in q["typestrs"]],
        "formats": [dtype(_dtype_from_pep3118, s) | {"calcsize": calcsize(s)} for s in q["formats"]],
        "maps": [consume(m) for m in q["maps"]],
        "arrays": [describe(a) for a in arrays()],
    }, sys.stdout)


if __name__ == "__main__":
    main()
