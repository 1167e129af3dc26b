"""Capsules as a consumer: names, versions, deleters, malformed tensors (6.1 to 6.4)."""

from __future__ import annotations

import ctypes
import gc
import math
import sys
from typing import Any

import pytest
from capsules import (
    DELETER,
    DLManagedTensorVersioned,
    Managed,
    Producer,
    _good_destructor,
    name_of,
    pointer_of,
    static_name,
    tensor_of,
    versioned_of,
)

import handoff
from handoff import Array, StridedMemoryView, _core

from_dlpack = StridedMemoryView.from_dlpack

# Whoever takes a capsule: as an argument of a Go function, borrowed and owned,
# and by the public functions.
TAKERS = {
    "consume": lambda c: _core._inspect(c),
    "consume owned": lambda c: _core._inspect(c, 2),
    "StridedMemoryView.from_dlpack": from_dlpack,
    "from_dlpack": handoff.from_dlpack,
    "from_any_interface": StridedMemoryView.from_any_interface,
}
taker = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())
form = pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])


@taker
@form
def test_R060_R061_R075_deleter_runs_once(take: Any, versioned: bool) -> None:
    m = Managed(versioned=versioned)
    capsule = m.capsule()
    result = take(capsule)
    assert name_of(capsule) == b"used_" + m.fresh_name
    del result, capsule
    gc.collect()
    assert (m.deleted, m.wrong) == (1, 0)


@taker
@form
def test_R059_B132_B138_deleter_null(take: Any, versioned: bool) -> None:
    m = Managed(versioned=versioned, deleter=False)
    capsule = m.capsule()
    result = take(capsule)
    del result, capsule
    gc.collect()
    assert m.deleted == 0


@form
def test_R059_deleter_null_in_own_destructor(versioned: bool) -> None:
    # Our destructor on a tensor whose deleter somebody cleared.
    a = Array.zeros(3)
    capsule = a.__dlpack__(max_version=(1, 0) if versioned else None)
    struct = versioned_of(capsule) if versioned else None
    if struct is None:
        return
    deleter, address = struct.deleter, pointer_of(capsule)
    struct.deleter = None
    del capsule
    gc.collect()
    DELETER(deleter)(address)


@taker
@form
def test_R076_R081_B130_consumed_twice(take: Any, versioned: bool, raises: Any) -> None:
    m = Managed(versioned=versioned)
    capsule = m.capsule()
    first = take(capsule)
    with raises(handoff.CapsuleError, "R081"):
        take(capsule)
    with pytest.raises(ValueError):
        take(capsule)
    with pytest.raises(BufferError):
        take(capsule)
    del first, capsule
    gc.collect()
    assert m.deleted == 1


@taker
@pytest.mark.parametrize("name", [b"tensor", b"dltensor2", b"DLTENSOR", b"dltensor_versioned_2", b"", b"d\xff"])
def test_R076_other_names_are_not_touched(take: Any, name: bytes, raises: Any) -> None:
    m = Managed()
    capsule = m.capsule(name, destructor=None)
    with raises(handoff.CapsuleError, None):
        take(capsule)
    assert m.deleted == 0
    assert name_of(capsule) == (name or None)


@taker
def test_R073_B113_name_decides_the_struct(take: Any) -> None:
    legacy, versioned = Managed(versioned=False), Managed(versioned=True)
    for m in (legacy, versioned):
        take(m.capsule())
    gc.collect()
    assert (legacy.deleted, versioned.deleted) == (1, 1)


@taker
@form
def test_B124_naive_destructor(take: Any, versioned: bool) -> None:
    m = Managed(versioned=versioned)
    capsule = m.naive_capsule()
    result = take(capsule)
    del result, capsule
    gc.collect()
    assert m.deleted == 1


@taker
@form
def test_B124_no_destructor(take: Any, versioned: bool) -> None:
    m = Managed(versioned=versioned)
    result = take(m.capsule(destructor=None))
    del result
    gc.collect()
    assert m.deleted == 1


