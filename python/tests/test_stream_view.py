"""StreamView: what it takes and what it refuses. No driver is needed."""

from __future__ import annotations

import ctypes
import gc
import threading
import warnings
import weakref
from typing import Any

import pytest

import handoff
from handoff import StreamView

HANDLE = 0x7F00_1234_5670


class Method:
    def __init__(self, result: Any) -> None:
        self.result = result

    def __cuda_stream__(self) -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class Attribute:
    def __init__(self, result: Any) -> None:
        self.__cuda_stream__ = result


class Handle(int):
    """An int of its own class, as bindings have them."""


class CUstream:
    def __int__(self) -> int:
        return HANDLE


class Older:
    """Streams from before the protocol (5.5)."""

    class TorchStream:
        cuda_stream = HANDLE

    class PaddleLike:
        cuda_stream = HANDLE

    class CupyStream:
        ptr = HANDLE

    class ExternalStream:
        ptr = HANDLE

    class NumbaStream:
        handle = ctypes.c_void_p(HANDLE)

    class CoreStream:
        handle = CUstream()

    class PycudaStream:
        handle = HANDLE


@pytest.mark.parametrize("handle", [0, 1, 2, 4096, HANDLE, 2**64 - 1])
def test_R260_R263_R272_R273_method(handle: int) -> None:
    v = StreamView(Method((0, handle)))
    assert v.handle == int(v) == handle
    assert v.__cuda_stream__()[0] == 0
    assert StreamView(v).handle == handle


def test_large_handle_survives() -> None:
    assert StreamView(2**64 - 1).__cuda_stream__() == (0, 2**64 - 1)


@pytest.mark.parametrize("cls", [c for n, c in vars(Older).items() if isinstance(c, type)], ids=lambda c: c.__name__)
def test_older_accessors(cls: type) -> None:
    s = cls()
    v = StreamView(s)
    assert v.handle == HANDLE
    assert v.exporting_obj is s


def test_numba_null_stream() -> None:
    class Stream:
        handle = ctypes.c_void_p(None)

    assert StreamView(Stream()).handle == 0


def test_bindings() -> None:
    assert StreamView(CUstream()).handle == HANDLE


@pytest.mark.parametrize("raw", [0, 1, 2, 4096, HANDLE, Handle(HANDLE)])
def test_raw_handles(raw: int) -> None:
    assert StreamView(raw).handle == raw
    assert StreamView.from_handle(raw).handle == raw


def test_integers_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    assert StreamView(np.uint64(HANDLE)).handle == HANDLE


def test_R275_attribute_form() -> None:
    with pytest.warns(DeprecationWarning, match="R275"):
        assert StreamView(Attribute((0, HANDLE))).handle == HANDLE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DeprecationWarning):
            StreamView(Attribute((0, HANDLE)))


@pytest.mark.parametrize(
    ("result", "cls", "rule"),
    [
        (None, RuntimeError, "R261"),
        ([0, HANDLE], RuntimeError, "R261"),
        (HANDLE, RuntimeError, "R261"),
        ((), RuntimeError, "R265"),
        ((0,), RuntimeError, "R265"),
        ((0, HANDLE, 0), RuntimeError, "R265"),
        ((1, HANDLE), RuntimeError, "R266"),
        ((-1, HANDLE), RuntimeError, "R266"),
        ((2**70, HANDLE), RuntimeError, "R266"),
        (("0", HANDLE), TypeError, "R267"),
        ((0.0, HANDLE), TypeError, "R267"),
        ((0, None), TypeError, "R267"),
        ((0, "1"), TypeError, "R267"),
        ((0, 1.0), TypeError, "R267"),
        ((False, HANDLE), TypeError, "R268"),
        ((0, True), TypeError, "R268"),
        ((0, -1), OverflowError, "R268"),
        ((0, 2**64), OverflowError, "R268"),
        ((0, 3), ValueError, "R263"),
        ((0, 4095), ValueError, "R263"),
    ],
    ids=repr,
)
def test_malformed_results(result: Any, cls: type[Exception], rule: str, raises: Any) -> None:
    with raises(cls, rule):
        StreamView(Method(result))


