"""Layouts: how the elements of an array lie in memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias

from handoff._core import Array, InvalidTypeError, InvalidValueError, LayoutError, StridedMemoryView

Order: TypeAlias = Literal["C", "F", "K"] | Sequence[int]
Index: TypeAlias = int | slice | EllipsisType


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        strides[i] = step
        step *= max(shape[i], 1)
    return tuple(strides)


def _int(what: str, value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise InvalidTypeError(f"{what} is an int, not {value!r}")
    return operator.index(value)


def _ints(what: str, values: Any) -> tuple[int, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidTypeError(f"a sequence of ints is needed, each {what}, not {values!r}")
    return tuple(_int(what, v) for v in values)


def _axis(axis: int, ndim: int) -> int:
    axis = _int("an axis", axis)
    if not -ndim <= axis < ndim:
        raise InvalidValueError(f"axis {axis} of {ndim}")
    return axis % ndim


class StridedLayout:
    """Shape, strides and item size of an array; immutable.

    Strides count elements. `StridedMemoryView.view(layout)` gives the same memory another layout, and
    every method that returns a layout describes the same memory, or says so. Names and meanings are
    those of cuda.core, whose own class is private.
    """

    __slots__ = ("_itemsize", "_offset", "_shape", "_strides")

    _shape: tuple[int, ...]
    _strides: tuple[int, ...]
    _itemsize: int
    _offset: int

    def __init__(
        self, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int, divide_strides: bool = False
    ) -> None:
        """Describe a layout; without strides in C order, with divide_strides they are in bytes."""
        shape, itemsize = _ints("an extent", shape), _int("an item size", itemsize)
        if any(n < 0 for n in shape) or len(shape) > 64:
            raise InvalidValueError(f"shape {shape}: at most 64 extents of 0 or more")
        if itemsize <= 0:
            raise InvalidValueError(f"an item of {itemsize} bytes")
        strides = _row_major(shape) if strides is None else _ints("a stride", strides)
        if len(strides) != len(shape):
            raise InvalidValueError(f"{len(strides)} strides for {len(shape)} dimensions")
        if divide_strides:
            for n, s in zip(shape, strides, strict=True):
                if n > 1 and s % itemsize:
                    raise LayoutError(f"handoff: layout: strides must be divisible by itemsize: {s} by {itemsize}")
            strides = tuple(s // itemsize for s in strides)
        self._shape, self._strides, self._itemsize, self._offset = shape, strides, itemsize, 0

    @classmethod
    def _make(cls, shape: Sequence[int], strides: Sequence[int], itemsize: int, offset: int) -> StridedLayout:
        layout = cls(shape, strides, itemsize)
        layout._offset = offset
        return layout

    @classmethod
    def dense(cls, shape: Sequence[int], itemsize: int, stride_order: Order = "C") -> StridedLayout:
        """Return a layout without gaps, in C or Fortran order, or axes as named from the largest stride."""
        shape = _ints("an extent", shape)
        n = len(shape)
        order = list(range(n))
        if isinstance(stride_order, str):
            if stride_order not in ("C", "F", "K"):
                raise InvalidValueError(f"the order of strides is 'C', 'F', 'K' or axes, not {stride_order!r}")
            if stride_order == "F":
                order.reverse()
        else:
            order = [_axis(a, n) for a in _ints("an axis", stride_order)]
            if sorted(order) != list(range(n)):
                raise InvalidValueError(f"{tuple(stride_order)} does not name each of {n} axes once")
        strides, step = [0] * n, 1
        for a in reversed(order):
            strides[a] = step
            step *= max(shape[a], 1)
        return cls(shape, strides, itemsize)

    @classmethod
    def dense_like(cls, other: StridedLayout, stride_order: Order = "K") -> StridedLayout:
        """Return a layout without gaps for the shape of another; "K" keeps its order of axes."""
        if not isinstance(other, StridedLayout):
            raise InvalidTypeError(f"a StridedLayout is needed, not {other!r}")
        kept = isinstance(stride_order, str) and stride_order == "K"
        return cls.dense(other._shape, other._itemsize, other.stride_order if kept else stride_order)

    @classmethod
    def of(cls, view: StridedMemoryView | Array) -> StridedLayout:
        """Return the layout of a view."""
        if not isinstance(view, (Array, StridedMemoryView)):
            raise InvalidTypeError(
                f"a StridedMemoryView or an Array is needed, not {view!r}: its strides count elements"
            )
        return cls(view.shape, view.strides, view.itemsize)

    # ---- What it is ---------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self._shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides in elements."""
        return self._strides

    @property
    def strides_in_bytes(self) -> tuple[int, ...]:
        """The strides in bytes."""
        return tuple(s * self._itemsize for s in self._strides)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self._itemsize

    @property
    def volume(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    @property
    def stride_order(self) -> tuple[int, ...]:
        """The axes from the largest stride to the smallest."""
        return tuple(sorted(range(self.ndim), key=lambda a: (-abs(self._strides[a]), a)))

    def _dense_in(self, axes: Sequence[int]) -> bool:
        step = 1
        for a in reversed(axes):
            if self._shape[a] != 1 and self._strides[a] != step:
                return False
            step *= self._shape[a]
        return True

    @property
    def is_contiguous_c(self) -> bool:
        """Whether the elements lie in C order without gaps; empty layouts do."""
        return self.volume == 0 or self._dense_in(range(self.ndim))

    @property
    def is_contiguous_f(self) -> bool:
        """Whether they lie in Fortran order without gaps."""
        return self.volume == 0 or self._dense_in(range(self.ndim - 1, -1, -1))

    @property
    def is_contiguous_any(self) -> bool:
        """Whether they lie without gaps in some order of the axes."""
        return self.volume == 0 or self._dense_in(self.stride_order)

    @property
    def is_dense(self) -> bool:
        """Whether the elements are a block that begins at offset 0."""
        return self.is_contiguous_any and self._offset == 0

    @property
    def is_unique(self) -> bool:
        """Whether no element is named twice, as far as sorted strides tell: broadcast axes name some."""
        reach = 0
        for a in reversed(self.stride_order):
            if self._shape[a] > 1:
                if abs(self._strides[a]) <= reach:
                    return self.volume == 0
                reach += (self._shape[a] - 1) * abs(self._strides[a])
        return True

    @property
    def slice_offset(self) -> int:
        """The first element, in elements from where the memory begins."""
        return self._offset

    @property
    def slice_offset_in_bytes(self) -> int:
        """The first element, in bytes from where the memory begins."""
        return self._offset * self._itemsize

    @property
    def offset_bounds(self) -> tuple[int, int]:
        """The smallest and the largest offset of an element, in elements; (0, -1) if there is none."""
        if self.volume == 0:
            return (0, -1)
        steps = [(n - 1) * s for n, s in zip(self._shape, self._strides, strict=True)]
        return (self._offset + sum(s for s in steps if s < 0), self._offset + sum(s for s in steps if s > 0))

    @property
    def min_offset(self) -> int:
        """The smallest offset of an element."""
        return self.offset_bounds[0]

    @property
    def max_offset(self) -> int:
        """The largest offset of an element."""
        return self.offset_bounds[1]

    def required_size_in_bytes(self) -> int:
        """Return the bytes that memory needs for the layout; InvalidValueError if it begins before the memory."""
        low, high = self.offset_bounds
        if low < 0:
            raise InvalidValueError(f"the layout begins {-low} elements before the memory")
        return (high + 1) * self._itemsize

    # ---- Other layouts ------------------------------------------------------

    def to_dense(self, stride_order: Order = "K") -> StridedLayout:
        """Return the layout of a copy without gaps."""
        return self.dense_like(self, stride_order)

    def permuted(self, axes: Sequence[int]) -> StridedLayout:
        """Return the layout with its axes in another order."""
        order = [_axis(a, self.ndim) for a in _ints("an axis", axes)]
        if sorted(order) != list(range(self.ndim)):
            raise InvalidValueError(f"{tuple(axes)} does not name each of {self.ndim} axes once")
        shape, strides = [self._shape[a] for a in order], [self._strides[a] for a in order]
        return self._make(shape, strides, self._itemsize, self._offset)

    def squeezed(self) -> StridedLayout:
        """Return the layout without axes of extent 1."""
        kept = [a for a in range(self.ndim) if self._shape[a] != 1]
        shape, strides = [self._shape[a] for a in kept], [self._strides[a] for a in kept]
        return self._make(shape, strides, self._itemsize, self._offset)

    def unsqueezed(self, axes: int | Sequence[int]) -> StridedLayout:
        """Return the layout with axes of extent 1 where the result is to have them."""
        new = list(_ints("an axis", axes)) if isinstance(axes, Iterable) else [_int("an axis", axes)]
        n = self.ndim + len(new)
        at = {_axis(a, n) for a in new}
        if len(at) != len(new):
            raise InvalidValueError(f"{tuple(new)} names an axis twice")
        old = iter(range(self.ndim))
        shape, strides = [], []
        for i in range(n):
            a = -1 if i in at else next(old)
            shape.append(1 if a < 0 else self._shape[a])
            strides.append(0 if a < 0 else self._strides[a])
        return self._make(shape, strides, self._itemsize, self._offset)

    def broadcast_to(self, shape: Sequence[int]) -> StridedLayout:
        """Return the layout repeated to a larger shape, by strides of 0."""
        shape = _ints("an extent", shape)
        extra = len(shape) - self.ndim
        strides = [0] * len(shape)
        if extra < 0:
            raise InvalidValueError(f"{self._shape} cannot be broadcast to {tuple(shape)}")
        for i, (n, s) in enumerate(zip(self._shape, self._strides, strict=True)):
            if n == shape[extra + i]:
                strides[extra + i] = s
            elif n != 1:
                raise InvalidValueError(f"{self._shape} cannot be broadcast to {tuple(shape)}")
        return self._make(shape, strides, self._itemsize, self._offset)

    def flattened(self, start_axis: int = 0, end_axis: int = -1) -> StridedLayout:
        """Return the layout with neighbouring axes joined that one step walks.

        LayoutError if the axes from start_axis to end_axis are not all of that kind.
        """
        if self.ndim == 0:
            return self.reshaped((1,))
        first, last = _axis(start_axis, self.ndim), _axis(end_axis, self.ndim)
        if first > last:
            raise InvalidValueError(f"the axes from {start_axis} to {end_axis} are none")
        size = math.prod(self._shape[first : last + 1])
        return self.reshaped((*self._shape[:first], size, *self._shape[last + 1 :]))

    def reshaped(self, shape: Sequence[int]) -> StridedLayout:
        """Return another shape of the same elements in C order; one extent may be -1.

        LayoutError if that needs a copy.
        """
        new = list(_ints("an extent", shape))
        if new.count(-1) > 1:
            raise InvalidValueError("more than one extent is -1")
        if -1 in new:
            rest = -math.prod(new)
            if rest == 0 or self.volume % rest:
                raise InvalidValueError(f"{self.volume} elements have no shape {tuple(shape)}")
            new[new.index(-1)] = self.volume // rest
        if math.prod(new) != self.volume:
            raise InvalidValueError(f"{self.volume} elements have no shape {tuple(shape)}")
        if self.volume == 0:
            return self._make(new, _row_major(new), self._itemsize, self._offset)
        # Runs of old axes that are walked in one pace, each filled by new axes.
        old = [(n, s) for n, s in zip(self._shape, self._strides, strict=True) if n != 1]
        runs: list[list[int]] = []  # extent, smallest stride
        for n, s in old:
            if runs and runs[-1][1] == n * s:
                runs[-1] = [runs[-1][0] * n, s]
            else:
                runs.append([n, s])
        strides, step, left = [0] * len(new), 1, 1
        for i in reversed(range(len(new))):
            if new[i] == 1:
                strides[i] = step
                continue
            if left == 1:
                left, step = runs.pop()
            if left % new[i]:
                raise LayoutError(f"handoff: layout: {self} has no shape {tuple(new)} without a copy")
            strides[i] = step
            step *= new[i]
            left //= new[i]
        return self._make(new, strides, self._itemsize, self._offset)

    def max_compatible_itemsize(self, max_itemsize: int, data_ptr: int = 0, axis: int = -1) -> int:
        """Return the largest power of 2 that the items of a dense axis can be taken together as."""
        size = _int("an item size", max_itemsize)
        size = 1 << size.bit_length() - 1 if size > 0 else 0
        while size > self._itemsize:
            try:
                self.repacked(size, data_ptr, axis)
            except LayoutError:
                size //= 2
            else:
                return size
        return self._itemsize

    def repacked(self, itemsize: int, data_ptr: int = 0, axis: int = -1) -> StridedLayout:
        """Return the layout of the same bytes as items of another size, along a dense axis."""
        itemsize, data_ptr = _int("an item size", itemsize), _int("an address", data_ptr)
        if itemsize <= 0:
            raise InvalidValueError(f"an item of {itemsize} bytes")
        a = _axis(axis, self.ndim)
        old = self._itemsize
        wrong = self._shape[a] * old % itemsize or data_ptr % itemsize or self.slice_offset_in_bytes % itemsize
        if self._shape[a] != 1 and self._strides[a] != 1:
            wrong = True
        others = [self._strides[i] * old for i in range(self.ndim) if i != a and self._shape[i] != 1]
        if wrong or any(s % itemsize for s in others):
            raise LayoutError(f"handoff: layout: {self} has no items of {itemsize} bytes")
        shape = [n * old // itemsize if i == a else n for i, n in enumerate(self._shape)]
        strides = [1 if i == a else s * old // itemsize for i, s in enumerate(self._strides)]
        return self._make(shape, strides, itemsize, self.slice_offset_in_bytes // itemsize)

    def sliced(self, index: Index | tuple[Index, ...]) -> StridedLayout:
        """Return the layout of a part, as NumPy's basic indexing gives it."""
        items = index if isinstance(index, tuple) else (index,)
        given = sum(i is not ... for i in items)
        if sum(i is ... for i in items) > 1 or given > self.ndim:
            raise InvalidValueError(f"{given} indices for {self.ndim} axes")
        full: list[int | slice] = []
        for i in items if any(i is ... for i in items) else (*items, ...):
            full += [slice(None)] * (self.ndim - given) if isinstance(i, EllipsisType) else [i]
        shape, strides, offset = [], [], self._offset
        for i, n, s in zip(full, self._shape, self._strides, strict=True):
            if isinstance(i, slice):
                start, stop, step = i.indices(n)
                extent = len(range(start, stop, step))
                offset += start * s if extent else 0
                shape.append(extent)
                strides.append(s * step)
            else:
                i = _int("an index", i)
                if not -n <= i < n:
                    raise InvalidValueError(f"index {i} of {n}")
                offset += i % n * s
        return self._make(shape, strides, self._itemsize, offset)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> StridedLayout:
        """Return the layout of a part."""
        return self.sliced(index)

    def __eq__(self, other: object) -> bool:
        """Compare all that there is."""
        return isinstance(other, StridedLayout) and self._key() == other._key()

    def __hash__(self) -> int:
        """Hash all that there is."""
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self._shape, self._strides, self._itemsize, self._offset)

    def __repr__(self) -> str:
        """Return all that there is."""
        at = f", slice_offset={self._offset}" if self._offset else ""
        return f"StridedLayout(shape={self._shape}, strides={self._strides}, itemsize={self._itemsize}{at})"
