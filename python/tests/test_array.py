"""Array: constructors, elements, indexing, conversions."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import pytest

import handoff
from handoff import Array

np = pytest.importorskip("numpy")

NUMPY = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]  # fmt: skip
SHAPES = [(), (0,), (3,), (2, 3), (2, 0, 4), (1, 1, 1), (2, 3, 4), (1,) * 12]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", NUMPY)
def test_constructors(dtype: str, shape: tuple[int, ...]) -> None:
    for a, want in (
        (Array.zeros(shape, dtype), np.zeros(shape, dtype)),
        (Array.full(shape, 1, dtype), np.full(shape, 1, dtype)),
        (Array.empty(shape, dtype), None),
    ):
        assert (a.shape, a.ndim, a.size) == (shape, len(shape), int(np.prod(shape)))
        assert (a.dtype, a.itemsize, a.nbytes) == (
            np.dtype(dtype),
            np.dtype(dtype).itemsize,
            np.zeros(shape, dtype).nbytes,
        )
        assert a.ptr % 256 == 0
        assert (a.readonly, a.strides, a.device_id, a.exporting_obj) == (False, None, -1, None)
        if want is not None:
            assert a.tolist() == want.tolist()
            assert np.array_equal(np.from_dlpack(a), want)


def test_dtype_arguments() -> None:
    for dtype, name in [
        (float, "float64"), (int, "int64"), (bool, "bool"), (complex, "complex128"), (np.float32, "float32"),
        (np.dtype("i2"), "int16"), ("<f4", "float32"), ("bool_", "bool"), (np.bool_, "bool"), ("|u1", "uint8"),
    ]:  # fmt: skip
        assert Array.zeros(1, dtype).dtype == np.dtype(name)
    assert Array.zeros(1).dtype == np.float64
    assert Array.zeros(1, None).dtype == np.float64
    ml = pytest.importorskip("ml_dtypes")
    assert Array.zeros(1, ml.bfloat16).dlpack_dtype == (4, 16, 1)
    assert Array.zeros(1, np.dtype(ml.float8_e5m2)).dlpack_dtype == (12, 8, 1)
    jnp = pytest.importorskip("jax.numpy")
    assert Array.zeros(1, jnp.dtype("bfloat16")).dlpack_dtype == (4, 16, 1)


@pytest.mark.parametrize("dtype", ["nothing", 5, "f", object, np.dtype("O"), np.dtype("S3"), np.dtype(">f4"), "", "|O"])
def test_bad_dtypes(dtype: Any) -> None:
    with pytest.raises((TypeError, BufferError)):
        Array.zeros(1, dtype)


@pytest.mark.parametrize(
    "shape", [-1, (2, -1), (2**62, 4), (2**63,), "ab", 1.5, None, (1,) * 65, (2**31, 2**31, 2**31)]
)
def test_bad_shapes(shape: Any) -> None:
    with pytest.raises((ValueError, TypeError, BufferError, OverflowError)):
        Array.zeros(shape)


def test_too_large_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        Array.empty(2**50, "float64")


def test_index_like_numpy() -> None:
    n = np.arange(2 * 3 * 4, dtype="i4").reshape(2, 3, 4)
    a = Array.copy_of(n)
    axis = [0, -1, 1, slice(None), slice(None, None, -1), slice(1, None), slice(None, None, 2), slice(2, 0, -1)]
    axis += [slice(5, 9), slice(-1, -5), ...]
    keys: list[Any] = [..., None, (), (None, ...), (..., None, 0), (slice(None), None)]
    keys += list(axis) + list(itertools.product(axis[:-1], axis[:-1])) + [(..., k) for k in axis[:-1]]
    keys += [(k, ..., m) for k in axis[:4] for m in axis[:6]] + [(1, 2, 3), (0, 0, 0), (1, 2, 3, ...), (0, 0, slice(1))]
    for key in keys:
        want, got = n[key], a[key]
        if isinstance(got, Array):
            assert got.shape == want.shape, key
            assert got.tolist() == want.tolist(), key
            assert np.array_equal(np.from_dlpack(got), want), key
        else:
            assert type(got) is int
            assert got == want


@pytest.mark.parametrize("key", [2, -3, (0, 3), (0, 0, 0, 0), (0, 0, 0, None, 0)])
def test_index_out_of_range(key: Any) -> None:
    a = Array.zeros((2, 3, 4))
    with pytest.raises(IndexError):
        a[key]
    with pytest.raises(IndexError):
        a[key] = 1


@pytest.mark.parametrize("key", [1.5, "a", [0, 1], True, (0, False), {}, (..., ...), slice("a", None)])
def test_bad_index(key: Any) -> None:
    a = Array.zeros((2, 3))
    with pytest.raises((TypeError, IndexError)):
        a[key]


def test_assignment_like_numpy() -> None:
    n, a = np.zeros((3, 4), "i4"), Array.zeros((3, 4), "i4")

    def both(key: Any, value: Any) -> None:
        n[key] = value
        a[key] = value
        assert a.tolist() == n.tolist()

    both((0, 0), 5)
    both((-1, -1), np.int64(7))
    both(1, 9)
    both((slice(None), 2), np.array([1, 2, 3], "i4"))
    both((slice(None, None, -1), slice(None, None, 3)), np.arange(6, dtype="i4").reshape(3, 2))
    both(..., 0)
    both(slice(0, 0), 3)
    both(0, np.int16(3))  # a scalar of another library
    a[1] = a[2]
    a[:, ::2] = a[:, 1::2]
    a[::-1] = a  # overlapping
    with pytest.raises(TypeError):
        del a[0]


def test_assignment_errors(raises: Any) -> None:
    a = Array.zeros((2, 3), "i4")
    for value in (np.zeros(4, "i4"), np.zeros(3, "f4"), np.zeros((2, 3), "i4")):
        with pytest.raises(ValueError):
            a[0] = value
    for value in ("x", None, object(), [1, 2, 3]):
        with pytest.raises(TypeError):
            a[0] = value
    with pytest.raises(TypeError):
        a[0, 0] = 1.5
    v = handoff.StridedMemoryView.from_buffer(bytes(8), (2,), dtype="i4")
    with raises(handoff.ReadOnlyError, "R015"):
        v.copy_from(np.zeros(2, "i4"))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_integer_ranges(bits: int) -> None:
    s, u = Array.zeros(1, f"int{bits}"), Array.zeros(1, f"uint{bits}")
    for a, low, high in ((s, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1), (u, 0, 2**bits - 1)):
        for v in (low, high, 0, 1):
            a[0] = v
            assert a[0] == v
        for v in (low - 1, high + 1, 2**100, -(2**100)):
            with pytest.raises(OverflowError):
                a[0] = v


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("int2", -2, 1), ("uint2", 0, 3), ("int4", -8, 7), ("uint4", 0, 15)]
)
def test_small_integers(dtype: str, low: int, high: int) -> None:
    ml = pytest.importorskip("ml_dtypes")
    values = list(range(low, high + 1))
    a = Array.zeros(len(values), dtype)
    for i, v in enumerate(values):
        a[i] = v
    assert a.tolist() == values
    n = np.array(values, getattr(ml, dtype))
    assert Array.copy_of(n).tolist() == values
    for v in (low - 1, high + 1):
        with pytest.raises(OverflowError):
            a[0] = v


def test_scalars_of_every_kind() -> None:
    assert Array.full((), True, "bool")[()] is True
    assert Array.full((), 2.5, "float32")[()] == 2.5
    assert Array.full((), 1 + 2j, "complex64")[()] == 1 + 2j
    assert Array.full((), 3, "complex128")[()] == 3 + 0j
    assert Array.full((), 1 - 2j, "complex32")[()] == 1 - 2j
    assert Array.full((), 1 - 2j, "bcomplex32")[()] == 1 - 2j
    assert Array.full(2, float("nan"), "float16").tolist()[0] != 0


def test_len_iter_repr() -> None:
    a = Array.full((2, 3), 1, "int8")
    assert len(a) == 2
    assert [x.tolist() for x in a] == [[1, 1, 1], [1, 1, 1]]
    assert list(a[0]) == [1, 1, 1]
    assert repr(a) == "Array([[1, 1, 1], [1, 1, 1]], dtype=int8)"
    assert repr(Array.zeros((100, 100))) == "Array(shape=(100, 100), dtype=float64)"
    for f in (len, iter):
        with pytest.raises(TypeError):
            f(Array.zeros(()))
    it = iter(Array.full(2, 1))
    del a
    gc.collect()
    assert list(it) == [1, 1]
    assert list(it) == []


def test_part_keeps_the_memory() -> None:
    part = Array.full((100, 100), 3)[1, ::2]
    gc.collect()
    assert part.tolist() == [3.0] * 50
    assert part.strides == (2,)


def test_copy_of() -> None:
    n = np.arange(12, dtype="u2").reshape(3, 4)[::-1, ::2]
    a = Array.copy_of(n)
    assert a.tolist() == n.tolist()
    assert not np.shares_memory(np.from_dlpack(a), n)
    assert Array.copy_of(b"abc").tolist() == [97, 98, 99]
    assert not Array.copy_of(b"abc").readonly
    with pytest.raises(BufferError):
        Array.copy_of(object())
    with pytest.raises(BufferError):
        Array.copy_of(np.array(["a"]))


def test_shared_with_numpy() -> None:
    a = Array.zeros((2, 3), "float32")
    for take in (np.from_dlpack, np.asarray, lambda x: np.array(memoryview(x), copy=False)):
        n = take(a)
        n[1, 2] += 1
    assert a[1, 2] == 3.0
    assert a.tolist() == [[0, 0, 0], [0, 0, 3]]


def test_dtypes_that_no_text_is() -> None:
    for make in (lambda: handoff.Array.zeros(2, "\udc80"), lambda: handoff.Array.full(2, 1, "\udc80")):
        with pytest.raises(handoff.InvalidTypeError, match="not an element type"):
            make()