@taker
@pytest.mark.parametrize("version", [(2, 0), (0, 8), (99, 1)])
def test_R008_R009_R082_major(take: Any, version: tuple[int, int], raises: Any) -> None:
    # Nothing behind the flags may be read: everything there is garbage.
    m = Managed(version=version)
    ctypes.memset(m.address + DLManagedTensorVersioned.dl_tensor.offset, 0xFF, 48)
    capsule = m.capsule()
    with raises(handoff.VersionError, "R008"):
        take(capsule)
    assert m.deleted == 0
    assert name_of(capsule) == b"dltensor_versioned", "left fresh: the capsule frees it (R080)"
    del capsule
    gc.collect()
    assert m.deleted == 1


@taker
@pytest.mark.parametrize("version", [(1, 0), (1, 1), (1, 2), (1, 3), (1, 99)])
def test_R010_B114_minor(take: Any, version: tuple[int, int]) -> None:
    m = Managed(version=version)
    take(m.capsule())
    gc.collect()
    assert m.deleted == 1


BIG = 2**62
BAD = {
    "R012 flags": (dict(flags=8), handoff.VersionError, "R012"),
    "R012 flag 63": (dict(flags=1 << 63), handoff.VersionError, "R012"),
    "R022 fp6 bits": (dict(dtype=(15, 8, 1)), handoff.DTypeError, "R022"),
    "R022 fp6 e3m2 bits": (dict(dtype=(16, 8, 1)), handoff.DTypeError, "R022"),
    "R023 fp4 bits": (dict(dtype=(17, 8, 1)), handoff.DTypeError, "R023"),
    "R024 bool bits": (dict(dtype=(6, 16, 1)), handoff.DTypeError, "R024"),
    "R025 B095 complex bits": (dict(dtype=(5, 8, 1)), handoff.DTypeError, "R025"),
    "R026 B090 bfloat bits 32": (dict(dtype=(4, 32, 1)), handoff.DTypeError, "R026"),
    "R026 B090 bfloat bits 8": (dict(dtype=(4, 8, 1)), handoff.DTypeError, "R026"),
    "R027 B086 code 200": (dict(dtype=(200, 8, 1)), handoff.DTypeError, "R027"),
    "R027 float bits": (dict(dtype=(2, 24, 1)), handoff.DTypeError, "R027"),
    "R029 lanes 0": (dict(dtype=(2, 32, 0)), handoff.DTypeError, "R029"),
    "R029 bits 0": (dict(dtype=(2, 0, 1)), handoff.DTypeError, "R029"),
    "R034 negative extent": (dict(shape=(2, -3), strides=(3, 1)), handoff.LayoutError, "R034"),
    "R034 B097 extents wrap": (dict(shape=(2**32, 2**32, 16), strides=(1, 1, 1)), handoff.LayoutError, "R034"),
    "R034 B098 strides wrap": (dict(shape=(2, BIG, 4), strides=None), handoff.LayoutError, "R034"),
    "R034 shape x stride": (dict(shape=(3, 2), strides=(BIG, BIG)), handoff.LayoutError, "R034"),
    "R034 bytes wrap": (dict(shape=(2**61,), strides=(1,), dtype=(2, 64, 1)), handoff.LayoutError, "R034"),
    "R034 negative stride wraps": (dict(shape=(3,), strides=(-BIG,)), handoff.LayoutError, "R034"),
    "R035 device 0": (dict(device=(0, 0)), handoff.DeviceError, "R035"),
    "R035 device 5": (dict(device=(5, 0)), handoff.DeviceError, "R035"),
    "R035 device -1": (dict(device=(-1, 0)), handoff.DeviceError, "R035"),
    "R035 device 1000": (dict(device=(1000, 0)), handoff.DeviceError, "R035"),
    "R041 data unaligned": (dict(byte_offset=2), handoff.LayoutError, "R041"),
    "R045 data NULL": (dict(data=0), handoff.LayoutError, "R045"),
    "R047 ndim -1": (dict(ndim=-1), handoff.LayoutError, "R047"),
    "R047 ndim 65": (dict(ndim=65), handoff.LayoutError, "R047"),
    "R047 ndim absurd": (dict(ndim=2**31 - 1), handoff.LayoutError, "R047"),
    "R047 shape NULL": (dict(null_shape=True), handoff.LayoutError, "R047"),
    "R042 offset wraps": (dict(byte_offset=2**64 - 4), handoff.LayoutError, "R042"),
}


