"""Functions whose arguments can be viewed as strided memory."""

from __future__ import annotations

import functools
import operator
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
    array itself. Negative numbers count from the last argument of a call; an argument may be given by
    its name, too. One that speaks no protocol is refused when the function is called.
    """
    indices = frozenset(operator.index(i) for i in arg_indices)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        code = getattr(function, "__code__", None)
        parameters = code.co_varnames[: code.co_argcount] if code is not None else ()
        names = {parameters[i] for i in indices if 0 <= i < len(parameters)}

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            n = len(args)
            wrapped = [ViewableArgument(a) if i in indices or i - n in indices else a for i, a in enumerate(args)]
            named = {k: ViewableArgument(a) if k in names else a for k, a in kwargs.items()} if kwargs else kwargs
            return function(*wrapped, **named)  # type: ignore[arg-type]

        return call

    return decorate
