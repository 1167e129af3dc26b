"""Exchanges in which all edges are made by the C code of the Python module, or for it.

Run by python_test.go with the software device and a build of the module that has debug information. For
every scenario it prints a line of JSON: the edges that are made, and what is seen with all and without each.
"""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import testmod  # with it comes handoff._core, so that there is one runtime

# isort: split
import handoff
from handoff import Device, StridedMemoryView, _core

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python" / "tests" / "gpu"))
import standin_cupy as cupy

cupy.install()

N = 4096


class Interface:
    """Memory by its address, and the stream that it is pending on, if any."""

    def __init__(self, ptr: int, stream: Any = None, version: int = 3) -> None:
        self.__cuda_array_interface__ = {
            "shape": (N,),
            "typestr": "|u1",
            "data": (ptr, False),
            "version": version,
            "stream": None if stream is None else stream.handle,
        }


class Producer:
    """What somebody else's array is: a capsule for whoever asks, and what he said."""

    def __init__(self, view: StridedMemoryView, **forced: Any) -> None:
        self.view, self.forced = view, forced

    def __dlpack__(self, **kw: Any) -> Any:
        return self.view.__dlpack__(**kw | self.forced)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.view.__dlpack_device__()


class Foreign:
    """Another library's stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, int(self.stream.handle))


class Freed:
    """An exporter that does something when it goes."""

    def __init__(self, ptr: int, then: Callable[[], None]) -> None:
        self.__cuda_array_interface__ = Interface(ptr).__cuda_array_interface__
        self.then = then

    def __del__(self) -> None:
        self.then()


class World:
    """A producer's and a consumer's stream, and memory of the producer's."""

    def __init__(self) -> None:
        self.device = Device(0)
        self.p, self.c, self.q = (self.device.create_stream() for _ in range(3))
        self.buffers = [self.device.allocate(N, stream=self.p) for _ in range(4)]
        self.mem, self.out, self.ones, self.more = (int(b.handle) for b in self.buffers)
        self.pinned = self.device.allocate(N, stream=self.p, kind="pinned")
        self.far = Device(1).create_stream()
        self.there = Device(1).allocate(N, stream=self.far)
        # A stream that was busy is seldom asked until it was idle again, and the default stream is the same.
        legacy = self.device.default_stream
        legacy.sync()
        for _ in range(17):
            StridedMemoryView.from_cuda_array_interface(Interface(self.mem, legacy), self.c)
        self.stack = ExitStack()
        self.kept: list[StridedMemoryView] = []
        self.settle()

    def settle(self) -> None:
        for s in (self.p, self.c, self.q, self.far):
            s.sync()

    def raw(self, ptr: int) -> StridedMemoryView:
        """A view that no work is known of."""
        return StridedMemoryView.from_cuda_array_interface(Interface(ptr), -1)

    def write(self, ptr: int, stream: Any) -> None:
        """Use memory in the order of a stream, by plain copies: no edge of the library."""
        self.raw(ptr).copy_from(self.raw(self.ones), stream)

    def read(self, ptr: int, stream: Any) -> None:
        self.raw(self.out).copy_from(self.raw(ptr), stream)

    def busy(self, stream: Any) -> Callable[[], None]:
        """Work on a stream that lasts until it is let go, or the scenario's end."""
        key, done = _core._gate(stream), False

        def release() -> None:
            nonlocal done
            if not done:
                done = True
                _core._gate_open(key)

        self.stack.callback(release)
        return release

    def later(self, release: Callable[[], None]) -> None:
        """Let work go when somebody is about to wait for it, or when the scenario is over."""
        over = threading.Event()
        before = told("waits")

        def wait() -> None:
            while told("waits") == before and not over.wait(0.005):
                pass
            release()

        t = threading.Thread(target=wait)
        t.start()
        self.stack.callback(t.join)
        self.stack.callback(over.set)

    @staticmethod
    def done() -> None:
        """Let all work end. Nobody is told that it has."""
        while not told("idle"):
            time.sleep(0.001)

    def taken(self, stream: Any = None) -> StridedMemoryView:
        """A view of the memory that is pending on the producer's stream."""
        s = stream or self.p
        return StridedMemoryView.from_cuda_array_interface(Interface(self.mem, s), s)

    def keep(self, view: StridedMemoryView) -> None:
        """Keep memory that a copy may still write to, where the wait for it is left out."""
        self.kept.append(view)

    def end(self) -> None:
        self.stack.close()
        gc.collect()
        _core._flush()
        self.settle()
        self.kept.clear()
        # Nothing is left that a later trial could learn from.
        for b in (*self.buffers, self.pinned, self.there):
            b.close()
        _core._flush()
        for s in (self.p, self.c, self.q, self.far):
            s.close()


