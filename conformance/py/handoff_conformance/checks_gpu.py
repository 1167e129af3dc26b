"""Checks of the order of work on a GPU, which is held back and looked at through the driver (gpu.py)."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from typing import Any

from . import abi
from .abi import Managed
from .checks_consumer import Producer, need
from .checks_cuda import _CAI, _Stream, _take
from .checks_exchange import table_of
from .core import Skip, Verdict, attempt, brief, check, settle
from .targets import Target, Unsupported


class Held:
    """An array with a write that cannot happen before open(), and two streams without work."""

    def __init__(self, t: Target, needs: str = "__dlpack__") -> None:
        m = t.machine
        if m is None or t.writer is None:
            raise Skip("no stream to work on here: decided on a machine with a GPU")
        self.machine = m
        self.stream, self.other = m.new_stream(), m.new_stream()
        self.array, self._write, self.scope = t.writer(self.stream)
        if not hasattr(type(self.array), needs):
            raise Skip(f"its arrays have no {needs}")
        # What an export and the question whether work is done need is loaded now, not while work is held.
        with self.scope():
            attempt(lambda: _export(self.array, self.other))
        m.sync(self.other)
        m.sync(self.stream)
        m.done(1)

    @contextmanager
    def back(self) -> Iterator[Any]:
        """The write is queued and held back inside the block."""
        gate = self.machine.gate(self.stream)
        try:
            with self.scope():
                self._write()
                yield gate
        finally:
            gate.open()
            self.machine.sync(self.stream)
            self.machine.sync(self.other)


def _waits(machine: Any, stream: int) -> bool:
    """Whether work on a stream is held back, and not merely still on its way."""
    return not settle(lambda: machine.done(stream), 0.05)


def _export(x: Any, stream: Any) -> tuple[Any, Exception | None]:
    cap, err = attempt(x.__dlpack__, stream=stream, max_version=(1, 3))
    if isinstance(err, TypeError):
        cap, err = attempt(x.__dlpack__, stream=stream)
    return cap, err


@check("producer", "R137", "R138", "R127", "R126", "R129", "R130", "R131")
def order_of_export(t: Target, v: Verdict) -> None:
    """A write is held back: later work on the consumer's stream waits for it, the host and stream -1 do not."""
    h = Held(t)
    m = h.machine
    for text, stream, watched, rule in (
        ("stream=-1", -1, h.other, "R127"),
        ("a stream of its own", h.other, h.other, "R137"),
        ("stream=None", None, 1, "R126"),
        ("stream=1", 1, 1, "R129"),
        ("stream=2", 2, 2, "R130"),
    ):
        v.input(f"{text}, a write held back", rule)
        with h.back() as gate:
            cap, err = _export(h.array, stream)
            waits = err is None and _waits(m, watched)
            gate.open()
        del cap
        if err is not None:
            v.expect(rule == "R137", rule, f"raised {brief(err)}")
            if rule == "R137":
                v.expect(False, "R131", f"raised {brief(err)}")
                v.skip("R137", "refuses the stream")
                v.skip("R138", "refuses the stream")
            continue
        if gate.late:
            v.expect(rule != "R127", "R127", "the host waited for the write")
            v.expect(rule == "R127", "R138", "the host waited for the write")
            continue
        if rule == "R127":
            v.expect(not waits, rule, "the consumer's stream waits for the write")
        else:
            v.expect(waits, rule, "later work on the stream does not wait for the write")


@check("producer", "R153")
def order_of_copy(t: Target, v: Verdict) -> None:
    """copy=True while a write is held back: the copy is queued on the consumer's stream, after the write."""
    h = Held(t)
    cap, err = attempt(h.array.__dlpack__, stream=h.other, max_version=(1, 3), copy=True)  # loads the copy
    if err is not None:
        raise Skip(f"makes no copies: {brief(err)}")
    del cap
    v.input("copy=True on a stream, a write held back")
    with h.back() as gate:
        cap, err = attempt(h.array.__dlpack__, stream=h.other, max_version=(1, 3), copy=True)
        waits = err is None and _waits(h.machine, h.other)
        gate.open()
    if not v.expect(err is None, "R153", f"raised {err and brief(err)}"):
        return
    v.expect(waits or gate.late, "R153", "the copy is not queued on the consumer's stream")
    e = abi.Export(cap)
    got = abi.peek(e.data, 1)
    v.expect(got == abi.peek(abi.Export(_export(h.array, h.other)[0]).data, 1), "R153", "copied before the write")