@taker
@form
@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_tensors(take: Any, versioned: bool, case: tuple[dict[str, Any], type, str], raises: Any) -> None:
    args, cls, rule = case
    if not versioned and "flags" in args:
        pytest.skip("the legacy struct has no flags")
    m = Managed(versioned=versioned, **args)
    capsule = m.capsule()
    with raises(cls, rule):
        take(capsule)
    with pytest.raises(BufferError):
        take(capsule)
    # Refused untouched: the capsule still owns the tensor (R080).
    assert m.deleted == 0
    assert name_of(capsule) == m.fresh_name
    del capsule
    gc.collect()
    assert m.deleted == 1


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_bad_tensors_by_producer_B128_B140(case: tuple[dict[str, Any], type, str], raises: Any) -> None:
    args, cls, rule = case
    p = Producer(Managed(**args))
    before = sys.getrefcount(p)
    for _ in range(2):
        with raises(cls, rule):
            from_dlpack(p)
    gc.collect()
    assert p.managed.deleted == 2
    assert sys.getrefcount(p) == before


@taker
@form
@pytest.mark.parametrize("data", [0, None], ids=["NULL", "address"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 5, 0)])
def test_R044_R054_empty(take: Any, versioned: bool, data: int | None, shape: tuple[int, ...]) -> None:
    m = Managed(shape=shape, strides=(7,) * len(shape), data=data, versioned=versioned)
    v = take(m.capsule())
    if isinstance(v, StridedMemoryView):
        assert (v.shape, v.size, v.nbytes, v.strides) == (shape, 0, 0, None)
    del v
    gc.collect()
    assert m.deleted == 1


@taker
@form
@pytest.mark.parametrize("null_shape", [True, False])
def test_R046_zero_dimensions(take: Any, versioned: bool, null_shape: bool) -> None:
    m = Managed(shape=(), strides=None, null_shape=null_shape, versioned=versioned)
    v = take(m.capsule())
    if isinstance(v, StridedMemoryView):
        assert (v.shape, v.size, v.nbytes, v.ndim) == ((), 1, 4, 0)


@pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])
@pytest.mark.parametrize("version", [(1, 0), (1, 2)])
def test_R050_R051_strides_null(versioned: bool, version: tuple[int, int]) -> None:
    m = Managed(shape=(2, 3, 4), strides=None, versioned=versioned, version=version)
    data, shape, strides, *_ = _core._inspect(m.capsule())
    assert (data, shape, strides) == (m.base, (2, 3, 4), (12, 4, 1))


@form
def test_R042_B057_byte_offset(versioned: bool) -> None:
    m = Managed(byte_offset=8, versioned=versioned)
    v = from_dlpack(m.capsule())
    assert v.ptr == m.base + 8
    assert tensor_of(v.__dlpack__(max_version=(1, 0))).data == m.base + 8
    assert tensor_of(v.__dlpack__(max_version=(1, 0))).byte_offset == 0


@pytest.mark.parametrize("strides", [(-3, 1), (3, -1), (0, 1), (0, 0), (1, 2)])
def test_R052_R053_B102_negative_and_zero_strides(strides: tuple[int, ...]) -> None:
    m = Managed(strides=strides, byte_offset=1024)
    v = from_dlpack(m.capsule())
    assert (v.ptr, v.strides) == (m.base + 1024, strides)
    assert _core._inspect(v)[2] == strides


def test_R054_odd_stride_of_extent_one() -> None:
    m = Managed(shape=(1, 3), strides=(999, 1))
    v = from_dlpack(m.capsule())
    assert v.strides is None


