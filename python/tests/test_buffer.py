"""The buffer protocol, taken and offered (6.9)."""

from __future__ import annotations

import array
import ctypes
import gc
import struct
import sys
from typing import Any

import pytest

import handoff
from handoff import Array, StridedMemoryView, _core

WRITABLE, OWNED = 1, 2


# --- as a consumer -----------------------------------------------------------


@pytest.mark.parametrize("code", "bBhHiIlLqQfd")
def test_R233_R249_array_module(code: str) -> None:
    a = array.array(code, [1, 2, 3])
    data, shape, strides, dtype, _, flags, how = _core._inspect(a)
    assert (data, shape, strides, how) == (a.buffer_info()[0], (3,), (1,), 1)
    kind = 2 if code in "fd" else 0 if code.islower() else 1
    assert dtype == (kind, 8 * a.itemsize, 1)
    assert not flags & 1
    a.append(1)  # released: the array may be resized (R230)


def test_R230_R231_exporter_is_locked_while_held() -> None:
    b = bytearray(8)
    v = StridedMemoryView.from_any_interface(b)
    with pytest.raises(BufferError):
        b.append(1)
    del v
    gc.collect()
    b.append(1)


def test_R211_R243_read_only_bytes(raises: Any) -> None:
    assert _core._inspect(b"abc")[5] & 1
    with raises(handoff.ReadOnlyError, "R015"):
        _core._inspect(b"abc", WRITABLE)
    assert StridedMemoryView.from_any_interface(b"abc").readonly


def cast(fmt: str, data: bytes = bytes(range(32))) -> memoryview:
    return memoryview(bytearray(data)).cast(fmt)


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [("?", (6, 8, 1)), ("c", (1, 8, 1)), ("b", (0, 8, 1)), ("B", (1, 8, 1)), ("h", (0, 16, 1)), ("H", (1, 16, 1)),
     ("i", (0, 32, 1)), ("I", (1, 32, 1)), ("l", (0, 64, 1)), ("L", (1, 64, 1)), ("q", (0, 64, 1)),
     ("Q", (1, 64, 1)), ("n", (0, 64, 1)), ("N", (1, 64, 1)), ("f", (2, 32, 1)), ("d", (2, 64, 1)),
     ("@i", (0, 32, 1)), ("@d", (2, 64, 1))],
)  # fmt: skip
def test_R248_R289_formats_of_memoryview(fmt: str, dtype: tuple[int, int, int]) -> None:
    assert _core._inspect(cast(fmt))[3] == dtype


@pytest.mark.parametrize(
    ("dtype", "dl"),
    [("<i4", (0, 32, 1)), ("f2", (2, 16, 1)), ("c8", (5, 64, 1)), ("c16", (5, 128, 1)), ("?", (6, 8, 1))],
)
def test_R253_numpy_formats(dtype: str, dl: tuple[int, int, int]) -> None:
    np = pytest.importorskip("numpy")
    assert _core._inspect(memoryview(np.zeros(3, dtype)))[3] == dl


@pytest.mark.parametrize("dtype", ["S3", "U2", "V4", "i4,f4", "longdouble", "O"])
def test_R251_formats_that_are_no_number(dtype: str, raises: Any) -> None:
    np = pytest.importorskip("numpy")
    with raises(handoff.DTypeError, "R251"):
        _core._inspect(memoryview(np.zeros(3, dtype)))


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">c16"])
def test_R252_foreign_order(dtype: str, raises: Any) -> None:
    np = pytest.importorskip("numpy")
    with raises(handoff.DTypeError, "R252"):
        _core._inspect(memoryview(np.zeros(3, dtype)))


@pytest.mark.parametrize("ctype", [ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_float])
def test_R248_ctypes_standard_order(ctype: Any) -> None:
    a = (ctype * 3 * 2)()
    data, shape, strides, dtype, *_ = _core._inspect(a)
    assert (data, shape, strides) == (ctypes.addressof(a), (2, 3), (3, 1))
    assert dtype[1] == 8 * ctypes.sizeof(ctype)


def test_R251_ctypes_struct(raises: Any) -> None:
    class S(ctypes.Structure):
        _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_double)]

    with raises(handoff.DTypeError, "R251"):
        _core._inspect((S * 2)())


def test_R246_R257_strides(raises: Any) -> None:
    np = pytest.importorskip("numpy")
    a = np.arange(12, dtype="i2").reshape(3, 4)[::-1, ::2]
    data, shape, strides, *_ = _core._inspect(memoryview(a))
    assert (data, shape, strides) == (a.ctypes.data, (3, 2), (-4, 2))
    field = np.zeros(3, [("a", "i4"), ("b", "f8")])["b"]
    with raises(handoff.LayoutError, "R281"):
        _core._inspect(memoryview(field))


class PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]  # fmt: skip


def memoryview_of(**fields: Any) -> memoryview:
    """A memoryview that says what it is told. memoryview itself checks little."""
    b = PyBuffer()
    raw = ctypes.create_string_buffer(256)
    b.buf, b.len, b.itemsize, b.ndim, b.format = ctypes.addressof(raw), 12, 4, 1, b"i"
    for name in ("shape", "strides", "suboffsets"):
        if fields.get(name) is not None:
            a = (ctypes.c_ssize_t * len(fields[name]))(*fields[name])
            fields[name] = ctypes.addressof(a)
            _keep.append(a)
    for name, value in fields.items():
        setattr(b, name, value)
    _keep.extend((raw, b))
    make = ctypes.pythonapi.PyMemoryView_FromBuffer
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    return make(ctypes.addressof(b))


_keep: list[Any] = []


@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        ("R236", dict(len=13, shape=(3,), strides=(4,))),
        ("R247", dict(format=b"h", shape=(3,), strides=(4,))),
        ("R250", dict(format=b"<n", itemsize=8, len=24, shape=(3,), strides=(8,))),
        ("R251", dict(format=b"ii", shape=(3,), strides=(4,))),
        ("R251", dict(format=b"T{i:a:}", shape=(3,), strides=(4,))),
        ("R251", dict(format=b"2h", shape=(3,), strides=(4,))),
        ("R251", dict(format=b"", shape=(3,), strides=(4,))),
        ("R251", dict(format=b"P", itemsize=8, len=24, shape=(3,), strides=(8,))),
        ("R251", dict(format=b"(2)h", shape=(3,), strides=(4,))),
        ("R252", dict(format=b"!i", shape=(3,), strides=(4,))),
        ("R259", dict(itemsize=0, len=0, shape=(3,), strides=(4,))),
        ("R034", dict(shape=(-3,), strides=(4,), len=-12)),
        ("R034", dict(shape=(2**62,), strides=(2**62,))),
        ("R281", dict(shape=(3,), strides=(6,))),
        ("R041", None),
    ],
)
def test_malformed_buffers(rule: str, fields: dict[str, Any] | None, raises: Any) -> None:
    view = memoryview(bytearray(9))[1:].cast("i") if fields is None else memoryview_of(**fields)
    if fields is None and _core._inspect(memoryview(view).cast("B"))[0] % 4 == 0:
        pytest.skip("the allocator placed it aligned")
    with raises((BufferError, ValueError), rule):
        _core._inspect(view)
    with raises((BufferError, ValueError), rule):
        StridedMemoryView.from_any_interface(view)


def test_R245_suboffsets() -> None:
    # Not asked for: the exporter has to refuse.
    view = memoryview_of(shape=(3,), strides=(4,), suboffsets=(0,))
    with pytest.raises(BufferError):
        _core._inspect(view)


@pytest.mark.parametrize("fmt", [b"i", b" i", b"@ i", b"=i", b"<i", b"<>=i", b"1i", b"^i", b"@<i"])
def test_R248_order_characters(fmt: bytes) -> None:
    assert _core._inspect(memoryview_of(format=fmt, shape=(3,), strides=(4,)))[3] == (0, 32, 1)


@pytest.mark.parametrize(("fmt", "size"), [(b"F", 8), (b"D", 16), (b"Zf", 8), (b"Zd", 16)])
def test_R253_complex(fmt: bytes, size: int) -> None:
    v = memoryview_of(format=fmt, itemsize=size, len=3 * size, shape=(3,), strides=(size,))
    assert _core._inspect(v)[3] == (5, 8 * size, 1)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 688 needs Python 3.12")
def test_R258_python_buffer() -> None:
    class B:
        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(b"1234")

    assert _core._inspect(B())[1] == (4,)


def test_R255_R256_dimensions() -> None:
    v = memoryview_of(shape=(1, 3), strides=(999, 4), ndim=2)
    assert _core._inspect(v)[1] == (1, 3)
    deep = memoryview(bytes(1)).cast("B", shape=[1] * 64)
    assert len(_core._inspect(deep)[1]) == 64


def test_released_memoryview() -> None:
    m = memoryview(b"abc")
    m.release()
    with pytest.raises(ValueError):
        _core._inspect(m)