@check("cai", "R190", "R191", "R192", "R193")
def order_of_description(t: Target, v: Verdict) -> None:
    """With a write held back the CUDA Array Interface names a live stream on which it is; without one, none."""
    h = Held(t, "__cuda_array_interface__")
    with h.scope():
        d, err = attempt(lambda: h.array.__cuda_array_interface__)
    if err is not None:
        raise Skip("its arrays have no __cuda_array_interface__")
    if d.get("version", 0) < 3:
        raise Skip("version below 3 has no stream")
    v.input("nothing pending")
    v.expect(d.get("stream") is None, "R192", f"stream {d.get('stream')}")
    v.input("a write held back")
    with h.back() as gate:
        d = h.array.__cuda_array_interface__
        named = d.get("stream")
        waits = named is not None and _waits(h.machine, named)
        alive = named is None or h.machine.alive(named)
        gate.open()
    if gate.late:
        v.note("the host waited for the write, so no stream has to be named")
        return
    v.expect(named is not None, "R190", "no stream is named while a write is pending")
    v.expect(named is None or waits, "R191", f"stream {named} does not have the write that is pending")
    v.expect(alive, "R193", f"stream {named} is none")


@check("exchange", "R102", "R108")
def order_of_table(t: Target, v: Verdict) -> None:
    """No function of the exchange table waits, or makes the current stream wait, for a write that is held back."""
    h = Held(t)
    table, _ = table_of(t)
    if not hasattr(type(h.array), "__dlpack_c_exchange_api__"):
        raise Skip("the array that is written has no exchange table")
    m = h.machine
    now = c_void_p()
    err = attempt(abi.STREAM(table.stream), 2, 0, ctypes.addressof(now))[1]
    if not v.expect(err is None, "R108", f"current_work_stream raised {err and brief(err)}"):
        return
    stream = now.value or 0
    v.expect(stream in (0, 1, 2) or m.alive(stream), "R108", f"current_work_stream wrote {stream:#x}")
    out, lent = c_void_p(), abi.DLTensor()
    calls = [("from_py", lambda: abi.FROM_PY(table.from_py)(h.array, ctypes.addressof(out)))]
    if table.lend:
        calls.append(("dltensor_from_py", lambda: abi.FROM_PY(table.lend)(h.array, ctypes.addressof(lent))))
    calls.append(("current_work_stream", lambda: abi.STREAM(table.stream)(2, 0, ctypes.addressof(now))))
    for name, call in calls:
        v.input(f"{name}, a write held back")
        gate = m.gate(h.stream)
        try:
            with h.scope():
                h._write()
            _, err = attempt(call)  # outside the scope: the current stream is another one
            waits = stream != h.stream and _waits(m, stream)
        finally:
            gate.open()
            m.sync(h.stream)
        v.expect(not gate.late, "R102", f"{name} waited for the write")
        v.expect(not waits, "R102", f"{name} made the current stream wait")
        if name == "from_py" and err is None and out.value:
            deleter = abi.DLManagedTensorVersioned.from_address(out.value).deleter
            if deleter:
                abi.DELETER(deleter)(out.value)


class _Asks(Producer):
    """Looks at the stream that it is asked with, while it is asked."""

    def __init__(self, machine: Any) -> None:
        super().__init__(Managed() if abi.on_device() else Managed(device=(2, 0), data=machine.allocate(8192)))
        self.machine = machine
        self.seen: list[tuple[Any, bool, int]] = []

    def __dlpack__(self, **kwargs: Any) -> Any:
        s = kwargs.get("stream")
        plain = s is None or not isinstance(s, int) or s in (-1, 0, 1, 2)
        alive = plain or self.machine.alive(s)
        self.seen.append((s, alive, 0 if plain or not alive else self.machine.device_of(s)))
        return super().__dlpack__(**kwargs)