@pytest.mark.parametrize("flags", range(8))
def test_R014_R015_flags(flags: int, raises: Any) -> None:
    m = Managed(flags=flags)
    v = from_dlpack(m.capsule())
    assert v.readonly == bool(flags & 1)
    want_write = Managed(flags=flags).capsule()
    if flags & 1:
        with raises(handoff.ReadOnlyError, "R015"):
            _core._inspect(want_write, 1)
        assert name_of(want_write) == b"dltensor_versioned"
    else:
        assert _core._inspect(want_write, 1)[5] & 1 == 0
    # What comes out says read-only again, and never claims to be a copy (R019).
    out = versioned_of(v.__dlpack__(max_version=(1, 0))).flags
    assert out == flags & ~2


@pytest.mark.parametrize(
    ("dtype", "name"),
    [((c, 8, 1), n) for c, n in [(6, "bool"), (0, "int8"), (1, "uint8")]]
    + [((0, b, 1), f"int{b}") for b in (16, 32, 64)]
    + [((1, b, 1), f"uint{b}") for b in (16, 32, 64)]
    + [((2, b, 1), f"float{b}") for b in (16, 32, 64)]
    + [((5, 64, 1), "complex64"), ((5, 128, 1), "complex128"), ((4, 16, 1), "bfloat16")]
    + [
        ((7, 8, 1), "float8_e3m4"),
        ((8, 8, 1), "float8_e4m3"),
        ((9, 8, 1), "float8_e4m3b11fnuz"),
        ((10, 8, 1), "float8_e4m3fn"),
        ((11, 8, 1), "float8_e4m3fnuz"),
        ((12, 8, 1), "float8_e5m2"),
        ((13, 8, 1), "float8_e5m2fnuz"),
        ((14, 8, 1), "float8_e8m0fnu"),
        ((15, 6, 1), "float6_e2m3fn"),
        ((16, 6, 1), "float6_e3m2fn"),
        ((17, 4, 1), "float4_e2m1fn"),
    ],
)
def test_B079_B081_B083_B086_every_dtype_imports_and_exports(dtype: tuple[int, int, int], name: str) -> None:
    pytest.importorskip("ml_dtypes")
    padded = 4 if dtype[1] < 8 else 0
    m = Managed(dtype=dtype, flags=padded)
    v = from_dlpack(m.capsule())
    assert v.dlpack_dtype == dtype
    assert v.dtype.name == name
    again = from_dlpack(v.__dlpack__(max_version=(1, 1)))
    assert again.dlpack_dtype == dtype
    assert versioned_of(v.__dlpack__(max_version=(1, 1))).flags == padded


@pytest.mark.parametrize("dtype", [(17, 4, 2), (2, 32, 4), (3, 64, 1), (5, 32, 1), (18, 32, 1), (0, 4, 1)])
def test_R028_dtypes_without_numpy_are_carried(dtype: tuple[int, int, int]) -> None:
    m = Managed(dtype=dtype)
    v = from_dlpack(m.capsule())
    assert v.dlpack_dtype == dtype
    t = tensor_of(v.__dlpack__(max_version=(1, 1))).dtype
    assert (t.code, t.bits, t.lanes) == dtype
    if dtype != (0, 4, 1):
        with pytest.raises(NotImplementedError):
            _ = v.dtype


@pytest.mark.parametrize(("n", "packed"), [(1, 1), (2, 1), (3, 2), (7, 4)])
def test_B088_size_of_fp4(n: int, packed: int) -> None:
    assert from_dlpack(Managed(shape=(n,), strides=(1,), dtype=(17, 4, 1)).capsule()).nbytes == packed
    assert from_dlpack(Managed(shape=(n,), strides=(1,), dtype=(17, 4, 1), flags=4).capsule()).nbytes == n


def test_R079_R066_B134_exception_survives_a_capsule() -> None:
    a = Array.zeros(3)

    def fails() -> None:
        capsule = a.__dlpack__(max_version=(1, 0))  # destroyed while the exception flies
        view = from_dlpack(Managed().capsule())
        raise KeyError(name_of(capsule), view)

    with pytest.raises(KeyError) as info:
        fails()
    assert info.value.args[0] == b"dltensor_versioned"


