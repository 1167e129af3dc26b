"""NumPy's own tests of DLPack, run with our types in the consumer's and in the producer's role.

The module ships in the numpy wheel. Its tests reach NumPy through the global `np`, which is replaced here.
Each test whose outcome differs is overridden below, and says which rule explains it.
"""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest

import handoff

np = pytest.importorskip("numpy")
_spec = importlib.util.find_spec("numpy._core.tests.test_dlpack")
if _spec is None or _spec.loader is None:
    pytest.skip("this numpy does not ship its tests", allow_module_level=True)


class Proxy:
    """numpy with a few functions replaced."""

    def __init__(self, **replaced: Any) -> None:
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def load(role: str, **replaced: Any) -> ModuleType:
    spec = importlib.util.find_spec("numpy._core.tests.test_dlpack")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__name__ = f"numpy_test_dlpack_{role}"
    spec.loader.exec_module(module)
    for test in vars(module.TestDLPack).values():
        marks = getattr(test, "pytestmark", None)
        if marks is not None:
            # Generators are run now, with NumPy itself.
            test.pytestmark = [
                pytest.mark.parametrize(m.args[0], list(m.args[1])).mark if m.name == "parametrize" else m
                for m in marks
            ]
    module.np = Proxy(**replaced)  # type: ignore[attr-defined]
    return module


def consume(x: Any, /, **kwargs: Any) -> Any:
    """handoff takes the array; NumPy shows what it got."""
    return np.asarray(memoryview(handoff.from_dlpack(x, **kwargs)))


def produce(x: Any, /, **kwargs: Any) -> Any:
    """handoff gives the array to NumPy."""
    return np.from_dlpack(handoff.StridedMemoryView.from_dlpack(x), **kwargs)


def our_arange(n: int, dtype: Any = np.int64) -> handoff.Array:
    return handoff.Array.copy_of(np.arange(n, dtype=dtype))


_consumer = load("consumer", from_dlpack=consume)
_producer = load("producer", from_dlpack=produce)
_objects = load("objects", arange=our_arange)


class TestConsumer(_consumer.TestDLPack):  # type: ignore[misc, name-defined]
    """`np.from_dlpack` is replaced by ours."""

    @pytest.mark.xfail(
        strict=True,
        reason="a legacy capsule cannot say read-only; R057 makes producers refuse read-only data there, so ours takes "
        "it as writable. NumPy is more careful than R015 asks.",
    )
    def test_writeable(self) -> None:
        super().test_writeable()

    @pytest.mark.parametrize("arr", [np.arange(5)])
    def test_from_dlpack_refcount(self, arr: Any) -> None:
        super().test_from_dlpack_refcount(arr)

    def test_from_dlpack_refcount_old(self) -> None:
        # An old producer is held twice, by its tensor and by exporting_obj (R290): both go.
        import sys

        arr = list(_consumer.new_and_old_dlpack())[1].copy()
        before = sys.getrefcount(arr)
        y = consume(arr)
        assert sys.getrefcount(arr) == before + 2
        del y
        assert sys.getrefcount(arr) == before


class TestProducer(_producer.TestDLPack):  # type: ignore[misc, name-defined]
    """What `np.from_dlpack` gets is a StridedMemoryView of the array."""

    @pytest.mark.xfail(strict=True, reason="the view of a legacy capsule is writable, see TestConsumer")
    def test_writeable(self) -> None:
        super().test_writeable()

    @pytest.mark.parametrize("arr", [np.arange(5)])
    def test_from_dlpack_refcount(self, arr: Any) -> None:
        super().test_from_dlpack_refcount(arr)


class TestObjects(_objects.TestDLPack):  # type: ignore[misc, name-defined]
    """`np.arange` makes an Array: its own `__dlpack__` is under test."""

    @pytest.mark.xfail(
        strict=True,
        reason="the capsule holds the memory's owner, which C counts, and not the Python object: R069 asks for the "
        "memory only",
    )
    @pytest.mark.parametrize("max_version", [(0, 0), None, (1, 0), (100, 3)])
    def test_dunder_dlpack_refcount(self, max_version: Any) -> None:
        super().test_dunder_dlpack_refcount(max_version)

    @pytest.mark.xfail(
        strict=True, reason="R135: ValueError is the practice; NumPy wants its RuntimeError, or its own words"
    )
    def test_dunder_dlpack_stream(self) -> None:
        super().test_dunder_dlpack_stream()

    @pytest.mark.skip(reason="an Array is always in native byte order (R030)")
    def test_invalid_byte_swapping(self) -> None: ...

    @pytest.mark.skip(reason="sets ndarray.flags, which an Array does not have")
    def test_readonly(self) -> None: ...

    @pytest.mark.skip(reason="reshapes with ndarray methods")
    def test_non_contiguous(self) -> None: ...

    @pytest.mark.skip(reason="asks ndarray methods of its own old-style subclass")
    def test_writeable(self) -> None: ...

    def test_copy(self) -> None:
        # may_share_memory takes arrays only.
        x = our_arange(5)
        assert np.from_dlpack(x).ctypes.data == x.ptr
        assert np.from_dlpack(x, copy=False).ctypes.data == x.ptr
        assert np.from_dlpack(x, copy=True).ctypes.data != x.ptr
