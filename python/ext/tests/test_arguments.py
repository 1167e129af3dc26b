"""Parameters: every kind, what each takes and what it refuses."""

from __future__ import annotations

import array
import inspect
import pickle
import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

INTS = [(f"i{b}", -(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64)]
INTS += [(f"u{b}", 0, 2**b - 1) for b in (8, 16, 32, 64)] + [("i", -(2**63), 2**63 - 1)]


@pytest.mark.parametrize(("name", "low", "high"), INTS)
def test_int(m: ModuleType, name: str, low: int, high: int) -> None:
    """The whole range and nothing beyond it."""
    f = getattr(m, name)
    for x in (low, high, 0, 1, True, np.int8(5), np.uint64(7)):
        assert f(x) == x
        assert type(f(x)) is int
    for x in (low - 1, high + 1, 2**64, 2**200, -(2**200)):
        with pytest.raises(OverflowError, match=rf"^{name}\(\) argument 'x': .*does not fit"):
            f(x)
    for bad in (1.0, "1", None, 1j, b"1", [1], np.float32(1)):
        with pytest.raises(TypeError, match=rf"^{name}\(\) argument 'x': want an int .*not "):
            f(bad)


def test_index_raises(m: ModuleType) -> None:
    """An error of __index__ keeps its class and is named."""

    class Bad:
        def __index__(self) -> int:
            raise ValueError("no index")

    with pytest.raises(ValueError, match=r"^i\(\) argument 'x': no index$"):
        m.i(Bad())
    with pytest.raises(ValueError, match=r"^u8\(\) argument 'x': no index$"):
        m.u8(Bad())


def test_float(m: ModuleType) -> None:
    """Floats take ints and what has __float__; float32 has its range."""
    for x in (0.0, -1.5, 3, True, np.float32(2.5), np.int64(3), float("inf"), 1e308):
        assert m.f64(x) == float(x)
    assert np.isnan(m.f64(float("nan")))
    assert m.f32(0.1) == float(np.float32(0.1))
    assert m.f32(float("-inf")) == float("-inf")
    with pytest.raises(OverflowError, match=r"f32\(\) argument 'x': 1e\+39 does not fit"):
        m.f32(1e39)
    for bad in ("1", None, 1j, [1.0]):
        with pytest.raises(TypeError, match="want a float"):
            m.f64(bad)
    with pytest.raises(OverflowError):
        m.f64(10**400)


def test_complex(m: ModuleType) -> None:
    """Complex numbers, of NumPy too."""
    for x in (1 + 2j, 3, 2.5, np.complex64(1 - 1j), np.complex128(2j)):
        assert m.c128(x) == complex(x)
        assert m.c64(x) == complex(x)
    with pytest.raises(OverflowError):
        m.c64(1e39 + 1j)
    with pytest.raises(TypeError, match="want a complex"):
        m.c128("1j")


def test_bool(m: ModuleType) -> None:
    """A bool is a bool: no truth of other things."""
    assert m.flag(True) is True
    assert m.flag(False) is False
    assert m.flag(np.bool_(True)) is True
    bad: object
    for bad in (1, 0, None, "x", []):
        with pytest.raises(TypeError, match="want a bool, not"):
            m.flag(bad)


def test_str(m: ModuleType) -> None:
    """Text is UTF-8 on both sides."""
    for s in ("", "abc", "ü€𝄞", "a\0b", "x" * 10_000):
        assert m.text(s) == s
    for bad in (b"x", 1, None):
        with pytest.raises(TypeError, match="want a str, not"):
            m.text(bad)
    with pytest.raises(UnicodeEncodeError):
        m.text("\ud800")


def test_bytes(m: ModuleType) -> None:
    """Bytes as a copy, uint8 arrays as they are."""
    for b in (b"", b"abc", b"\0" * 5000):
        assert m.data(b) == b
        assert m.rodata(b) == len(b)
    assert m.data(bytearray(b"xyz")) == b"xyz"
    assert m.data(np.arange(3, dtype=np.uint8)) == b"\0\1\2"
    with pytest.raises(BufferError):
        m.data(memoryview(b"read-only"))
    assert m.rodata(memoryview(b"read-only")) == 9
    for bad in ("x", 1, None, np.arange(3)):
        with pytest.raises((TypeError, BufferError), match=r"^data\(\) argument 'x': "):
            m.data(bad)


def test_signature(m: ModuleType) -> None:
    """Defaults, positional-only and keyword-only parameters behave as in Python."""
    assert m.sig(1, d=4) == '1 2 3.5 4 "x\\n" nil true'
    assert m.sig(1, 7, c=1, d=4, e="y", f=5, g=False) == '1 7 1 4 "y" 5 false'
    assert m.sig(1, 7, 2.5, d=4, f=None) == '1 7 2.5 4 "x\\n" nil true'
    key = "".join(["", "d"])  # not interned
    assert m.sig(1, **{key: 4}).startswith("1 2 3.5 4")
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((), {"d": 1}, r"sig\(\) missing required argument: 'a'"),
        ((1,), {}, r"sig\(\) missing required keyword-only argument: 'd'"),
        ((1, 2, 3, 4), {"d": 1}, r"sig\(\) takes at most 3 positional arguments but 4 were given"),
        ((1,), {"d": 1, "z": 2}, r"sig\(\) got an unexpected keyword argument 'z'"),
        ((1,), {"d": 1, "b": 2}, r"sig\(\) got positional-only argument 'b' passed as a keyword"),
        ((1, 2, 3), {"d": 1, "c": 2}, r"sig\(\) got multiple values for argument 'c'"),
        ((1,), {"d": "x"}, r"sig\(\) argument 'd': want an int"),
        ((1,), {"d": 1, "g": None}, r"sig\(\) argument 'g': want a bool"),
    ]
    for args, kwargs, text in cases:
        with pytest.raises(TypeError, match=text):
            m.sig(*args, **kwargs)
    assert m.nothing() is None
    with pytest.raises(TypeError, match=r"nothing\(\) takes 0 positional arguments but 1 was given"):
        m.nothing(1)


