"""Memory and streams of a GPU, through the CUDA driver itself, for what a check must see for itself.

A check that hands device memory to a library, or asks whether a stream is still there, must not ask
the library. `Driver` calls libcuda.so.1 by ctypes; it works with a GPU and with the software device
built as libcuda.so.1. `Through` does the same through the package handoff, whose software device
exports no driver. `Pretended` is for the references: host memory, and streams that are a list.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

from . import native

PATIENCE = 2.0  # seconds after which a gate opens by itself, so that a library that waits comes back


class NoDriver(Exception):  # noqa: N818
    """There is no driver, or no device."""


class Gate:
    """Holds a stream back until open(). It opens by itself after PATIENCE seconds; `late` says that it did."""

    def __init__(self) -> None:
        self.late = False
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()


class _FlagGate(Gate):
    """A gate that is a word in pinned memory, opened late by a thread of C: Python may be held up."""

    def __init__(self, flag: int, close: Any) -> None:
        super().__init__()
        self.flag, self._close = flag, close
        self._late = c_uint32.from_address(flag + 4)
        native.lib.hc_open_later.argtypes = [c_void_p, c_uint]
        native.lib.hc_open_later(flag, int(PATIENCE * 1000))

    def open(self) -> None:
        word = c_uint32.from_address(self.flag)
        if not word.value:
            word.value = 1
        self.late = bool(self._late.value)


class Driver:
    """The CUDA driver, on device 0."""

    device = (2, 0)

    def __init__(self) -> None:
        try:
            self.lib = ctypes.CDLL("libcuda.so.1")
        except OSError as e:
            raise NoDriver(str(e)) from None
        self._check("cuInit", c_uint(0))
        dev, ctx = c_int(), c_void_p()
        self._check("cuDeviceGet", byref(dev), c_int(0))
        self._check("cuDevicePrimaryCtxRetain", byref(ctx), dev)
        self.context = ctx
        self.gates: list[Gate] = []
        self._stream = c_void_p()
        self._enter()
        self._check("cuStreamCreate", byref(self._stream), c_uint(1))
        self._flags = c_void_p()
        self._check("cuMemHostAlloc", byref(self._flags), c_size_t(1 << 16), c_uint(3))
        ctypes.memset(self._flags.value or 0, 0, 1 << 16)
        self._used = 0
        # Copies need code and pinned memory of the driver, whose loading waits for the device.
        self.write(self.allocate(64), bytes(64))

    def _check(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        if code:
            raise NoDriver(f"{name} gave {code}")

    def _enter(self) -> None:
        current = c_void_p()
        self.lib.cuCtxGetCurrent(byref(current))
        if current.value is None:
            self._check("cuCtxSetCurrent", self.context)

    def lost(self) -> str:
        """Why nothing on the device works any more, or nothing."""
        self._enter()
        code = self.lib.cuCtxSynchronize()
        return f"the context of the GPU is lost, CUDA error {code}" if code else ""

    def allocate(self, size: int) -> int:
        """Zeroed memory that is never given back."""
        self._enter()
        p = c_uint64()
        self._check("cuMemAlloc_v2", byref(p), c_size_t(max(size, 1)))
        self.write(p.value, bytes(size))
        return p.value

    def owns(self, address: int) -> bool:
        """Whether the address is in device memory."""
        kind = c_uint()
        self._enter()
        if self.lib.cuPointerGetAttribute(byref(kind), c_int(2), c_uint64(address)):
            return False
        return kind.value == 2

    def _settle(self) -> None:
        if not any(isinstance(g, _FlagGate) and not c_uint32.from_address(g.flag).value for g in self.gates):
            self._check("cuCtxSynchronize")

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, after all work that is queued, unless a gate is closed."""
        self._enter()
        self._settle()
        out = ctypes.create_string_buffer(max(size, 1))
        self._check("cuMemcpyDtoHAsync_v2", out, c_uint64(address), c_size_t(size), self._stream)
        self._check("cuStreamSynchronize", self._stream)
        return out.raw[:size]

    def write(self, address: int, data: bytes) -> None:
        if not data:
            return
        self._enter()
        keep = ctypes.create_string_buffer(data, len(data))
        self._check("cuMemcpyHtoDAsync_v2", c_uint64(address), keep, c_size_t(len(data)), self._stream)
        self._check("cuStreamSynchronize", self._stream)

    def new_stream(self) -> int:
        """The handle of a new stream that does not wait for the default stream. It is never destroyed."""
        self._enter()
        s = c_void_p()
        self._check("cuStreamCreate", byref(s), c_uint(1))
        return s.value or 0

    def alive(self, stream: int) -> bool:
        """Whether the handle is that of a stream."""
        self._enter()
        flags = c_uint()
        return self.lib.cuStreamGetFlags(c_void_p(stream), byref(flags)) == 0

    def done(self, stream: int) -> bool:
        """Whether all work on a stream has happened."""
        self._enter()
        code = self.lib.cuStreamQuery(c_void_p(stream))
        if code not in (0, 600):
            raise NoDriver(f"cuStreamQuery gave {code}")
        return bool(code == 0)

    def sync(self, stream: int) -> None:
        self._enter()
        self._check("cuStreamSynchronize", c_void_p(stream))

    def device_of(self, stream: int) -> int:
        """The ordinal of the device of a stream."""
        self._enter()
        ctx, dev = c_void_p(), c_int()
        self._check("cuStreamGetCtx", c_void_p(stream), byref(ctx))
        self._check("cuCtxPushCurrent_v2", ctx)
        try:
            self._check("cuCtxGetDevice", byref(dev))
        finally:
            self.lib.cuCtxPopCurrent_v2(byref(ctx))
        return dev.value

    def gate(self, stream: int) -> Gate:
        """Holds back what is queued on the stream from now on."""
        self._enter()
        flag = (self._flags.value or 0) + 64 * self._used
        self._used += 1
        wait = getattr(self.lib, "cuStreamWaitValue32_v2", None) or self.lib.cuStreamWaitValue32
        code = wait(c_void_p(stream), c_uint64(flag), c_uint32(1), c_uint(1))
        if code:
            raise NoDriver(f"cuStreamWaitValue32 gave {code}")
        g = _FlagGate(flag, None)
        self.gates.append(g)
        return g