SCENARIOS: dict[str, Callable[[World], Any]] = {}


def scenario(name: str) -> Callable[[Callable[[World], Any]], Callable[[World], Any]]:
    def add(f: Callable[[World], Any]) -> Callable[[World], Any]:
        SCENARIOS[name] = f
        return f

    return add


@scenario("from_dlpack, an exporter's duty, and back R137 R138 B225")
def _(w: World) -> None:
    v = w.taken()
    w.busy(w.p)
    w.write(w.mem, w.p)
    got = StridedMemoryView.from_dlpack(v, w.c)
    w.read(w.mem, w.c)
    w.busy(w.c)
    got.release_on(w.c)
    w.write(w.mem, w.p)


@scenario("from_dlpack, nothing pending any more")
def _(w: World) -> None:
    v = w.taken()
    w.write(w.mem, w.p)
    w.done()
    StridedMemoryView.from_dlpack(v, w.c)
    w.read(w.mem, w.c)


@scenario("from_dlpack of a foreign producer R137")
def _(w: World) -> None:
    v = w.taken()
    w.busy(w.p)
    w.write(w.mem, w.p)
    StridedMemoryView.from_dlpack(Producer(v), w.c)
    w.read(w.mem, w.c)


@scenario("__dlpack__ for the legacy default stream R126")
def _(w: World) -> None:
    v = w.taken()
    w.busy(w.p)
    w.write(w.mem, w.p)
    legacy = w.device.default_stream
    StridedMemoryView.from_dlpack(Producer(v, stream=None), -1)
    w.read(w.mem, legacy)


@scenario("from_cuda_array_interface B214")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    v = StridedMemoryView.from_cuda_array_interface(Interface(w.mem, w.p), w.c)
    w.read(w.mem, w.c)
    w.busy(w.c)
    v.release_on(w.c)
    w.write(w.mem, w.p)


@scenario("from_any_interface of an array of CuPy, read the short way")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    cupy.current = w.p.handle
    try:
        v = StridedMemoryView.from_any_interface(cupy.ndarray(w.raw(w.mem)), w.c)
    finally:
        cupy.current = 0
    w.read(w.mem, w.c)
    w.busy(w.c)
    v.release_on(w.c)
    w.write(w.mem, w.p)


@scenario("__cuda_array_interface__ of a view whose work is done R192")
def _(w: World) -> None:
    v = w.taken()
    w.write(w.mem, w.p)
    w.done()
    told = Interface(w.mem)
    told.__cuda_array_interface__ = v.__cuda_array_interface__
    assert told.__cuda_array_interface__["stream"] is None
    StridedMemoryView.from_cuda_array_interface(told, w.c)
    w.read(w.mem, w.c)


@scenario("release_on, deferred R189")
def _(w: World) -> None:
    freed: list[bool] = []

    def free() -> None:
        w.write(w.mem, w.p)
        freed.append(True)

    v = StridedMemoryView.from_cuda_array_interface(Freed(w.mem, free), w.c)
    release = w.busy(w.c)
    w.read(w.mem, w.c)
    v.release_on(w.c)
    del v
    release()
    while not freed:
        time.sleep(0.001)