def test_introspection(m: ModuleType) -> None:
    """inspect, help and pickle see ordinary functions of the module."""
    assert str(inspect.signature(m.sig)) == r"(a, b=2, /, c=3.5, *, d, e='x\n', f=None, g=True)"
    assert str(inspect.signature(m.variadic)) == "(*xs, scale=1.0)"
    assert m.__doc__ == "Functions for the tests of python/ext."
    assert m.scale.__doc__.startswith("Scales in place.\n\nx: a writable array of float64")
    assert m.scale.__name__ == m.scale.__qualname__ == "scale"
    assert m.scale.__module__ == "testmod"
    assert repr(m.scale) == "<built-in function scale>"
    assert pickle.loads(pickle.dumps(m.scale)) is m.scale


def test_sequences(m: ModuleType) -> None:
    """Variadic parameters, lists and tuples."""
    assert m.variadic() == 0
    assert m.variadic(1, 2.5, np.float32(3), scale=2) == 13
    assert m.variadic(*range(1000)) == 499500
    with pytest.raises(TypeError, match=r"variadic\(\) argument 'xs': want a float .*not str"):
        m.variadic(1, "x")
    with pytest.raises(TypeError, match="unexpected keyword argument 'xs'"):
        m.variadic(xs=1)
    x = np.zeros(3)
    assert list(np.from_dlpack(m.lengths(x))) == [3]
    assert list(np.from_dlpack(m.lengths(x, x[:1], np.zeros((2, 2), "i4")))) == [3, 1, 4]
    assert len(np.from_dlpack(m.lengths(*[x] * 200))) == 200
    with pytest.raises(TypeError, match="'rest'"):
        m.lengths(x, 1)
    assert m.shape([2, 3], ("a", "b")) == "[2 3] [a b]"
    assert m.shape((), names=None) == "[] []"
    assert m.shape(list(range(300))) == str(list(range(300))).replace(",", "") + " []"
    for bad in (3, "ab", None, {1: 2}, iter([1])):
        with pytest.raises(TypeError, match=r"shape\(\) argument 'dims': want"):
            m.shape(bad)
    with pytest.raises(TypeError, match=r"'dims': want an int .* not float"):
        m.shape([1, 2.0])
    with pytest.raises(TypeError, match=r"'names': want a str, not NoneType|'names': want a str .*not NoneType"):
        m.shape([1], [None])


