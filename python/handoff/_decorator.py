"""Functions whose arguments can be viewed as strided memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from handoff._core import ProtocolError, StridedMemoryView

if TYPE_CHECKING:
    from handoff._core import _StreamLike

P = ParamSpec("P")
R = TypeVar("R")


class ViewableArgument:
    """An argument of a function decorated by `args_viewable_as_strided_memory`."""

    __slots__ = ("has_dlpack", "obj")

    obj: Any
    """The argument."""
    has_dlpack: bool
    """Whether it speaks DLPack; otherwise it has an array interface or a buffer."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.has_dlpack = hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")
        if self.has_dlpack or hasattr(obj, "__cuda_array_interface__") or hasattr(obj, "__array_interface__"):
            return
        try:
            memoryview(obj).release()
        except TypeError:
            error = ProtocolError(
                f"handoff: an argument of type {type(obj).__name__} speaks no exchange protocol (R158)"
            )
            error.rule = "R158"
            raise error from None

    def view(self, stream_ptr: _StreamLike | None = None) -> StridedMemoryView:
        """View the argument, ordered on a stream; see `StridedMemoryView.from_any_interface`."""
        return StridedMemoryView.from_any_interface(self.obj, stream_ptr)


def args_viewable_as_strided_memory(arg_indices: Iterable[int]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function: its positional arguments of these numbers come as `ViewableArgument`.

    In the function `arg.view(stream_ptr)` is a StridedMemoryView of the array, and `arg.obj` the
    array itself. An argument that speaks no protocol is refused when the function is called.
    """
    indices = frozenset(arg_indices)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            wrapped = [ViewableArgument(a) if i in indices else a for i, a in enumerate(args)]
            return function(*wrapped, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate
