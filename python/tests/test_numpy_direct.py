"""numpy.ndarray by its published struct: the same answers as the protocols."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import handoff
from handoff import StridedMemoryView, _core

np = pytest.importorskip("numpy")

WRITABLE, OWNED = 1, 2


def test_the_struct_is_read() -> None:
    _core._inspect(np.zeros(1))
    assert _core._stats()["numpy_direct"] == 1


def arrays() -> dict[str, Any]:
    base = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)
    return {
        "c": base,
        "f": np.asfortranarray(base),
        "transposed": base.transpose(2, 0, 3, 1),
        "sliced": base[:, ::2, 1:, ::-1],
        "reversed": base[::-1, ::-1],
        "broadcast": np.broadcast_to(np.float32(3), (4, 5)),
        "scalar": base[1, 2, 3, 4, ...],
        "empty": base[:, :0],
        "extent 1": base[:1, :, :1],
        "many dims": np.zeros((1,) * 32, "i2"),
        "nine dims": np.zeros((2,) * 9, "i8")[..., ::-1],
        "readonly": np.frombuffer(b"12345678", "i4"),
    }


@pytest.mark.parametrize("name", arrays().keys())
def test_same_as_array_interface(name: str) -> None:
    a = arrays()[name]
    data, shape, strides, _, device, flags, how = _core._inspect(a)
    assert data == a.__array_interface__["data"][0]
    assert shape == a.shape
    assert strides == tuple(s // a.itemsize for s in a.strides)
    assert device == (1, 0)
    assert bool(flags & 1) == (not a.flags.writeable)
    assert how == 0
    assert _core._inspect(a, OWNED)[6] == 5
    assert _core._inspect(a, OWNED)[:6] == (data, shape, strides, _, device, flags)


def test_R024_R026_every_dtype() -> None:
    for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        assert (
            _core._inspect(np.zeros(2, name))[3]
            == StridedMemoryView.from_array_interface(np.zeros(2, name)).dlpack_dtype
        )
    for name, dl in {
        "float16": (2, 16, 1),
        "float32": (2, 32, 1),
        "float64": (2, 64, 1),
        "complex64": (5, 64, 1),
        "complex128": (5, 128, 1),
        "longlong": (0, 64, 1),
        "ulonglong": (1, 64, 1),
    }.items():
        assert _core._inspect(np.zeros(2, name))[3] == dl


def test_ml_dtypes() -> None:
    ml = pytest.importorskip("ml_dtypes")
    for name, dl in {
        "bfloat16": (4, 16, 1),
        "float8_e3m4": (7, 8, 1),
        "float8_e4m3": (8, 8, 1),
        "float8_e4m3b11fnuz": (9, 8, 1),
        "float8_e4m3fn": (10, 8, 1),
        "float8_e4m3fnuz": (11, 8, 1),
        "float8_e5m2": (12, 8, 1),
        "float8_e5m2fnuz": (13, 8, 1),
        "float8_e8m0fnu": (14, 8, 1),
        "float6_e2m3fn": (15, 6, 1),
        "float6_e3m2fn": (16, 6, 1),
        "float4_e2m1fn": (17, 4, 1),
        "int4": (0, 4, 1),
        "uint4": (1, 4, 1),
        "int2": (0, 2, 1),
        "uint2": (1, 2, 1),
    }.items():
        a = np.zeros((2, 3), getattr(ml, name))
        got = _core._inspect(a)
        assert got[3] == dl, name
        assert bool(got[5] & 2) == (dl[1] < 8), "sub-byte types of ml_dtypes are padded"
        assert StridedMemoryView.from_dlpack(a).dtype == a.dtype


@pytest.mark.parametrize("dtype", ["O", "S3", "U2", "V4", "M8[s]", "m8[ns]", "longdouble", "clongdouble", "i4,f4"])
def test_R285_dtypes_without_counterpart(dtype: str, raises: Any) -> None:
    with raises(handoff.DTypeError, "R285"):
        _core._inspect(np.zeros(2, dtype))


@pytest.mark.parametrize("dtype", [">i2", ">f8", ">c8"])
def test_R030_R291_foreign_byte_order(dtype: str, raises: Any) -> None:
    with raises(handoff.DTypeError, "R291"):
        _core._inspect(np.zeros(2, dtype))
    assert _core._inspect(np.zeros(2, ">i1"))[3] == (0, 8, 1)


def test_R058_R281_B092_stride_not_a_multiple(raises: Any) -> None:
    a = np.zeros(3, [("a", "i4"), ("b", "f8")])["b"]
    assert a.strides == (12,)
    with raises(handoff.LayoutError, "R281"):
        _core._inspect(a)
    # A single element is not stepped over (R054); 12 + 4 is not aligned, though.
    one = np.zeros(2, [("a", "i4"), ("b", "f4"), ("c", "u1")])["b"][:1]
    assert _core._inspect(one)[1] == (1,)


def test_R041_unaligned(raises: Any) -> None:
    a = np.frombuffer(bytearray(17), "i4", 4, 1)
    with raises(handoff.LayoutError, "R041"):
        _core._inspect(a)
    assert _core._inspect(a[:0])[1] == (0,)


def test_R015_R243_read_only(raises: Any) -> None:
    a = np.zeros(3)
    a.flags.writeable = False
    with raises(handoff.ReadOnlyError, "R015"):
        _core._inspect(a, WRITABLE)
    a.flags.writeable = True
    assert _core._inspect(a, WRITABLE)[5] & 1 == 0


def test_subclasses_take_the_general_way() -> None:
    class Sub(np.ndarray):
        pass

    a = np.zeros((2, 3)).view(Sub)
    assert _core._inspect(a)[6] == 2


def test_view_keeps_the_array() -> None:
    a = np.arange(4)
    before = sys.getrefcount(a)
    v = StridedMemoryView.from_dlpack(a)
    assert sys.getrefcount(a) == before + 1
    assert v.dtype is a.dtype
    with pytest.raises(ValueError):
        a.resize(10)
    del v
    assert sys.getrefcount(a) == before


def test_falls_back_when_the_layout_differs() -> None:
    # A module named numpy whose ndarray is something else must not be read.
    code = """
import sys, types
fake = types.ModuleType("numpy")
class ndarray(bytearray):
    pass
fake.ndarray = ndarray
sys.modules["numpy"] = fake
from handoff import _core
assert _core._inspect(ndarray(b"abcd"))[1] == (4,)
assert _core._stats()["numpy_direct"] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