class Through:
    """The driver that the package handoff has open: its software device exports no functions."""

    device = (2, 0)

    def __init__(self) -> None:
        import handoff
        from handoff import _core

        self.lib, self.core = handoff, _core
        try:
            self.dev = handoff.Device(0)
        except handoff.NoDriverError as e:
            raise NoDriver(str(e)) from None
        self.stream = self.dev.create_stream()
        self.keep: list[Any] = []
        self.gates: list[Gate] = []
        self.spans: list[tuple[int, int]] = []
        self.write(self.allocate(64), bytes(64))

    def allocate(self, size: int) -> int:
        b = self.dev.allocate(max(size, 1), stream=self.stream)
        b.fill(0, stream=self.stream)
        self.stream.sync()
        self.keep.append(b)
        self.spans.append((b.handle, size))
        return int(b.handle)

    def owns(self, address: int) -> bool:
        if any(a <= address < a + n for a, n in self.spans):
            return True
        view, err = None, None
        try:
            view = self._view(address, 1)
            return int(view.__dlpack_device__()[0]) == 2
        except Exception as e:  # noqa: BLE001
            err = e
        return err is None

    def _view(self, address: int, size: int) -> Any:
        described = type(
            "Bytes",
            (),
            {
                "__cuda_array_interface__": {
                    "shape": (size,),
                    "typestr": "|u1",
                    "data": (address, False),
                    "version": 3,
                    "stream": None,
                }
            },
        )()
        return self.lib.StridedMemoryView.from_cuda_array_interface(described, stream_ptr=self.stream)

    def read(self, address: int, size: int) -> bytes:
        if not any(not g._opened.is_set() for g in self.gates):
            self.dev.sync()
        if size == 0:
            return b""
        host = self.lib.Array.zeros((size,), "uint8")
        self._view(address, size).copy_to(host, self.stream)
        self.stream.sync()
        return bytes(memoryview(host))

    def write(self, address: int, data: bytes) -> None:
        if not data:
            return
        host = self.lib.Array.copy_of(memoryview(data))
        self._view(address, len(data)).copy_from(host, self.stream)
        self.stream.sync()

    def new_stream(self) -> int:
        s = self.dev.create_stream()
        self.keep.append(s)
        return int(s.handle)

    def alive(self, stream: int) -> bool:
        try:
            self.lib.StreamView(stream).is_done  # noqa: B018  asks the driver
        except Exception:  # noqa: BLE001
            return False
        return True

    def done(self, stream: int) -> bool:
        return bool(self.lib.StreamView(stream).is_done)

    def sync(self, stream: int) -> None:
        self.lib.StreamView(stream).sync()

    def device_of(self, stream: int) -> int:
        return int(self.lib.StreamView(stream).device_id)

    def gate(self, stream: int) -> Gate:
        key = self.core._gate(self.lib.StreamView(stream))
        g = _Timed(lambda: self.core._gate_open(key))
        self.gates.append(g)
        return g


class _Timed(Gate):
    """A gate that a timer of Python opens late: whoever waits must leave the interpreter."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self._run = run
        self._lock = threading.Lock()
        self._timer = threading.Timer(PATIENCE, self._open, (True,))
        self._timer.daemon = True
        self._timer.start()

    def _open(self, late: bool) -> None:
        with self._lock:
            if not self._opened.is_set():
                self.late = late
                self._opened.set()
                self._run()

    def open(self) -> None:
        self._timer.cancel()
        self._open(False)


class Pretended:
    """For references: host memory, and streams that are numbers. Work on a stream is a list of gates."""

    device = (1, 0)

    def __init__(self) -> None:
        self.streams: dict[int, int] = {}  # handle -> device
        self.held: dict[int, set[_Timed]] = {}
        self.gates: list[Gate] = []

    def allocate(self, size: int) -> int:
        from . import abi

        return int(abi.Pages(max(size, 1)).address)

    def owns(self, address: int) -> bool:
        return False

    def read(self, address: int, size: int) -> bytes:
        return ctypes.string_at(address, size)

    def write(self, address: int, data: bytes) -> None:
        ctypes.memmove(address, data, len(data))

    def new_stream(self, device: int = 0) -> int:
        handle = 0x10000 + 16 * len(self.streams)
        self.streams[handle] = device
        self.held[handle] = set()
        return handle

    def destroy(self, stream: int) -> None:
        self.streams[stream] = -1

    def alive(self, stream: int) -> bool:
        return stream in (0, 1, 2) or self.streams.get(stream, -1) >= 0

    def done(self, stream: int) -> bool:
        return not any(not g._opened.is_set() for g in self.held.get(stream, ()))

    def sync(self, stream: int) -> None:
        for g in list(self.held.get(stream, ())):
            g._opened.wait()

    def wait(self, stream: int, other: int) -> None:
        """Work on the stream from now on comes after that of the other one."""
        self.held.setdefault(stream, set()).update(self.held.get(other, ()))

    def device_of(self, stream: int) -> int:
        return self.streams.get(stream, 0)

    def gate(self, stream: int) -> Gate:
        g = _Timed(lambda: None)
        self.held.setdefault(stream, set()).add(g)
        self.gates.append(g)
        return g
