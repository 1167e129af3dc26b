"""A consumer or an owner that drops in the middle, callbacks that raise at each point, slow deleters."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

h: Any = SimpleNamespace()


@pytest.fixture(scope="module", autouse=True)
def helpers(m: ModuleType) -> None:
    """What python/tests has: it imports handoff, which testmod has to serve."""
    import callbacks
    import capsules

    h.__dict__.update(vars(capsules))
    h.__dict__.update(vars(callbacks))


class Mine(np.ndarray):
    """An array that can be watched."""


def mine() -> Any:
    return np.arange(100.0).view(Mine)


def test_B151_the_owner_is_dropped_while_the_call_is_in_flight(m: ModuleType) -> None:
    held = [mine()]
    gone = weakref.ref(held[0], lambda r: order.append("gone"))
    order: list[str] = []

    def drop() -> None:
        held.clear()
        gc.collect()
        junk = [np.full(100, -1.0) for _ in range(50)]  # takes the memory if it is free
        order.append("called")
        del junk

    assert m.around(held.pop(), drop) == (4950.0, 4950.0)
    gc.collect()
    assert order == ["called", "gone"]
    assert gone() is None


@pytest.mark.parametrize("versioned", [True, False])
def test_the_capsule_is_deleted_between(m: ModuleType, versioned: bool) -> None:
    """The tensor lives until the call has ended, and no longer."""
    managed = h.Managed(shape=(4,), strides=(1,), dtype=(2, 64, 1), versioned=versioned)
    capsules = [managed.capsule()]
    seen: list[int] = []

    def drop() -> None:
        capsules.clear()
        gc.collect()
        seen.append(managed.deleted)

    m.around(capsules[0], drop)
    gc.collect()
    assert seen == [0]
    assert (managed.deleted, managed.wrong) == (1, 0)


def test_the_callback_raises_in_the_middle(m: ModuleType) -> None:
    managed = h.Managed(shape=(4,), strides=(1,), dtype=(2, 64, 1))

    def boom() -> None:
        raise KeyError("in the middle")

    with pytest.raises(KeyError, match="in the middle"):
        m.around(h.Producer(managed), boom)
    gc.collect()
    assert (managed.deleted, managed.wrong) == (1, 0)


def test_a_buffer_cannot_shrink_while_it_is_lent(m: ModuleType) -> None:
    data = bytearray(np.arange(8.0).tobytes())
    view = memoryview(data).cast("d")
    del view

    def shrink() -> None:
        data.clear()

    with pytest.raises(BufferError):
        m.around(np.frombuffer(data), shrink)
    with pytest.raises(BufferError):
        m.around(data, shrink)
    data.clear()


def test_another_thread_drops_the_owner(m: ModuleType) -> None:
    """While one thread is inside of Go, another one drops what it works on."""
    inside, go_on = threading.Event(), threading.Event()
    held = {"x": mine()}
    results: list[Any] = []

    def wait() -> None:
        inside.set()
        assert go_on.wait(20)

    t = threading.Thread(target=lambda: results.append(m.around(held["x"], wait)))
    t.start()
    assert inside.wait(20)
    held.clear()
    gc.collect()
    go_on.set()
    t.join(20)
    assert results == [(4950.0, 4950.0)]


def test_a_slow_deleter_holds_nobody_up(m: ModuleType) -> None:
    """A deleter that takes its time runs once, while others go on; on a thread of Go too."""
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    in_time: list[bool] = []

    class Slow(h.Managed):
        def _delete(self, address: int) -> None:
            started.set()
            in_time.append(go_on.wait(60))
            super()._delete(address)
            ended.set()

    slow = Slow(shape=(4,), strides=(1,), dtype=(2, 64, 1))
    m.retain(h.Producer(slow))
    assert slow.deleted == 0
    t = threading.Thread(target=m.release)
    t.start()
    assert started.wait(20)
    turns = 0
    while not ended.is_set():
        assert m.i64(turns) == turns
        turns += 1
        if turns > 10:
            go_on.set()
    t.join(60)
    assert (slow.deleted, slow.wrong) == (1, 0)
    assert in_time == [True], "calls stood still while the deleter ran"


def test_deleters_on_other_threads(m: ModuleType) -> None:
    """What one thread imported is given up by others, in any order, once each (B121)."""
    tensors = [h.Managed(shape=(4,), strides=(1,), dtype=(2, 64, 1), versioned=i % 2 == 0) for i in range(40)]
    for t in tensors:
        m.retain(h.Producer(t))
    m.release()  # each on a goroutine of its own
    gc.collect()
    assert [(t.deleted, t.wrong) for t in tensors] == [(1, 0)] * 40


OPERATIONS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "i64": lambda m, t: m.i64(h.Index(t, 3)),
    "u8": lambda m, t: m.u8(h.Index(t, 3)),
    "f64": lambda m, t: m.f64(h.Number(t, 3.0)),
    "flags of numbers": lambda m, t: m.shape([h.Index(t, 1), h.Index(t, 2)], ["a"]),
    "variadic": lambda m, t: m.variadic(h.Number(t, 1.0), h.Number(t, 2.0), scale=h.Number(t, 2.0)),
    "a producer": lambda m, t: m.describe(h.Dlpack(t)),
    "an old producer": lambda m, t: m.describe(h.OldDlpack(t)),
    "an array interface": lambda m, t: m.describe(h.Interface(t)),
    "a quick function": lambda m, t: m.ndim(h.Dlpack(t)),
    "several": lambda m, t: m.sizes(h.Dlpack(t), h.Interface(t), h.OldDlpack(t)),
    "many": lambda m, t: m.lengths(h.Dlpack(t), h.Dlpack(t), h.Interface(t)),
    "numbers and arrays": lambda m, t: m.fill(np.zeros(3), h.Number(t, 1.0)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_callback_raises(m: ModuleType, name: str) -> None:
    for kind in h.ERRORS:
        n = 1
        while h.once(name, lambda t: (OPERATIONS[name](m, t),), n, kind):
            n += 1
            assert n < 100, "it never ends"


def test_the_walk_was_one() -> None:
    """After the others."""
    if not h.walked["raised"]:
        pytest.skip("the walk was not selected")
    print(f"callback walk: {len(OPERATIONS)} operations, {h.walked['raised']} callbacks raised")
    assert h.walked["raised"] > 200
