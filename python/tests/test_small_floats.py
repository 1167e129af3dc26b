"""The conversions of the small floats, exhaustively against ml_dtypes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from handoff import Array

np = pytest.importorskip("numpy")
ml = pytest.importorskip("ml_dtypes")

NAMES = ["float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
         "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]  # fmt: skip


def same(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def values_of(name: str) -> Any:
    bits = 4 if "float4" in name else 6 if "float6" in name else 8
    return np.arange(2**bits, dtype="u1").view(getattr(ml, name))


@pytest.mark.parametrize("name", NAMES)
def test_decode_every_value(name: str) -> None:
    n = values_of(name)
    for got, want in zip(Array.copy_of(n).tolist(), n.astype("f8").tolist(), strict=True):
        assert same(got, want)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_decode_16_bits(name: str) -> None:
    dtype = ml.bfloat16 if name == "bfloat16" else np.float16
    n = np.arange(2**16, dtype="u2").view(dtype)
    with np.errstate(all="ignore"):
        want = n.astype("f8").tolist()
    assert all(same(a, b) for a, b in zip(Array.copy_of(n).tolist(), want, strict=True))


def probes(name: str) -> list[float]:
    """Every value, the points halfway between two, their neighbours, and the extremes."""
    if name in ("bfloat16", "float16"):
        n = np.arange(0, 2**16, 37, dtype="u2").view(ml.bfloat16 if name == "bfloat16" else np.float16)
    else:
        n = values_of(name)
    with np.errstate(all="ignore"):
        v = np.unique(n.astype("f4")[np.isfinite(n.astype("f4"))])
        half = (v[1:].astype("f8") + v[:-1]).astype("f4") / np.float32(2)
        x = np.concatenate([v, half, np.nextafter(half, np.float32(np.inf)), np.nextafter(half, np.float32(-np.inf)),
                            np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 448, 465, 464, 480,
                                        7.75, 8, 28, 30, 6, 7, 240, 248, 57344, 61440, 65504, 65520])])  # fmt: skip
    return [float(a) for a in x]


@pytest.mark.parametrize("name", [*NAMES, "bfloat16", "float16"])
def test_encode(name: str) -> None:
    x = probes(name)
    dtype = np.float16 if name == "float16" else getattr(ml, name)
    with np.errstate(all="ignore"):
        want = np.array(x, "f4").astype(dtype)
    a = Array.zeros(len(x), name)
    for i, v in enumerate(x):
        a[i] = v
    got = np.from_dlpack(a) if name == "float16" else np.frombuffer(
        memoryview(bytes_of(a)), "u2" if name == "bfloat16" else "u1").view(dtype)  # fmt: skip
    with np.errstate(all="ignore"):
        for v, g, w in zip(x, got.astype("f8").tolist(), want.astype("f8").tolist(), strict=True):
            assert same(g, w) or (math.isnan(g) and math.isnan(w)), (v, g, w)


def bytes_of(a: Array) -> bytes:
    import ctypes

    return ctypes.string_at(a.ptr, a.nbytes)


def test_double_rounds_through_float32() -> None:
    # As ml_dtypes does: float64 first becomes float32.
    x = 1 + 2**-8 + 2**-40
    a = Array.full(1, x, "bfloat16")
    assert a[0] == float(np.array([x], "f8").astype("f4").astype(ml.bfloat16)[0])