@check("consumer", "R140", "R148")
def stream_of_request(t: Target, v: Verdict) -> None:
    """The stream that a consumer passes lives during the call and after it, and is one of the device asked for."""
    need(t)
    m = t.machine
    if m is None:
        raise Skip("passes no stream here: decided on a machine with a GPU")
    kept: list[Any] = []
    handle = m.new_stream()
    for text, scope in (("the stream it has", None), ("a stream it is told to work on", handle)):
        v.input(text)
        p = _Asks(m)
        if scope is None:
            r, err = attempt(t.from_dlpack, p)
        else:
            if not hasattr(t, "scope"):
                continue
            with t.scope(scope):
                r, err = attempt(t.from_dlpack, p)
        for s, alive, _ in p.seen:
            v.expect(alive, "R140", f"stream {s} is none")
            after = s is None or s in (-1, 0, 1, 2) or m.alive(s)
            v.expect(after, "R140", f"stream {s} ended with the call")
        if not p.seen:
            v.note(f"did not call __dlpack__: {err and brief(err)}")
        kept.append(r)
    if t.own_device is None:
        v.skip("R148", "from_dlpack takes no device")
        return
    v.input("device= names a device")
    p = _Asks(m)
    r, err = attempt(t.from_dlpack, p, device=t.own_device)
    asked = [(s, c["dl_device"]) for (s, _, _), c in zip(p.seen, p.calls, strict=True) if c.get("dl_device")]
    if not asked:
        v.skip("R148", "does not pass dl_device")
    for (s, alive, device), c in zip(p.seen, p.calls, strict=True):
        if c.get("dl_device"):
            ok = alive and (s is None or device == int(c["dl_device"][1]))
            v.expect(ok, "R148", f"dl_device {c['dl_device']} with stream {s} of device {device}")
    del r, kept


@check("stream", "R270")
def stream_not_destroyed(t: Target, v: Verdict) -> None:
    """A stream that was taken from another library is still there when the consumer is through with it."""
    take, m = t.take_stream, t.machine
    if take is None or m is None:
        raise Skip("takes no streams here")
    handle = m.new_stream()
    owner = _Stream((0, handle))
    v.input("a stream, taken, used and dropped")
    r, err = attempt(take, owner)
    if isinstance(err, Unsupported):
        raise err
    if err is not None:
        raise Skip(f"refuses it: {brief(err)}")
    close = getattr(r, "close", None)
    if callable(close):
        attempt(close)
    del r, close
    gc.collect()
    v.expect(m.alive(handle), "R270", "the stream was destroyed")


@check("cai", "R188", "R189")
def order_of_described_work(t: Target, v: Verdict) -> None:
    """Memory described with a stream: work elsewhere waits for that stream, and later work on it for the first."""
    take = _take(t)
    m = t.machine
    if m is None or t.work_on is None:
        raise Skip("no stream to work on here: decided on a machine with a GPU")
    named, mine = m.new_stream(), m.new_stream()
    x = _CAI(data=(m.allocate(24), False), stream=named)
    attempt(t.work_on, x, mine)  # loads what the work needs
    m.sync(mine)
    m.sync(named)
    del take
    v.input("the named stream is held back")
    gate = m.gate(named)
    _, err = attempt(t.work_on, x, mine)
    waits = _waits(m, mine)
    gate.open()
    m.sync(mine)
    if err is not None:
        raise Skip(f"refuses it: {brief(err)}")
    v.expect(waits or gate.late, "R188", "worked without waiting for the named stream")
    v.input("the consumer's own stream is held back")
    gate = m.gate(mine)
    attempt(t.work_on, x, mine)
    gc.collect()
    waits = _waits(m, named)
    gate.open()
    m.sync(mine)
    v.expect(waits or gate.late, "R189", "the named stream does not wait for the work")
