"""StridedLayout against NumPy: the same parts, axes and shapes give the same shape, strides and place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import handoff
from handoff import StridedLayout, StridedMemoryView


def of(a: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> StridedLayout:
    """The layout of a part of an array, by what NumPy says."""
    layout = StridedLayout(a.shape, a.strides, a.itemsize, divide_strides=True)
    offset = (a.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // a.itemsize
    return StridedLayout._make(layout.shape, layout.strides, layout.itemsize, offset if a.size else layout._offset)


def same(layout: StridedLayout, a: np.ndarray[Any, Any], base: np.ndarray[Any, Any]) -> None:
    """Names the same elements as NumPy."""
    want = of(a, base)
    assert layout.shape == want.shape
    if a.size:
        assert layout.slice_offset == want.slice_offset
        used = [i for i, n in enumerate(a.shape) if n > 1]
        assert [layout.strides[i] for i in used] == [want.strides[i] for i in used]


def strided(flat: np.ndarray[Any, Any], layout: StridedLayout) -> np.ndarray[Any, Any]:
    """The elements that a layout names."""
    return np.lib.stride_tricks.as_strided(flat[layout.slice_offset :], layout.shape, layout.strides_in_bytes)


SLICES = st.slices(6)
PARTS = st.one_of(st.integers(-4, 3), SLICES, st.just(...))


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=3), st.permutations(range(3)))
def test_parts_and_axes(parts: list[Any], order: list[int]) -> None:
    base = np.arange(4 * 5 * 6, dtype="i4").reshape(4, 5, 6)
    a, layout = base.transpose(order), StridedLayout.of(StridedMemoryView.from_dlpack(base)).permuted(order)
    same(layout, a, base)
    index = tuple(parts) if ... in parts else (*parts, ...)  # so that NumPy makes no scalar
    try:
        b = a[index]
    except IndexError:
        with pytest.raises(handoff.Error):
            layout[tuple(parts)]
        return
    got = layout[tuple(parts)]
    same(got, b, base)
    assert got.is_contiguous_c == b.flags.c_contiguous
    if got.volume:
        low, high = got.offset_bounds
        values = b.ravel()
        assert (low, high) == (values.min(), values.max())
        assert got.required_size_in_bytes() == (high + 1) * 4
    else:
        assert got.offset_bounds == (0, -1)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([(24,), (2, 12), (4, 6), (2, 3, 4), (1, 24, 1), (2, 2, 2, 3), (3, -1), (0,), (5, 5)]), st.data())
def test_shapes(shape: tuple[int, ...], data: Any) -> None:
    flat = np.arange(200, dtype="f8")
    base = flat[:96].reshape(4, 4, 6)
    a = base[:2, ::2][:, data.draw(st.sampled_from([slice(None), slice(None, None, -1)]))][..., :6]
    layout = of(a, flat)
    try:
        want = a.view()
        want.shape = shape  # NumPy's own: no copy, or an error
    except (AttributeError, ValueError):
        with pytest.raises(handoff.Error):
            layout.reshaped(shape)
        return
    assert (strided(flat, layout.reshaped(shape)) == want).all()


def test_errors_and_rest() -> None:
    c = StridedLayout((2, 3), None, 4)
    assert c == StridedLayout.dense((2, 3), 4) == StridedLayout((2, 3), (12, 4), 4, divide_strides=True)
    assert hash(c) == hash(StridedLayout((2, 3), (3, 1), 4))
    f = StridedLayout.dense((2, 3), 4, "F")
    assert (f.strides, f.is_contiguous_f, f.is_contiguous_c, f.is_contiguous_any) == ((1, 2), True, False, True)
    assert StridedLayout.dense((2, 3, 4), 1, (1, 0, 2)).strides == (4, 8, 1)
    assert StridedLayout.dense_like(f).strides == (1, 2)
    assert f.to_dense("C").strides == (3, 1)
    assert f.stride_order == (1, 0)
    wide = c.broadcast_to((5, 2, 3))
    assert (wide.strides, wide.is_unique, c.is_unique) == ((0, 3, 1), False, True)
    assert c.unsqueezed((0, -1)).shape == (1, 2, 3, 1)
    assert c.unsqueezed(1).squeezed() == c
    assert c.flattened().shape == (6,)
    assert StridedLayout((2, 3, 4), (24, 8, 2), 1).flattened(1).shape == (2, 12)
    assert c[1:].is_contiguous_c
    assert not c[1:].is_dense
    r = c[::-1]
    assert (r.slice_offset, r.slice_offset_in_bytes, r.min_offset, r.max_offset) == (3, 12, 0, 5)
    assert c.repacked(2) == StridedLayout((2, 6), None, 2)
    assert c.repacked(2).repacked(4) == c
    assert (c.max_compatible_itemsize(16), StridedLayout((2, 4), None, 4).max_compatible_itemsize(16)) == (4, 16)
    assert StridedLayout((2, 4), None, 4).max_compatible_itemsize(16, data_ptr=8) == 8
    assert StridedLayout((), None, 8).reshaped((1, 1)).ndim == 2
    for wrong in (
        lambda: StridedLayout((-1,), None, 4),
        lambda: StridedLayout((1,) * 65, None, 4),
        lambda: StridedLayout((2,), (1, 1), 4),
        lambda: StridedLayout((2,), None, 0),
        lambda: StridedLayout((2,), (6,), 4, divide_strides=True),
        lambda: StridedLayout((2,), (-1,), 4).required_size_in_bytes(),
        lambda: StridedLayout.dense((2, 3), 4, (0, 0)),
        lambda: c.permuted((0, 0)),
        lambda: c.permuted((0, 2)),
        lambda: c.reshaped((4,)),
        lambda: c.reshaped((-1, -1)),
        lambda: f.flattened(),
        lambda: c.broadcast_to((3,)),
        lambda: c.broadcast_to((4, 3)),
        lambda: c.unsqueezed((0, 0)),
        lambda: c.repacked(8),
        lambda: c[..., ...],
        lambda: c[0, 0, 0],
        lambda: c[2],
    ):
        with pytest.raises(handoff.Error) as info:
            wrong()
        assert isinstance(info.value, (ValueError, BufferError))


def test_views_take_layouts() -> None:
    a = np.arange(24, dtype="i2").reshape(4, 6)
    v = StridedMemoryView.from_dlpack(a)
    layout = StridedLayout.of(v)
    for part in itertools.product([slice(None), slice(1, None, 2), slice(None, None, -1), 2], repeat=2):
        w = v.view(layout=layout[part])
        assert np.array_equal(np.from_dlpack(w), a[part])
        assert w.exporting_obj is a
    assert np.array_equal(np.from_dlpack(v.view(layout=layout.permuted((1, 0)))), a.T)
    assert np.array_equal(np.from_dlpack(v.view(layout=layout[1:3].reshaped((3, 4)))), a[1:3].reshape(3, 4))
    assert v.view(layout=layout[:0, 3:]).shape == (0, 3)
    for wrong in (layout[2:].broadcast_to((9, 2, 6)), StridedLayout((24,), None, 4), StridedLayout((25,), None, 2)):
        if wrong.ndim == 3:
            assert v.view(layout=wrong).shape == (9, 2, 6)
            continue
        with pytest.raises(handoff.Error):
            v.view(layout=wrong)
    part = StridedLayout._make((4,), (1,), 2, 21)
    with pytest.raises(ValueError, match="reaches elements 21 to 25"):
        v.view(layout=part)
    part = StridedLayout._make((4,), (1,), 2, 2**62)
    with pytest.raises(handoff.Error):
        v.view(layout=part)
    part = StridedLayout._make((4,), (1,), 2, 2**70)
    with pytest.raises(handoff.Error):
        v.view(layout=part)


@pytest.mark.parametrize(
    "make",
    [
        lambda: StridedLayout((2.7,), None, 4),  # type: ignore[list-item]
        lambda: StridedLayout("12", None, 4),  # type: ignore[arg-type]
        lambda: StridedLayout(3, None, 4),  # type: ignore[arg-type]
        lambda: StridedLayout((2,), (1.5,), 4),  # type: ignore[list-item]
        lambda: StridedLayout((2,), None, 4.0),  # type: ignore[arg-type]
        lambda: StridedLayout((2,), None, float("nan")),  # type: ignore[arg-type]
        lambda: StridedLayout.dense((2, 3), 4, (0.0, 1.0)),  # type: ignore[arg-type]
        lambda: StridedLayout.dense({"x": 1}, 4),  # type: ignore[arg-type]
        lambda: StridedLayout.dense_like(np.zeros(3)),  # type: ignore[arg-type]
        lambda: StridedLayout.of(np.zeros(3)),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4).flattened(0.5),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4).permuted((None, 0)),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4).unsqueezed("0"),  # type: ignore[arg-type]
        lambda: StridedLayout((6,), None, 4).reshaped((2.0, 3)),  # type: ignore[list-item]
        lambda: StridedLayout((1,), None, 4).broadcast_to((2.5,)),  # type: ignore[list-item]
        lambda: StridedLayout((2, 3), None, 4).repacked(1.5),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4).repacked(4, None),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4).max_compatible_itemsize(8.0),  # type: ignore[arg-type]
        lambda: StridedLayout((2, 3), None, 4)[1.5],  # type: ignore[index]
        lambda: StridedLayout((2, 3), None, 4)["x"],  # type: ignore[index]
    ],
)
def test_what_is_no_int(make: Any) -> None:
    with pytest.raises(handoff.InvalidTypeError):
        make()


def test_wrong_values() -> None:
    layout = StridedLayout((2, 3, 4), None, 4)
    for make in (
        lambda: layout.repacked(0),
        lambda: layout.repacked(-4),
        lambda: layout.flattened(2, 0),
        lambda: StridedLayout.dense((2, 3), 4, "X"),  # type: ignore[arg-type]
    ):
        with pytest.raises(handoff.InvalidValueError):
            make()
    assert StridedLayout((12,), None, 4).max_compatible_itemsize(24) == 16, "a power of 2"
    assert layout.max_compatible_itemsize(0) == layout.max_compatible_itemsize(-1) == 4
    assert StridedLayout(np.array([2, 3]), np.array([3, 1]), np.int64(4)) == StridedLayout((2, 3), None, 4)  # type: ignore[arg-type]
    assert StridedLayout.dense((2, 3), 4, np.array([1, 0])) == StridedLayout.dense((2, 3), 4, "F")  # type: ignore[arg-type]


@pytest.mark.parametrize("array", [np.arange(8.0)[::2], memoryview(b"abcd"), np.float64(1)])
def test_arrays_are_no_layouts(array: Any) -> None:
    """Their strides count bytes, those of a layout elements."""
    view = StridedMemoryView.from_buffer(bytearray(64), (64,), dtype="int8")
    with pytest.raises(handoff.InvalidTypeError, match="count bytes"):
        view.view(array)
    same_shape = StridedMemoryView.from_any_interface(array)
    assert view.view(same_shape).strides == same_shape.strides
