"""Makes the n-th driver call of an operation fail, for n = 1 and so on until nothing fails any more.

Used by test_faultwalk.py here and in python/ext/tests. It needs the software device.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence, Set
from typing import Any

import handoff
from handoff import Buffer, Stream, _core

# The code, and whether the context is lost with it.
CODES = ((2, False), (801, False), (201, False), (802, False), (700, True))
INVALID_CONTEXT = 201

# What gives something back: if it fails without having done it, one thing is left.
GIVERS = {
    "cuStreamDestroy": "streams",
    "cuEventDestroy": "events",
    "cuMemPoolDestroy": "pools",
    "cuMemFree": "allocations",
    "cuMemFreeAsync": "allocations",
    "cuMemFreeHost": "allocations",
    "cuLibraryUnload": "libraries",
}
# Failures that need not be an exception: the way back of a context switch, the longer way to order
# streams, questions that are asked again, and what is given back with nobody there to be told.
MADE_GOOD = {
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuCtxGetCurrent",
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuEventQuery",
    "cuDevicePrimaryCtxGetState",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuEventCreate",
    "cuMemAllocAsync",
    "cuThreadExchangeStreamCaptureMode",
    *GIVERS,
}
POOLED = 16  # events that are kept for later, at most


def _ordered_on(b: Buffer) -> int | None:
    s = b._handoff_view.stream
    return None if s is None else s.handle


class Walk:
    """A walk over operations; watch are objects whose reference counts have to be as before."""

    def __init__(self, watch: Sequence[Any] = ()) -> None:
        self.watch = list(watch)
        self.runs = self.failed = 0
        self.apis: set[str] = set()
        self.unraisable: list[Any] = []
        self.good: Set[str] = frozenset()
        self.base: tuple[int, int] | None = None  # exports alive and releases under way without an operation

    def settle(self) -> None:
        """Lets everything that is held back go."""
        gc.collect()
        _core._flush()

    def look(self) -> dict[str, Any]:
        """What must be as before. Deleters may still be on their way, on another thread."""
        for _ in range(1000):
            seen = self.glance()
            if self.base is None:
                self.base = seen["live_exports"], seen["pending"]
            if seen["live_exports"] <= self.base[0] and seen["pending"] <= self.base[1]:
                break
            time.sleep(0.002)
        return seen

    def glance(self) -> dict[str, Any]:
        """What is there now."""
        seen = json.loads(_core._inject(""))
        for key in ("calls", "hits", "first"):
            del seen[key]
        stats = _core._stats()
        seen["live_exports"], seen["pending"] = stats["live_exports"], stats["pending_releases"]
        seen["current"] = _core._device_current()
        # A buffer keeps the stream that it is ordered on, which is the last that was used on it.
        on = [_ordered_on(x) for x in self.watch if isinstance(x, Buffer)]
        seen["refs"] = [sys.getrefcount(x) - (on.count(x.handle) if isinstance(x, Stream) else 0) for x in self.watch]
        return seen

    def step(self, name: str, do: Callable[[], None], n: int, code: int, sticky: bool) -> bool:
        """One operation with one fault; whether a call failed."""
        before = self.look()
        _core._inject(f"*:{n}:{code}" + ":sticky" * sticky)
        error: BaseException | None = None
        try:
            do()
            self.settle()
        except handoff.DriverError as e:
            error = e.with_traceback(None)
        try:
            self.settle()
        except handoff.DriverError as e:
            error = error or e.with_traceback(None)
        did = json.loads(_core._inject(""))
        self.runs += 1
        api = did["first"]
        if not api:
            if error is not None:
                raise error
            return False
        self.failed += 1
        self.apis.add(api)
        where = f"{name}, call {n}, code {code} in {api}"
        if error is not None:
            assert isinstance(error, handoff.DriverError), where
            assert error.code == code, f"{where}: {error!r}"
            assert str(error.name).startswith("CUDA_ERROR_"), where
        else:
            assert api in MADE_GOOD | self.good or code == INVALID_CONTEXT, f"{where}: no exception"
        del error
        self.settle()
        self.compare(where, before, self.look(), GIVERS.get(api), sticky)
        do()  # and everything is usable again
        self.settle()
        return True

    def compare(
        self, where: str, before: dict[str, Any], after: dict[str, Any], kept: str | None, sticky: bool
    ) -> None:
        """Nothing may be left."""
        for key, was in before.items():
            now = after[key]
            if key == "events":
                assert now <= was + POOLED, f"{where}: {was} events, now {now}"
            elif key in ("contexts", "streams", "pools", "allocations", "libraries", "graphs") and (
                sticky or (key == kept and now == was + 1)
            ):
                continue  # lost with its context, or its destruction failed
            else:
                assert now == was, f"{where}: {key} was {was}, is {now}"

    def walk(self, name: str, do: Callable[[], None], good: Set[str] = frozenset(), limit: int = 400) -> None:
        """Walks one operation, with every code; good are further failures that need not be seen."""
        self.good = good
        hook, sys.unraisablehook = sys.unraisablehook, lambda u: self.unraisable.append((name, u.exc_value))
        gc.collect()
        gc.freeze()  # what is there already is not looked at again and again
        try:
            self.base = None
            self.look()
            for _ in range(2):
                do()
                self.settle()
            for code, sticky in CODES:
                n = 1
                while self.step(name, do, n, code, sticky):
                    n += 1
                    if n > limit:
                        break
        finally:
            _core._inject("")
            sys.unraisablehook = hook
            gc.unfreeze()
        for where, e in self.unraisable:
            assert isinstance(e, handoff.DriverError), f"{where}: {e!r} was not raised"

    def __str__(self) -> str:
        return f"fault walk: {self.runs} runs, {self.failed} calls failed, {len(self.apis)} entry points"