def test_R077_R078_own_capsules() -> None:
    a = Array.zeros(3)
    for version in (None, (1, 0)):
        before = _core._stats()["live_exports"]
        capsule = a.__dlpack__(max_version=version)
        assert _core._stats()["live_exports"] == before + 1
        del capsule
        assert _core._stats()["live_exports"] == before
        capsule = a.__dlpack__(max_version=version)
        struct_deleter = versioned_of(capsule).deleter if version else None
        address = pointer_of(capsule)
        name = b"used_" + (name_of(capsule) or b"")
        ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), ctypes.c_char_p(static_name(name)))
        del capsule  # used: nothing happens
        assert _core._stats()["live_exports"] == before + 1
        if version:
            DELETER(struct_deleter)(address)
        else:
            DELETER(ctypes.c_void_p.from_address(address + 56).value)(address)
        assert _core._stats()["live_exports"] == before


def test_B126_B136_many_imports() -> None:
    m = Managed()
    for _ in range(1000):
        from_dlpack(m.capsule())
    assert m.deleted == 1000


def test_R070_B074_two_exports_are_independent() -> None:
    for order in ((0, 1), (1, 0)):
        a = Array.full(3, 7)
        views: list[Any] = [from_dlpack(a.__dlpack__(max_version=(1, 0))) for _ in range(2)]
        assert views[0].ptr == views[1].ptr
        del a
        views[order[0]] = None
        assert memoryview(views[order[1]]).tolist() == [7, 7, 7]


def test_R069_R290_B147_B149_views_keep_the_memory() -> None:
    np = pytest.importorskip("numpy")
    deleted = []
    m = Managed(shape=(4,), strides=(1,))
    (ctypes.c_float * 4).from_address(m.base)[:] = [1, 2, 3, 4]
    v = from_dlpack(m.capsule())
    w = v.view(layout=((2,), (2,)))
    a = np.from_dlpack(w)
    b = a[1:]
    del v, w, a
    gc.collect()
    assert m.deleted == 0
    assert b.tolist() == [3.0]
    del b
    gc.collect()
    assert m.deleted == 1
    assert not deleted


def test_capsule_of_no_memory_has_a_destructor() -> None:
    # The helper itself: a fresh capsule that nobody takes frees its tensor.
    m = Managed()
    c = m.capsule(destructor=_good_destructor)
    del c
    gc.collect()
    assert m.deleted == 1


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((0, 3), (2**63 - 1, -(2**63))),
        ((2**62, 4, 0), (1, 1, 1)),
        ((2**62, 0, 4), None),
        ((1, 1, 3), (2**63 - 1, -(2**63), 1)),
        ((1,) * 9, (2**63 - 1, -(2**63), 1) * 3),
    ],
)
def test_extents_and_strides_that_nobody_steps_along_may_be_anything(shape: Any, strides: Any) -> None:
    m = Managed(shape=shape, strides=strides)
    v = StridedMemoryView.from_dlpack(m.capsule())
    count = 3 if shape == (1, 1, 3) else math.prod(shape)
    assert (v.shape, v.size, v.nbytes) == (shape, count, 4 * count)
    exact = strides is None or all(abs(s) < 2**60 for s in strides)
    for b in (memoryview(v).strides, v.__array_interface__["strides"]):
        assert b is None or exact or all(s in (0, 4) for s in b), "no stride has wrapped round"
    assert StridedMemoryView.from_dlpack(v).shape == shape
    copy = handoff.Array.copy_of(v)
    assert copy.shape == shape
    assert handoff.from_dlpack(v, copy=True).shape == shape
    del v
    assert m.deleted == 1


@pytest.mark.parametrize("dtype", [(0, 128, 1), (1, 128, 1), (0, 24, 1)])
def test_integers_without_a_python_scalar_are_not_written(dtype: tuple[int, int, int]) -> None:
    a = handoff.Array.copy_of(Managed(shape=(2,), strides=(1,), dtype=dtype).capsule())
    before = bytes(ctypes.string_at(StridedMemoryView.from_dlpack(a).ptr, a.nbytes))
    for value in (1, -1):
        with pytest.raises(NotImplementedError):
            a[0] = value
    assert bytes(ctypes.string_at(StridedMemoryView.from_dlpack(a).ptr, a.nbytes)) == before
