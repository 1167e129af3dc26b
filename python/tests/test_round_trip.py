"""Round trips: dtypes x shapes x strides x libraries, by hypothesis."""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest

import handoff
from handoff import Array, StridedMemoryView, _core

np = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
          "float64", "complex64", "complex128"]  # fmt: skip

# HYPOTHESIS_PROFILE=full looks longer than each run of the suite can.
FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
settings = hypothesis.settings(max_examples=200 if FULL else 30, deadline=None, print_blob=True)


@st.composite
def arrays(draw: Any, dtypes: list[str] = DTYPES, negative: bool = True) -> Any:
    """0 to 6 dimensions, extents from 0, any order of axes, steps and directions."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    shape = draw(st.lists(st.integers(0, 5), min_size=0, max_size=6))
    steps = [draw(st.sampled_from([1, 2, 3] + ([-1, -2] if negative else []))) for _ in shape]
    base_shape = [max(n * abs(s), 1) if n else 0 for n, s in zip(shape, steps, strict=True)]
    size = int(np.prod(base_shape)) if base_shape else 1
    raw = np.frombuffer(bytearray(draw(st.binary(min_size=8, max_size=8)) * (size * dtype.itemsize // 8 + 1)), "u1")
    if dtype.kind == "b":
        raw = raw & 1
    a = raw[: size * dtype.itemsize].view(dtype).reshape(base_shape)
    a = a.transpose(draw(st.permutations(range(a.ndim))))
    a = a[(..., *(slice(None, None, s) for s in steps))]
    if draw(st.booleans()):
        a = a[..., None] if a.ndim < 6 else a
    if draw(st.booleans()) and a.flags.writeable:
        a.flags.writeable = False
    return a


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_view(v: Any, a: Any) -> None:
    assert v.shape == a.shape
    assert v.dtype == a.dtype
    assert v.readonly == (not a.flags.writeable)
    if a.size:
        assert v.ptr == a.__array_interface__["data"][0]
        if v.strides is not None:
            assert [s for s, n in zip(v.strides, v.shape, strict=True) if n > 1] == [
                s // a.itemsize for s, n in zip(a.strides, a.shape, strict=True) if n > 1
            ]
        else:
            assert a.flags.c_contiguous


@settings
@hypothesis.given(arrays())
def test_numpy_to_view_and_back(a: Any) -> None:
    for v in (
        StridedMemoryView.from_dlpack(a),
        StridedMemoryView.from_dlpack(a.__dlpack__(max_version=(1, 0))),
        StridedMemoryView.from_array_interface(a),
        StridedMemoryView.from_any_interface(memoryview(a)),
    ):
        check_view(v, a)
        for b in (np.from_dlpack(v), np.asarray(v), np.asarray(memoryview(v))):
            assert same(a, b)
            assert not a.size or b.flags.writeable == a.flags.writeable  # NumPy makes empty arrays anew
            assert not a.size or b.__array_interface__["data"][0] == v.ptr


@settings
@hypothesis.given(arrays())
def test_every_way_agrees(a: Any) -> None:
    want = _core._inspect(a)
    for other in (StridedMemoryView.from_dlpack(a), a.__dlpack__(max_version=(1, 0)), memoryview(a)):
        got = _core._inspect(other)
        if a.size:
            assert got[:2] == want[:2]
            assert [s for s, n in zip(got[2], got[1], strict=True) if n > 1] == [
                s for s, n in zip(want[2], want[1], strict=True) if n > 1
            ]
        assert got[3:5] == want[3:5]
        assert got[5] & 1 == want[5] & 1


@settings
@hypothesis.given(arrays())
def test_copies_are_equal_and_apart(a: Any) -> None:
    for c in (handoff.from_dlpack(a, copy=True), Array.copy_of(a)):
        assert c.readonly is False
        b = np.from_dlpack(c)
        assert same(a, b)
        assert not np.shares_memory(a, b)
    out = np.zeros(a.shape, a.dtype)
    StridedMemoryView.from_dlpack(a).copy_to(out)
    assert same(a, out)


@settings
@hypothesis.given(arrays())
def test_re_export_keeps_everything(a: Any) -> None:
    v: Any = a
    for _ in range(4):
        v = StridedMemoryView.from_dlpack(v)
    del _
    check_view(v, a)
    assert same(a, np.from_dlpack(v))


@settings
@hypothesis.given(arrays(negative=False))
def test_jax(a: Any) -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    if a.dtype.itemsize == 8 and a.dtype.kind in "iufc" and a.dtype != np.complex64:
        return  # 64-bit types are off in JAX by default
    if a.dtype == np.complex128:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        j = jnp.array(a, device=jax.devices("cpu")[0])  # also where a GPU is the default
    v = StridedMemoryView.from_dlpack(j)
    assert v.shape == a.shape
    assert same(np.from_dlpack(v), np.asarray(j))
    ours = Array.copy_of(a)
    k = jnp.from_dlpack(ours)
    assert same(np.asarray(k), a)


@settings
@hypothesis.given(arrays(dtypes=[d for d in DTYPES if not d.startswith("complex")]))
def test_tvm_ffi(a: Any) -> None:
    tvm_ffi = pytest.importorskip("tvm_ffi")
    ours = Array.copy_of(a)
    t = tvm_ffi.from_dlpack(ours)
    assert tuple(t.shape) == a.shape
    v = StridedMemoryView.from_dlpack(t)
    assert same(np.from_dlpack(v), a)


@settings
@hypothesis.given(arrays(dtypes=[d for d in DTYPES if not d.startswith("complex") and d != "bool"], negative=False))
def test_pyarrow(a: Any) -> None:
    pa = pytest.importorskip("pyarrow")
    flat = np.ascontiguousarray(a).reshape(-1)
    if flat.size == 0:
        return
    p = pa.array(flat)
    v = StridedMemoryView.from_dlpack(p)
    assert v.shape == flat.shape
    assert same(np.from_dlpack(v), flat)
    t = pa.Tensor.from_numpy(np.asarray(Array.copy_of(flat)))
    assert same(t.to_numpy(), flat)


@settings
@hypothesis.given(arrays())
def test_array_api_strict(a: Any) -> None:
    strict = pytest.importorskip("array_api_strict")
    if a.dtype == np.float16:
        return  # not in the standard
    ours = Array.copy_of(a)
    s = strict.from_dlpack(ours)
    assert s.shape == a.shape
    v = StridedMemoryView.from_dlpack(s)
    assert same(np.from_dlpack(v), a)


def test_ml_dtypes_through_jax() -> None:
    ml = pytest.importorskip("ml_dtypes")
    jnp = pytest.importorskip("jax.numpy")
    a = Array.full((2, 3), 1.5, "bfloat16")
    j = jnp.from_dlpack(a)
    assert j.dtype == ml.bfloat16
    assert np.asarray(j).astype("f4").tolist() == [[1.5] * 3] * 2
    v = StridedMemoryView.from_dlpack(j)
    assert v.dtype == ml.bfloat16


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
def test_R057_arrays_of_jax_are_read_only(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.zeros(4, dtype, device=jax.devices("cpu")[0])
    assert StridedMemoryView.from_dlpack(x).readonly
    assert not handoff.from_dlpack(x, copy=True).readonly