@scenario("copy_to, both views pending elsewhere")
def _(w: World) -> None:
    src = w.taken()
    dst = StridedMemoryView.from_cuda_array_interface(Interface(w.more, w.q), w.q)
    w.busy(w.p)
    w.busy(w.q)
    w.write(w.mem, w.p)
    w.write(w.more, w.q)
    src.copy_to(dst, w.c)


@scenario("copy_from between devices")
def _(w: World) -> None:
    src = w.taken()
    w.busy(w.p)
    w.write(w.mem, w.p)
    dst = StridedMemoryView.from_cuda_array_interface(Interface(int(w.there.handle), w.far), w.far)
    dst.copy_from(src, w.far)


@scenario("__dlpack__ with copy=True R137")
def _(w: World) -> None:
    v = w.taken()
    w.busy(w.p)
    w.write(w.mem, w.p)
    got = StridedMemoryView.from_dlpack(Producer(v, copy=True, stream=w.c.handle), -1)
    w.busy(w.device.default_stream)
    w.read(got.ptr, w.c)
    w.write(w.mem, w.p)
    got.release_on(w.c)


@scenario("__dlpack__ for the host R146")
def _(w: World) -> None:
    v = w.taken()
    release = w.busy(w.p)
    w.write(w.mem, w.p)
    w.later(release)
    w.keep(StridedMemoryView.from_dlpack(Producer(v, dl_device=(1, 0), stream=None), -1))
    w.write(w.mem, w.c)


@scenario("__dlpack__ for the host, stream unknown R146")
def _(w: World) -> None:
    v = w.raw(w.mem)
    release = w.busy(w.p)
    w.write(w.mem, w.p)
    w.later(release)
    told("slow:100ms")  # the copy is not done before somebody waits for it
    w.keep(StridedMemoryView.from_dlpack(Producer(v, dl_device=(1, 0)), -1))
    w.write(w.mem, w.c)


@scenario("__dlpack__ of pinned memory for the host R146 R149")
def _(w: World) -> None:
    v = StridedMemoryView.from_cuda_array_interface(Interface(int(w.pinned.handle), w.p), w.p)
    release = w.busy(w.p)
    w.raw(int(w.pinned.handle)).copy_from(w.raw(w.mem), w.p)
    w.later(release)
    StridedMemoryView.from_dlpack(Producer(v, dl_device=(1, 0), stream=None), -1)
    w.raw(int(w.pinned.handle)).copy_from(w.raw(w.mem), w.c)


@scenario("__array_interface__ of pinned memory R146")
def _(w: World) -> None:
    w.raw(int(w.pinned.handle)).copy_from(w.raw(w.mem), w.p)
    v = StridedMemoryView.from_cuda_array_interface(Interface(int(w.pinned.handle), w.p), w.p)
    release = w.busy(w.p)
    w.raw(int(w.pinned.handle)).copy_from(w.raw(w.mem), w.p)
    w.later(release)
    _ = v.__array_interface__
    w.raw(int(w.pinned.handle)).copy_from(w.raw(w.mem), w.c)


@scenario("Stream.wait, first and again")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    w.c.wait(w.p)
    w.read(w.mem, w.c)
    w.write(w.more, w.p)
    w.c.wait(w.p)
    w.read(w.more, w.c)


@scenario("Stream.wait, nothing pending")
def _(w: World) -> None:
    w.c.wait(w.p)
    w.write(w.mem, w.p)
    w.done()
    w.c.wait(w.p)
    w.read(w.mem, w.c)


@scenario("Stream.wait for another library's stream")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    w.c.wait(Foreign(w.p))
    w.read(w.mem, w.c)


@scenario("Stream.wait for the legacy default stream B216")
def _(w: World) -> None:
    legacy = w.device.default_stream
    w.busy(legacy)
    w.write(w.mem, legacy)
    w.c.wait(legacy)
    w.read(w.mem, w.c)


