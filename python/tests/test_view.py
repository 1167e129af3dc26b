"""StridedMemoryView: what cuda.core's tests of the same class expect for host memory."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
from capsules import Managed, has_driver

import handoff
from handoff import Array, StridedMemoryView

np = pytest.importorskip("numpy")

FROM = {
    "from_dlpack": lambda a: StridedMemoryView.from_dlpack(a, stream_ptr=-1),
    "from_any_interface": lambda a: StridedMemoryView.from_any_interface(a, stream_ptr=-1),
    "from_array_interface": StridedMemoryView.from_array_interface,
}


def samples() -> dict[str, Any]:
    readonly = np.frombuffer(b"12345678", "i2")
    return {
        "1-D": np.arange(12, dtype="int32"),
        "sliced": np.arange(36, dtype="float64").reshape(6, 6)[::2, ::2],
        "fortran": np.asfortranarray(np.arange(12, dtype="float32").reshape(3, 4)),
        "0-D": np.array(2.5, "float16"),
        "readonly": readonly,
        "reversed": np.arange(5, dtype="u8")[::-1],
        "empty": np.zeros((0, 3), "complex64"),
    }


@pytest.mark.parametrize("make", FROM.values(), ids=FROM.keys())
@pytest.mark.parametrize("name", samples().keys())
def test_attributes(name: str, make: Any) -> None:
    a = samples()[name]
    v = make(a)
    assert v.ptr == a.ctypes.data
    assert v.shape == a.shape
    assert v.size == a.size
    assert v.dtype == a.dtype
    assert v.strides == (None if a.flags.c_contiguous else tuple(s // a.itemsize for s in a.strides))
    assert v.device_id == -1
    assert v.is_device_accessible is False
    assert v.exporting_obj is a
    assert v.readonly == (not a.flags.writeable)
    assert (v.ndim, v.itemsize, v.nbytes) == (a.ndim, a.itemsize, a.nbytes)
    assert repr(v).startswith("StridedMemoryView(ptr=0x")
    assert v.shape is v.shape


def test_round_trip_by_dlpack() -> None:
    a = np.arange(24, dtype="int32").reshape(4, 6)[:, ::2]
    v = StridedMemoryView.from_dlpack(a, stream_ptr=-1)
    b = np.from_dlpack(v)
    assert np.array_equal(a, b)
    assert np.shares_memory(a, b)
    assert v.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "uint32"])
@pytest.mark.parametrize("shape", [(), (2, 3), (10, 10), (10, 13, 11)])
def test_from_buffer(shape: tuple[int, ...], dtype: str, readonly: bool, order: str) -> None:
    a = np.ones(shape, dtype, order=order)
    strides = tuple(s // a.itemsize for s in a.strides)
    memory = bytearray(a.nbytes)
    v = StridedMemoryView.from_buffer(memory, shape, strides, dtype=np.dtype(dtype), is_readonly=readonly)
    assert (v.shape, v.size, v.dtype, v.readonly) == (shape, a.size, a.dtype, readonly)
    assert v.strides == (None if a.flags.c_contiguous else strides)
    w = StridedMemoryView.from_buffer(memory, shape, strides, itemsize=a.itemsize)
    assert w.dtype is None
    assert w.itemsize == a.itemsize
    with pytest.raises(BufferError):
        w.__dlpack__()


def test_from_buffer_errors(raises: Any) -> None:
    b = bytearray(20)
    with pytest.raises(ValueError, match="one of itemsize and dtype"):
        StridedMemoryView.from_buffer(b, (5,))
    with pytest.raises(ValueError):
        StridedMemoryView.from_buffer(b, (5,), itemsize=1, dtype="int16")
    with pytest.raises(ValueError, match="Expected at least 40 bytes, got 20"):
        StridedMemoryView.from_buffer(b, (5, 4), dtype="int16")
    with pytest.raises(ValueError, match="before the buffer"):
        StridedMemoryView.from_buffer(b, (2, 2), (-4, 1), dtype="int16")
    with pytest.raises(ValueError):
        StridedMemoryView.from_buffer(b, (2, 2), (1,), dtype="int16")
    with pytest.raises(ValueError):
        StridedMemoryView.from_buffer(b, (-1,), dtype="int16")
    with pytest.raises(ValueError):
        StridedMemoryView.from_buffer(b, (2**62, 4), dtype="int16")
    with pytest.raises(TypeError):
        StridedMemoryView.from_buffer(b, 2.5, dtype="int16")
    with pytest.raises(TypeError):
        StridedMemoryView.from_buffer(object(), (5,), dtype="int8")
    with raises(BufferError, "R041"):
        StridedMemoryView.from_buffer(memoryview(b)[1:], (2,), dtype="int32")
    with pytest.raises(TypeError):
        StridedMemoryView.from_buffer(b, (5,), None, 1)
    assert StridedMemoryView.from_buffer(b, 5, dtype="int32").shape == (5,)
    assert StridedMemoryView.from_buffer(b, (0,), (7,), dtype="int64").size == 0
    b.append(1)  # nothing is held after a failure, or after the views


def test_from_buffer_of_an_array() -> None:
    a = Array.full(6, 1, "int32")
    v = StridedMemoryView.from_buffer(a, (2, 3), dtype="float32")
    assert v.ptr == a.ptr
    assert not v.readonly
    assert StridedMemoryView.from_buffer(b"abcd", (4,), itemsize=1).readonly


def test_view_without_arguments_is_self() -> None:
    v = StridedMemoryView.from_dlpack(np.zeros(4, "f4"))
    assert v.view() is v
    assert v.view(None, None) is v


def test_view_dtype() -> None:
    a = np.arange(4, dtype="f4")
    v = StridedMemoryView.from_dlpack(a)
    w = v.view(dtype="int32")
    assert (w.dtype, w.shape, w.ptr, w.exporting_obj) == (np.dtype("int32"), v.shape, v.ptr, a)
    assert np.array_equal(np.from_dlpack(w), a.view("i4"))
    with pytest.raises(ValueError):
        v.view(dtype="int64")
    with pytest.raises(TypeError):
        v.view(dtype="nothing")


def test_view_structured_and_void() -> None:
    v = StridedMemoryView.from_dlpack(np.zeros(4, "f4"))
    s = np.dtype([("a", "i2"), ("b", "i2")])
    for dtype in (s, np.dtype("V4")):
        w = v.view(dtype=dtype)
        assert w.dtype == dtype
        with pytest.raises(BufferError):
            w.__dlpack__()
        with pytest.raises(BufferError):
            memoryview(w)
        assert "StridedMemoryView" in repr(w)


def test_view_layout() -> None:
    a = np.arange(12, dtype="i4")
    v = StridedMemoryView.from_dlpack(a)
    w = v.view(layout=((3, 4), None))
    assert np.array_equal(np.from_dlpack(w), a.reshape(3, 4))
    w = v.view(((4, 3), (1, 4)))
    assert np.array_equal(np.from_dlpack(w), a.reshape(3, 4).T)
    assert v.view(layout=w).strides == (1, 4)
    assert v.view(((12,), (0,))).strides == (0,)
    for bad in (((13,), None), ((12,), (2,)), ((2,), (-1,)), ((3, 4), (4,)), ((2**62, 8), None), ((-1,), None)):
        with pytest.raises(ValueError):
            v.view(layout=bad)
    with pytest.raises(TypeError):
        v.view(layout=3)
    assert v.view(layout=((0, 99), None)).size == 0


def test_structured_array_interface() -> None:
    a = np.zeros(3, [("a", "i4"), ("b", "f8")])
    v = StridedMemoryView.from_array_interface(a)
    assert v.dtype == np.dtype("V12")
    assert v.itemsize == 12
    with pytest.raises(BufferError, match="divisible by itemsize"):
        StridedMemoryView.from_array_interface(np.zeros(3, [("a", "i4"), ("b", "f8")])["b"])


def test_cuda_array_interface(raises: Any) -> None:
    class Gpu:
        __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}

    for make in (StridedMemoryView.from_cuda_array_interface, StridedMemoryView.from_any_interface):
        with raises(BufferError, "R126"):
            make(Gpu())
        with raises(BufferError, "R172" if has_driver() else "R288"):
            make(Gpu(), -1)
    with raises(BufferError, "R158"):
        StridedMemoryView.from_cuda_array_interface(object(), -1)


def test_byte_offset() -> None:
    for versioned in (True, False):
        m = Managed(byte_offset=16, versioned=versioned)
        v = StridedMemoryView.from_dlpack(m.capsule())
        assert v.ptr == m.base + 16
        assert np.from_dlpack(v).ctypes.data == v.ptr


def test_copy_from_and_copy_to(raises: Any) -> None:
    a = np.zeros((3, 4), "f4")
    v = StridedMemoryView.from_dlpack(a)
    v.copy_from(np.arange(12, dtype="f4").reshape(4, 3).T)
    assert np.array_equal(a, np.arange(12).reshape(4, 3).T)
    out = np.empty((4, 3), "f4").T
    v.copy_to(out)
    assert np.array_equal(out, a)
    w = StridedMemoryView.from_dlpack(np.zeros((3, 4), "f4"))
    v.copy_to(w)
    w.copy_from(v, stream=None)
    assert np.array_equal(np.from_dlpack(w), a)
    for bad in (np.zeros((3, 3), "f4"), np.zeros((3, 4), "f8"), np.zeros(12, "f4")):
        with pytest.raises(ValueError):
            v.copy_from(bad)
        with pytest.raises(ValueError):
            v.copy_to(bad)
    a.flags.writeable = False
    with raises(handoff.ReadOnlyError, "R015"):
        StridedMemoryView.from_dlpack(a).copy_from(np.zeros((3, 4), "f4"))
    with raises(handoff.ReadOnlyError, "R015"):
        v.copy_to(a)
    with pytest.raises(ValueError):
        v.copy_from(a, stream=1)


@pytest.mark.parametrize("size", [10, 100_000])
def test_copy_between_overlapping_views(size: int) -> None:
    a = np.arange(size, dtype="i8")
    want = a[::-1].copy()
    StridedMemoryView.from_dlpack(a).copy_from(a[::-1])
    assert np.array_equal(a, want)
    a = np.arange(size, dtype="i8")
    want = np.concatenate([a[:1], a[:-1]])
    StridedMemoryView.from_dlpack(a[1:]).copy_from(a[:-1])
    assert np.array_equal(a, want)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "c16"])
def test_large_copies(dtype: str) -> None:
    a = np.arange(700 * 900).reshape(700, 900).astype(dtype)
    out = np.zeros((900, 700), dtype)
    StridedMemoryView.from_dlpack(out).copy_from(a.T)
    assert np.array_equal(out, a.T)
    assert np.array_equal(np.from_dlpack(StridedMemoryView.from_dlpack(a.T), copy=True), a.T)


def test_view_releases_the_producer() -> None:
    class Owner:
        def __init__(self, a: Any) -> None:
            self.a = a

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.a.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return (1, 0)

    a = np.zeros(3)
    before = sys.getrefcount(a)
    o = Owner(a)
    v = StridedMemoryView.from_dlpack(o)
    r = weakref.ref(o)
    del o
    assert r() is not None
    del v
    gc.collect()
    assert r() is None
    assert sys.getrefcount(a) == before


def test_cycle_is_collected() -> None:
    class Holder(np.ndarray):
        pass

    a = np.zeros(3).view(Holder)
    a.view_of_me = StridedMemoryView.from_array_interface(a)
    r = weakref.ref(a)
    del a
    gc.collect()
    assert r() is None


def test_no_instances_by_call() -> None:
    with pytest.raises(TypeError):
        Array()
    with pytest.raises(ValueError, match="layout"):
        StridedMemoryView()  # type: ignore[call-arg]
    for cls in (StridedMemoryView, Array):
        with pytest.raises(TypeError):
            type("Sub", (cls,), {})


def test_arguments_by_name_as_in_cuda_core() -> None:
    a = np.arange(6)
    for v in (
        StridedMemoryView.from_dlpack(obj=a),
        StridedMemoryView.from_dlpack(stream_ptr=-1, obj=a),
        StridedMemoryView.from_any_interface(obj=a, stream_ptr=-1),
        StridedMemoryView.from_array_interface(obj=a),
        StridedMemoryView.from_buffer(buffer=a, shape=6, dtype=a.dtype),
    ):
        assert v.exporting_obj is a
    out = np.zeros_like(a)
    StridedMemoryView.from_dlpack(a).copy_to(other=out)
    assert np.array_equal(out, a)
    StridedMemoryView.from_dlpack(out).copy_from(other=np.zeros_like(a), stream=None)
    assert not out.any()
    for wrong in ({}, {"x": a}, {"obj": a, "stream": None}):
        with pytest.raises(TypeError):
            StridedMemoryView.from_any_interface(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        StridedMemoryView.from_array_interface(a, obj=a)  # type: ignore[misc]


def test_layout_errors_are_value_errors() -> None:
    """As what cuda.core raises for strides that no element has."""

    class Cut:
        __array_interface__ = np.zeros(4).__array_interface__ | {"shape": (2,), "strides": (10,)}

    with pytest.raises(handoff.LayoutError) as info:
        StridedMemoryView.from_array_interface(Cut())
    assert isinstance(info.value, ValueError)
    assert isinstance(info.value, BufferError)


@pytest.mark.parametrize("itemsize", [0, -4, 2**40])
def test_itemsize_of_no_element(itemsize: int) -> None:
    with pytest.raises(handoff.InvalidValueError, match="size of an element"):
        StridedMemoryView.from_buffer(bytearray(8), (1,), itemsize=itemsize)


def test_dtype_without_ml_dtypes(run: Any) -> None:
    run(
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import handoff\n"
        "a = handoff.Array.full(2, 1.5, 'bfloat16')\n"
        "try: a.dtype\n"
        "except NotImplementedError as e: assert 'ml_dtypes' in str(e)\n"
        "else: raise SystemExit('no error')\n"
        "assert a.dlpack_dtype == (4, 16, 1) and a.tolist() == [1.5, 1.5]\n"
    )