@pytest.mark.parametrize(
    ("obj", "cls", "rule"),
    [
        (None, TypeError, "R264"),
        (object(), TypeError, "R264"),
        ("stream", TypeError, "R264"),
        (1.0, TypeError, "R264"),
        (True, TypeError, "R264"),
        (-1, OverflowError, "R268"),
        (2**64, OverflowError, "R268"),
        (3, ValueError, "R263"),
    ],
    ids=repr,
)
def test_what_is_no_stream(obj: Any, cls: type[Exception], rule: str, raises: Any) -> None:
    with raises(cls, rule):
        StreamView(obj)


def test_R264_arrays_have_a_ptr_too(raises: Any) -> None:
    with raises(TypeError, "R264"):
        StreamView(handoff.Array.zeros(1))


def test_R260_not_a_method(raises: Any) -> None:
    with raises(TypeError, "R260"):
        StreamView(Attribute("stream"))


@pytest.mark.parametrize("error", [ValueError("mine"), AttributeError("mine"), TypeError("mine"), KeyError("mine")])
def test_R277_exceptions_pass_through(error: Exception) -> None:
    with pytest.raises(type(error), match="mine") as info:
        StreamView(Method(error))
    assert info.value is error


def test_R277_property_raises() -> None:
    class Stream:
        @property
        def __cuda_stream__(self) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        StreamView(Stream())


def test_arguments() -> None:
    for args, kwargs in (((), {}), ((1, 2), {}), ((), {"stream": 1}), ((1,), {"x": 1})):
        with pytest.raises(TypeError):
            StreamView(*args, **kwargs)
    with pytest.raises(TypeError):
        handoff.Stream()
    with pytest.raises(TypeError):
        handoff.Event()


def test_R269_keeps_the_exporter() -> None:
    s = Method((0, HANDLE))
    r = weakref.ref(s)
    v = StreamView(s)
    w = StreamView(v)
    del s
    gc.collect()
    assert r() is not None
    v.close()
    del v
    gc.collect()
    assert r() is not None, "the view of the view keeps it"
    del w
    gc.collect()
    assert r() is None


def test_cycles_are_collected() -> None:
    s = Method((0, HANDLE))
    s.view = StreamView(s)  # type: ignore[attr-defined]
    r = weakref.ref(s)
    del s
    gc.collect()
    assert r() is None


def test_equality_and_hash() -> None:
    a, b = StreamView(HANDLE), StreamView(Method((0, HANDLE)))
    assert a == b
    assert hash(a) == hash(b)
    assert a != StreamView(4096)
    assert a != HANDLE
    assert a != object()
    assert StreamView(0) == StreamView(1), "both are the legacy default stream"
    assert StreamView(1) != StreamView(2)
    assert len({a, b, StreamView(HANDLE)}) == 1


def test_default_streams() -> None:
    assert handoff.LEGACY_DEFAULT_STREAM.__cuda_stream__() == (0, 1)
    assert handoff.PER_THREAD_DEFAULT_STREAM.__cuda_stream__() == (0, 2)
    assert "legacy default" in repr(handoff.LEGACY_DEFAULT_STREAM)
    assert "per-thread default" in repr(handoff.PER_THREAD_DEFAULT_STREAM)
    assert hex(HANDLE) in repr(StreamView(HANDLE))


def test_closed(raises: Any) -> None:
    v = StreamView(HANDLE)
    v.close()
    v.close()
    assert v.is_closed
    assert "closed" in repr(v)
    for use in (
        lambda: v.handle,
        lambda: v.__cuda_stream__(),
        lambda: v.sync(),
        lambda: v.is_done,
        lambda: v.wait(1),
        lambda: v.record(),
        lambda: StreamView(v),
    ):
        with raises(handoff.ClosedError):
            use()


def test_R278_per_thread_stream_stays_on_its_thread() -> None:
    v = StreamView(2)
    seen: list[Any] = []

    def use() -> None:
        for stream in (v, StreamView(2), handoff.PER_THREAD_DEFAULT_STREAM):
            try:
                seen.append(stream.__cuda_stream__())
            except handoff.StreamError as e:
                seen.append(e.rule)

    t = threading.Thread(target=use)
    t.start()
    t.join()
    assert seen == ["R278", (0, 2), (0, 2)]


def test_no_pickle() -> None:
    import pickle

    with pytest.raises(TypeError):
        pickle.dumps(StreamView(1))