# --- as an exporter ----------------------------------------------------------

SIMPLE, W, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18
C, F, ANY, INDIRECT = 0x38, 0x58, 0x98, 0x118


def get(obj: Any, flags: int) -> PyBuffer:
    b = PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
    ctypes.pythonapi.PyObject_GetBuffer(obj, ctypes.addressof(b), flags)
    return b


def release(b: PyBuffer) -> None:
    ctypes.pythonapi.PyBuffer_Release.argtypes = [ctypes.c_void_p]
    ctypes.pythonapi.PyBuffer_Release(ctypes.addressof(b))


def dims(address: int | None, n: int) -> tuple[int, ...] | None:
    return tuple((ctypes.c_ssize_t * n).from_address(address)) if address else None


def samples() -> dict[str, Any]:
    a = Array.full((2, 3), 1, "int32")
    v = StridedMemoryView.from_dlpack(a)
    return {
        "array": a,
        "view": v,
        "sliced": Array.zeros((4, 6), "int32")[::2, ::-1],
        "fortran": v.view(layout=((3, 2), (1, 3))),
        "readonly": StridedMemoryView.from_buffer(bytes(24), (2, 3), dtype="int32"),
        "empty": Array.zeros((0, 3), "int32"),
        "scalar": Array.zeros((), "int32"),
    }


@pytest.mark.parametrize("flags", [SIMPLE, W, ND, ND | FORMAT, STRIDES, STRIDES | FORMAT, C, F, ANY, INDIRECT | FORMAT,
                                   STRIDES | W, C | W | FORMAT, F | FORMAT, ANY | FORMAT])  # fmt: skip
@pytest.mark.parametrize("name", samples().keys())
def test_R229_R234_R235_R237_R239_R240_R241_R242_R244(name: str, flags: int) -> None:
    obj = samples()[name]
    c = obj.strides is None
    f = name in ("fortran", "empty", "scalar")
    allowed = c or (flags & STRIDES == STRIDES and flags & C != C and (flags & ANY != ANY or f))
    if flags & F == F and not f:
        allowed = False
    if flags & W and obj.readonly:
        allowed = False
    before = sys.getrefcount(obj)
    if not allowed:
        with pytest.raises(BufferError):
            get(obj, flags)
        assert sys.getrefcount(obj) == before
        return
    b = get(obj, flags)
    n = obj.ndim
    assert b.len == obj.nbytes
    assert b.itemsize == 4
    assert b.readonly == obj.readonly
    assert b.suboffsets is None
    assert b.format == (b"i" if flags & FORMAT else None)
    assert dims(b.shape, n) == (obj.shape if flags & ND and n else None)
    if flags & STRIDES == STRIDES and n:
        want = obj.strides or tuple(s // 4 for s in memoryview(obj).strides)
        assert dims(b.strides, n) == tuple(4 * s for s in want)
    else:
        assert b.strides is None
    release(b)
    assert sys.getrefcount(obj) == before


@pytest.mark.parametrize(
    ("dtype", "fmt"),
    [("bool", "?"), ("int8", "b"), ("int16", "h"), ("int32", "i"), ("int64", "l"), ("uint8", "B"), ("uint16", "H"),
     ("uint32", "I"), ("uint64", "L"), ("float16", "e"), ("float32", "f"), ("float64", "d"),
     ("complex64", "Zf"), ("complex128", "Zd")],
)  # fmt: skip
def test_R289_formats(dtype: str, fmt: str) -> None:
    a = Array.zeros(3, dtype)
    m = memoryview(a)
    assert m.format == fmt
    assert m.itemsize == a.itemsize
    if not fmt.startswith("Z"):
        assert struct.calcsize(fmt) == m.itemsize


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float4_e2m1fn", "int4", "complex32", "bcomplex32"])
def test_R254_no_format_is_invented(dtype: str, raises: Any) -> None:
    with raises(handoff.DTypeError, "R254"):
        memoryview(Array.full(3, 1, dtype))


def test_memory_of_a_device_has_no_buffer() -> None:
    from capsules import Managed

    v = StridedMemoryView.from_dlpack(Managed(device=(2, 0)).capsule(), -1)
    with pytest.raises(BufferError):
        memoryview(v)
    assert not hasattr(v, "__array_interface__")


def test_view_outlives_names() -> None:
    m = memoryview(Array.full(3, 7, "int16"))
    gc.collect()
    assert m.tolist() == [7, 7, 7]
    m[0] = 1
    assert m.tolist() == [1, 7, 7]