@scenario("Stream.wait for a stream of another device")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    w.far.wait(w.p)
    StridedMemoryView.from_cuda_array_interface(Interface(int(w.there.handle)), -1).copy_from(
        w.raw(w.mem), w.far
    )


@scenario("Stream.wait for an event")
def _(w: World) -> None:
    w.busy(w.p)
    w.write(w.mem, w.p)
    w.c.wait(w.p.record())
    w.read(w.mem, w.c)


@scenario("Stream.sync")
def _(w: World) -> None:
    release = w.busy(w.p)
    w.write(w.mem, w.p)
    w.later(release)
    w.p.sync()
    w.read(w.mem, w.c)


@scenario("Stream.is_done")
def _(w: World) -> None:
    w.write(w.mem, w.p)
    while not w.p.is_done:
        time.sleep(0.001)
    w.read(w.mem, w.c)


@scenario("Event.sync")
def _(w: World) -> None:
    release = w.busy(w.p)
    w.write(w.mem, w.p)
    e = w.p.record()
    w.later(release)
    e.sync()
    w.read(w.mem, w.c)


@scenario("Event.is_done")
def _(w: World) -> None:
    w.write(w.mem, w.p)
    e = w.p.record()
    while not e.is_done:
        time.sleep(0.001)
    w.read(w.mem, w.c)


@scenario("Device.sync")
def _(w: World) -> None:
    release = w.busy(w.p)
    w.write(w.mem, w.p)
    w.later(release)
    w.device.sync()
    w.read(w.mem, w.c)


@scenario("Buffer.close on another stream")
def _(w: World) -> None:
    b = w.device.allocate(N, stream=w.p)
    w.busy(w.p)
    w.write(int(b.handle), w.p)
    b.close(w.c)


@scenario("Buffer.used_on another stream, closed")
def _(w: World) -> None:
    b = w.device.allocate(N, stream=w.p)
    w.c.wait(w.p)
    b.used_on(w.c)
    w.busy(w.c)
    w.write(int(b.handle), w.c)
    b.close()


@scenario("arguments of a Go function, and back")
def _(w: World) -> None:
    v = w.taken()
    w.busy(w.p)
    w.busy(w.c)
    w.write(w.mem, w.p)
    w.c.wait(w.p)
    w.read(w.mem, w.c)
    w.write(w.more, w.p)
    testmod.there_and_back(v, stream=w.c)
    w.read(w.more, w.c)
    w.write(w.mem, w.p)


def told(what: str) -> Any:
    return json.loads(_core._inject("edges:" + what))


# Where the library asks by itself whether work is done, and where nobody may hear of that but by the question
# that the scenario is about.
POLLS = {
    "release_on, deferred R189": ":polled",
    "from_dlpack, nothing pending any more": ":deaf",
    "__cuda_array_interface__ of a view whose work is done R192": ":deaf",
    "Stream.wait, nothing pending": ":deaf",
    "Stream.is_done": ":deaf",
    "Event.is_done": ":deaf",
}


def trial(name: str, without: int) -> tuple[list[dict[str, Any]], list[str]]:
    """One run of a scenario without one edge, or with all of them for 0: its edges, and the races."""
    w = World()
    told("races")
    told(str(without) + POLLS.get(name, ""))
    try:
        SCENARIOS[name](w)
    finally:
        edges = told("end")
    w.end()
    return edges, told("races")


def main() -> None:
    only = sys.argv[1:]
    for name in SCENARIOS:
        if only and name not in only:
            continue
        edges, races = trial(name, 0)
        for i, e in enumerate(edges):
            for _ in range(6):  # whether an edge is asked for while it is needed can depend on time
                made, e["caught"] = trial(name, i + 1)
                same = len(made) > i and all(made[i][k] == e[k] for k in ("api", "c", "go"))
                if same and e["caught"]:
                    break
        print(json.dumps({"name": name, "edges": edges, "races": races}), flush=True)


if __name__ == "__main__":
    handoff.Device(0)
    main()