def test_optional(m: ModuleType) -> None:
    """None for pointers and for slices with the default None."""
    assert m.optview() == m.optview(None) == m.optview(x=None) == -1
    assert m.optview(np.zeros((2, 3))) == 6
    assert m.optslice() == m.optslice(None) == -1
    assert m.optslice(np.zeros(0)) == 0
    assert m.optslice(np.zeros(4)) == 4
    with pytest.raises(TypeError):
        m.scale(None)
    with pytest.raises(TypeError):
        m.ndim(None)


SLICES: list[tuple[str, Any]] = [
    ("bool", np.bool_), ("i8", np.int8), ("i16", np.int16), ("i32", np.int32), ("i64", np.int64),
    ("u16", np.uint16), ("u32", np.uint32), ("u64", np.uint64), ("f16", np.float16), ("f32", np.float32),
    ("c64", np.complex64), ("c128", np.complex128), ("bf16", ml_dtypes.bfloat16), ("f8", ml_dtypes.float8_e4m3fn),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), SLICES)
def test_slice_dtypes(m: ModuleType, name: str, dtype: Any) -> None:
    """A typed slice takes its dtype and no other."""
    f = getattr(m, "lenof_" + name)
    if name not in ("bf16", "f8"):  # NumPy exports these through no protocol
        assert f(np.zeros(5, dtype)) == 5
        assert f(np.zeros((2, 3), dtype)) == 6
        assert f(np.zeros((), dtype)) == 1
        assert f(np.zeros((3, 0), dtype)) == 0
    for _, other in SLICES:
        if other is not dtype and other not in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
            with pytest.raises(TypeError, match=rf"lenof_{name}\(\) argument 'x': dtype \w+, want \w+"):
                f(np.zeros(5, other))


def test_bfloat16(m: ModuleType) -> None:
    """bfloat16 and fp8 from JAX, in host memory: of a GPU array nobody says that it is read-only (R014)."""
    jax = pytest.importorskip("jax")
    jnp = pytest.importorskip("jax.numpy")
    with jax.default_device(jax.devices("cpu")[0]):
        for dtype in (jnp.bfloat16, jnp.float8_e4m3fn):
            name, shape, _, readonly = m.describe(jnp.zeros((2, 2), dtype))
            assert (name, shape.tolist(), readonly) == (jnp.dtype(dtype).name, [2, 2], True)
        with pytest.raises(BufferError, match="read-only"):  # []T may be written, arrays of JAX never
            m.lenof_bf16(jnp.zeros(4, jnp.bfloat16))


def test_slice_layout(m: ModuleType) -> None:
    """Dense in C order, writable, aligned; messages say which."""
    x = np.arange(12.0).reshape(3, 4)
    assert m.total(x) == 66
    assert m.total(x[1:2]) == 22
    assert m.total(x[:, :0]) == 0
    for bad in (x[:, ::2], x.T, x[::-1], x[:, 1:]):
        with pytest.raises(BufferError, match=r"total\(\) argument 'x': not dense in C order"):
            m.total(bad)
    x.flags.writeable = False
    assert m.total(x) == 66
    with pytest.raises(BufferError, match=r"scale\(\) argument 'x': .*(read-only|written|writable)"):
        m.scale(x)
    raw = np.zeros(33, np.uint8)[1:].view(np.float64)
    assert not raw.flags.aligned or raw.ctypes.data % 8 == 0
    if raw.ctypes.data % 8:
        with pytest.raises(BufferError, match="align"):
            m.total(raw)
    with pytest.raises(TypeError, match=r"dtype float32, want float64"):
        m.scale(np.zeros(3, np.float32))


def test_in_place(m: ModuleType) -> None:
    """Go writes into the caller's memory."""
    x = np.arange(4.0)
    assert m.scale(x) is None
    m.scale(x, factor=0.25)
    assert x.tolist() == [0, 0.5, 1, 1.5]
    m.fill(x[::2], 9)
    assert x.tolist() == [9, 0.5, 9, 1.5]
    a = array.array("d", [1, 2])
    m.scale(a, 3)
    assert a.tolist() == [3, 6]


def test_views(m: ModuleType) -> None:
    """A view keeps shape, strides and the read-only flag."""

    def describe(x: object) -> tuple[Any, ...]:
        dtype, shape, strides, read_only = m.describe(x)
        return dtype, np.from_dlpack(shape).tolist(), np.from_dlpack(strides).tolist(), read_only

    x = np.zeros((4, 6), np.int16)
    assert describe(x) == ("int16", [4, 6], [6, 1], False)
    assert describe(x[::-2, 1::2]) == ("int16", [2, 3], [-12, 2], False)
    assert describe(x.T) == ("int16", [6, 4], [1, 6], False)
    assert describe(b"abc") == ("uint8", [3], [1], True)
    assert describe(np.zeros((2,) * 12))[1] == [2] * 12
    assert describe(np.float32(1).reshape(()))[:3] == ("float32", [], [])
    assert m.many(*[x] * 10) == 240
    for bad in (object(), None, 1, "text", [1, 2]):
        with pytest.raises((TypeError, BufferError), match=r"^ndim\(\) argument 'x': "):
            m.ndim(bad)
    with pytest.raises((TypeError, BufferError, ValueError), match=r"^ndim\(\) argument 'x': "):
        m.ndim(np.array([object()]))


def test_views_alone(m: ModuleType) -> None:
    """Functions of nothing but views have a way of their own: the same answers, and nothing is held after it."""
    held = array.array("d", range(6))  # lent by the buffer protocol: it cannot grow meanwhile
    dims = np.zeros((1,) * 12)  # more axes than have room in line
    ways = [np.zeros((2, 3)), held, bytearray(4), dims, m.arange(5)]
    for first in ways:
        for second in ways:
            for third in ways:
                sizes = [np.asarray(memoryview(w)).size for w in (first, second, third)]
                assert m.sizes(first, second, third) == sum(sizes)
                assert m.sizes(first, z=third, y=second) == sum(sizes), "by name: the general way"
    for k, name in enumerate("xyz"):
        args: list[Any] = [held, dims, held]
        args[k] = 1
        with pytest.raises(TypeError, match=rf"^sizes\(\) argument '{name}': "):
            m.sizes(*args)
        held.append(0.0)  # BufferError if the call that failed had kept it
    for few in ((), (dims,), (dims, dims), (dims,) * 4):
        with pytest.raises(TypeError, match=r"^sizes\(\) (missing|takes)"):
            m.sizes(*few)
    before = sys.getrefcount(dims)
    for _ in range(50):
        m.sizes(dims, held, dims)
    assert sys.getrefcount(dims) == before


@pytest.mark.parametrize("library", ["jax.numpy", "array_api_strict", "pyarrow", "tvm_ffi", "torch"])
def test_libraries(m: ModuleType, library: str) -> None:
    """Arrays of the other libraries."""
    lib = pytest.importorskip(library)
    if library == "pyarrow":
        x: Any = lib.array([1.0, 2.0, 3.0])
    elif library == "tvm_ffi":
        x = lib.from_dlpack(np.arange(1.0, 4.0))
    else:
        x = lib.asarray([1.0, 2.0, 3.0], dtype=lib.float32 if library == "jax.numpy" else lib.float64)
    assert m.ndim(x) == 1
    if library != "jax.numpy":
        assert m.total(x) == 6


def test_foreign_exception(m: ModuleType) -> None:
    """An exception of the producer keeps its class, text and cause."""

    class Producer:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **kwargs: object) -> object:
            raise KeyError("from the producer")

    with pytest.raises(KeyError) as e:
        m.ndim(Producer())
    assert "from the producer" in str(e.value)


def test_objects(m: ModuleType) -> None:
    """Raw objects: identity, calls, attributes."""
    x = object()
    assert m.call(lambda *a: a, x, 1)[0] is x
    assert m.inspect(3) == "int 3"
    assert m.inspect() == "none"
    assert m.inspect(None) == "NoneType None"
    assert m.attr(3 + 4j, "imag") == 4
    assert m.attr([], "append") is not None
    with pytest.raises(AttributeError):
        m.attr(3, "nothing")
    got = m.call_with(lambda *a: a)
    assert got[:6] == (None, True, 1, 2.5, "s", b"b")
    assert np.from_dlpack(got[6]).tolist() == [1, 2]
    assert got[7] == {"k": 1}
    for v in (None, True, 3, 2**80, 1.5, 1 + 2j, "text", b"bytes", [1], "ü" * 1000):
        assert m.call(lambda v=v: v) == v
