"""Libraries whose arrays are on a CUDA device: "torch@cuda", "jax@cuda", "cupy", "numba", ...

What they have on the host as well is in targets.py. A target here has a `machine` (see gpu.py), with which
the checks see its memory and its streams without asking it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import gpu, targets
from .core import Look
from .targets import Target, Unsupported, numpy_array

N = 64  # elements of an array that is written in stream order


def _driver() -> Any:
    return gpu.Driver()


class _Cuda(Target):
    """What all of them share."""

    gpu = True

    def __init__(self) -> None:
        self.machine = _driver()
        super().__init__()

    def dlpack_device(self) -> tuple[int, int]:
        return 2, 0


class _Library(_Cuda):
    """A library with streams of its own."""

    def scope(self, handle: int) -> Any:
        """A context in which the library works on a stream."""
        raise Unsupported("works on no stream that it is told")

    def zeros(self, handle: int) -> Any:
        """N float32 zeros."""
        raise Unsupported("makes no arrays on a stream")

    def fill(self, x: Any, handle: int) -> None:
        """Queues a write of 7 to all elements on the stream."""
        raise Unsupported("writes nothing on a stream")

    def take_on(self, x: Any, handle: int) -> Any:
        if self.from_dlpack is None:
            raise Unsupported("has no from_dlpack")
        with self.scope(handle):
            return self.from_dlpack(x)

    def take_cai_on(self, x: Any, handle: int) -> Any:
        if self.from_cai is None:
            raise Unsupported("takes no __cuda_array_interface__")
        with self.scope(handle):
            return self.from_cai(x)

    def writer(self, handle: int) -> tuple[Any, Callable[[], None], Any]:
        x = self.zeros(handle)
        self.fill(x, handle)  # what the write needs is loaded before anything is held back
        self.machine.sync(handle)
        return x, lambda: self.fill(x, handle), lambda: self.scope(handle)


class Torch(_Library, targets.Torch):
    name = "torch@cuda"

    def __init__(self) -> None:
        super().__init__()
        if not self.torch.cuda.is_available():
            raise RuntimeError("torch sees no GPU")
        self.torch.zeros(1, device="cuda")
        self.stream = self.torch.cuda.Stream

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        x = targets.Torch.array(self, dtype, shape, layout)
        if layout == "C":
            return x.cuda()
        if layout == "F":
            return x.T.contiguous().cuda().T
        if layout == "sliced":
            wide = self.torch.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype=x.dtype, device="cuda")
            wide[..., 1::2] = x.cuda()
            return wide[..., 1::2]
        if layout == "broadcast":
            return x[:1].contiguous().cuda().expand(*shape)
        wide = self.torch.zeros(shape[0] + 1, dtype=x.dtype, device="cuda")
        wide[1:] = x.cuda()
        return wide[1:]

    def look(self, array: Any) -> Look:
        t = array.detach()
        code = {"bool": (6, 8, 1), "bfloat16": (4, 16, 1), "complex64": (5, 64, 1), "complex128": (5, 128, 1)}
        name = str(t.dtype).removeprefix("torch.")
        kind = code.get(name)
        if kind is None:
            first = {"i": 0, "u": 1, "f": 2}[name[0]]
            if name.startswith("float8"):
                return super().look(array)
            kind = (first, int("".join(c for c in name if c.isdigit())), 1)
        device = (2, t.device.index) if t.is_cuda else (1, 0)
        return Look(t.data_ptr(), tuple(t.shape), tuple(t.stride()), kind, False, device)

    def from_cai(self, x: Any) -> Any:
        return self.torch.as_tensor(x, device="cuda")

    def scope(self, handle: int) -> Any:
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(handle))

    def zeros(self, handle: int) -> Any:
        with self.scope(handle):
            return self.torch.zeros(N, device="cuda")

    def fill(self, x: Any, handle: int) -> None:
        with self.scope(handle):
            x.fill_(7)

    def work_on(self, x: Any, handle: int) -> None:
        with self.scope(handle):
            self.torch.as_tensor(x, device="cuda").add_(1)


class Jax(_Cuda, targets.Jax):
    name = "jax@cuda"

    def __init__(self) -> None:
        os.environ["JAX_PLATFORMS"] = "cuda,cpu"
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        super().__init__()
        import jax

        self.where = jax.devices("cuda")[0]

    def put(self, x: Any) -> Any:
        import jax

        return jax.device_put(targets.elsewhere(x), self.where).block_until_ready()

    def look(self, array: Any) -> Look:
        array.block_until_ready()
        kind, bits = str(array.dtype), array.dtype.itemsize * 8
        code = {"bool": 6, "bfloat16": 4}.get(kind) or {"i": 0, "u": 1, "f": 2, "c": 5}.get(kind[0], -1)
        if kind.startswith(("float8", "float4", "int4", "uint4", "int2", "uint2", "float6")):
            return super().look(array)
        on_gpu = next(iter(array.devices())).platform != "cpu"
        # An array keeps the order of axes that it came with.
        order = range(array.ndim)
        with contextlib.suppress(AttributeError, TypeError):
            order = tuple(array.format.layout.major_to_minor)
        strides, step = [1] * array.ndim, 1
        for axis in reversed(order):
            strides[axis] = step
            step *= max(array.shape[axis], 1)
        address = array.unsafe_buffer_pointer()
        return Look(address, array.shape, tuple(strides), (code, bits, 1), True, (2, 0) if on_gpu else (1, 0))


class CuPy(_Library):
    name = "cupy"

    def __init__(self) -> None:
        super().__init__()
        import cupy

        self.cp, self.version = cupy, cupy.__version__
        cupy.zeros(1)

    def stream(self) -> Any:
        return self.cp.cuda.Stream(non_blocking=True)

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout == "readonly":
            raise Unsupported("no read-only arrays")
        try:
            if layout == "broadcast":
                return self.cp.broadcast_to(self.cp.asarray(numpy_array(dtype, shape, "C")[:1]), tuple(shape))
            x = self.cp.asarray(numpy_array(dtype, shape, "C"))
            if layout == "sliced":
                wide = self.cp.zeros((*shape[:-1], 2 * shape[-1] + 1), x.dtype)
                wide[..., 1::2] = x
                return wide[..., 1::2]
            if layout == "offset":
                wide = self.cp.zeros(shape[0] + 1, x.dtype)
                wide[1:] = x
                return wide[1:]
            if layout == "reversed":
                return self.cp.ascontiguousarray(x[..., ::-1])[..., ::-1]
            return self.cp.asfortranarray(x) if layout == "F" else x
        except (TypeError, ValueError, NotImplementedError) as e:
            raise Unsupported(f"{dtype}: {e}") from None

    def look(self, array: Any) -> Look:
        kind = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}.get(array.dtype.kind)
        bits = array.dtype.itemsize * 8
        if kind is None:
            kind = 4 if str(array.dtype) == "bfloat16" else 3
        strides = tuple(s // array.dtype.itemsize for s in array.strides)
        return Look(array.data.ptr, array.shape, strides, (kind, bits, 1), False, (2, array.device.id))

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        return self.cp.from_dlpack(x, **kw)

    def from_cai(self, x: Any) -> Any:
        return self.cp.asarray(x)

    def take_stream(self, s: Any) -> Any:
        if not hasattr(self.cp.cuda.Stream, "from_external"):
            raise Unsupported("takes no stream objects")
        return self.cp.cuda.Stream.from_external(s)

    def scope(self, handle: int) -> Any:
        return self.cp.cuda.ExternalStream(handle)

    def zeros(self, handle: int) -> Any:
        with self.scope(handle):
            return self.cp.zeros(N, "float32")

    def fill(self, x: Any, handle: int) -> None:
        with self.scope(handle):
            x.fill(7)

    def work_on(self, x: Any, handle: int) -> None:
        with self.scope(handle):
            y = self.cp.asarray(x)
            y += 1


class Numba(_Library):
    """Arrays of numba.cuda, which speak the CUDA Array Interface and no DLPack."""

    name = "numba"

    def __init__(self) -> None:
        super().__init__()
        from numba import cuda

        self.cuda = cuda
        self.version = _version("numba-cuda", "numba")
        self._sevens: dict[int, Any] = {}
        cuda.current_context()

    def stream(self) -> Any:
        return self.cuda.stream()

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout not in ("C", "F", "sliced"):
            raise Unsupported(layout)
        import numpy as np

        x = numpy_array(dtype, shape, layout)
        if x.dtype.kind not in "biufc":
            raise Unsupported(dtype)
        if layout == "sliced":
            wide = np.zeros((*shape[:-1], 2 * shape[-1] + 1), x.dtype)
            wide[..., 1::2] = x
            return self.cuda.to_device(wide)[(*[slice(None)] * (len(shape) - 1), slice(1, None, 2))]
        return self.cuda.to_device(x)

    def look(self, array: Any) -> Look:
        return look_cai(array)

    def from_cai(self, x: Any) -> Any:
        return self.cuda.as_cuda_array(x)

    def scope(self, handle: int) -> Any:
        return contextlib.nullcontext()

    def zeros(self, handle: int) -> Any:
        import numpy as np

        return self.cuda.to_device(np.zeros(N, "float32"), stream=self.cuda.external_stream(handle))

    def fill(self, x: Any, handle: int) -> None:
        # A copy: a kernel would have to be compiled.
        if x.size not in self._sevens:
            self._sevens[x.size] = self.cuda.pinned_array(x.shape, "float32")
            self._sevens[x.size][...] = 7
        x.copy_to_device(self._sevens[x.size], stream=self.cuda.external_stream(handle))

    def work_on(self, x: Any, handle: int) -> None:
        y = self.cuda.as_cuda_array(x)
        self.fill(y, handle)


class CudaCore(_Library, targets.CudaCore):
    """Buffers of cuda.core and views on them."""

    name = "cuda.core@cuda"
    explicit = True

    def __init__(self) -> None:
        super().__init__()
        from cuda.core import Device

        self.dev = Device(0)
        self.dev.set_current()
        self.own = self.dev.create_stream()
        self.machine.write(self.machine.allocate(8), bytes(8))

    def stream(self) -> Any:
        return self.dev.create_stream()

    def _wrap(self, handle: int) -> Any:
        from cuda.core import Stream

        return Stream.from_handle(handle)

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        x = numpy_array(dtype, shape, layout)
        whole, start, strides = described(x)
        b = self.dev.allocate(max(len(whole), 16), stream=self.own)
        self.own.sync()
        self.machine.write(int(b.handle), whole)
        if start or layout == "offset":
            raise Unsupported("a view starts where its buffer starts")
        try:
            return self.smv.from_buffer(b, tuple(shape), strides, dtype=x.dtype, is_readonly=layout == "readonly")
        except (BufferError, ValueError, TypeError, RuntimeError) as e:
            raise Unsupported(f"{dtype} {layout}: {e}") from None

    def from_cai(self, x: Any) -> Any:
        return self.smv.from_cuda_array_interface(x, stream_ptr=int(self.own.handle))

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.smv.from_dlpack(x, stream_ptr=int(self.own.handle))

    def look(self, array: Any) -> Look:
        got = targets.CudaCore.look(self, array)
        got.device = (2, 0) if array.is_device_accessible else (1, 0)
        return got

    def take_on(self, x: Any, handle: int) -> Any:
        return self.smv.from_dlpack(x, stream_ptr=handle)

    def take_cai_on(self, x: Any, handle: int) -> Any:
        return self.smv.from_cuda_array_interface(x, stream_ptr=handle)

    def take_stream(self, s: Any) -> Any:
        return self.dev.create_stream(s)

    def default_streams(self) -> tuple[Any, Any, Any]:
        from cuda.core import LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

        return None, LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM

    def scope(self, handle: int) -> Any:
        return contextlib.nullcontext()

    def zeros(self, handle: int) -> Any:
        b = self.dev.allocate(4 * N, stream=self._wrap(handle))
        b.fill(0, stream=self._wrap(handle))
        return b

    def fill(self, x: Any, handle: int) -> None:
        x.fill(7, stream=self._wrap(handle))


class Handoff(_Library, targets.Handoff):
    """Our own package on a device: the driver's, or with HANDOFF_DRIVER=soft the software device."""

    name = "handoff@cuda"
    explicit = True

    def __init__(self) -> None:
        targets.Handoff.__init__(self)
        self.machine = gpu.Through() if os.environ.get("HANDOFF_DRIVER") == "soft" else gpu.Driver()
        self.dev = self.lib.Device(0)
        self.own = self.dev.create_stream()
        self._buffers: dict[int, Any] = {}
        # What goes through the exchange table is handed out on this stream.
        self._scope = self.lib.use_stream(self.own)
        self._scope.__enter__()

    def stream(self) -> Any:
        return self.dev.create_stream()

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        x = numpy_array(dtype, shape, layout)
        whole, start, strides = described(x)
        b = self.dev.allocate(max(len(whole), 16), stream=self.own)
        self.own.sync()
        self.machine.write(b.handle, whole)
        size = max(x.dtype.itemsize, 1)
        try:
            if not x.size:
                return self.lib.StridedMemoryView.from_buffer(b, tuple(shape), None, dtype=x.dtype)
            flat = self.lib.StridedMemoryView.from_buffer(b, (len(whole) // size,), dtype=x.dtype)
        except (BufferError, ValueError, TypeError, NotImplementedError) as e:
            raise Unsupported(f"{dtype}: {e}") from None
        if layout in ("C", "F", "sliced"):
            return flat.view((tuple(shape), strides))
        if layout == "offset":
            raise Unsupported(layout)
        if layout == "readonly" or start:
            return self._described(flat, x, start, layout == "readonly")
        return flat.view((tuple(shape), strides))

    def _described(self, flat: Any, x: Any, start: int, readonly: bool) -> Any:
        """What a layout of the same memory cannot say: another start, and that it is read-only."""
        described = {
            "shape": x.shape,
            "typestr": x.dtype.str,
            "data": (flat.ptr + start, readonly),
            "strides": x.strides,
            "version": 3,
            "stream": None,
        }
        owner = type("Described", (), {"__cuda_array_interface__": described, "keep": flat})()
        return self.lib.StridedMemoryView.from_cuda_array_interface(owner, stream_ptr=self.own)

    def special(self, kind: str) -> Any:
        raise Unsupported(f"no {kind} array on a device")

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            return self.lib.from_dlpack(x, **kw)
        return self.lib.StridedMemoryView.from_dlpack(x, stream_ptr=self.own)

    from_array_interface = None
    from_buffer = None

    def from_cai(self, x: Any) -> Any:
        return self.lib.StridedMemoryView.from_cuda_array_interface(x, stream_ptr=self.own)

    def take_on(self, x: Any, handle: int) -> Any:
        return self.lib.StridedMemoryView.from_dlpack(x, stream_ptr=self.lib.StreamView(handle))

    def take_cai_on(self, x: Any, handle: int) -> Any:
        return self.lib.StridedMemoryView.from_cuda_array_interface(x, stream_ptr=self.lib.StreamView(handle))

    def take_stream(self, s: Any) -> Any:
        return self.lib.StreamView(s)

    def default_streams(self) -> tuple[Any, Any, Any]:
        s = self.lib.StreamView
        return s(0), self.lib.LEGACY_DEFAULT_STREAM, self.lib.PER_THREAD_DEFAULT_STREAM

    def write(self, array: Any, index: int, value: Any) -> None:
        if array.readonly:
            raise self.lib.ReadOnlyError("read-only")
        source = self.lib.Array.full(array.shape, value, "float32")
        array.copy_from(source, self.own)
        self.own.sync()

    def scope(self, handle: int) -> Any:
        return self.lib.use_stream(self.lib.StreamView(handle))

    def zeros(self, handle: int) -> Any:
        b = self.dev.allocate(4 * N, stream=self.lib.StreamView(handle))
        b.fill(0, stream=self.lib.StreamView(handle))
        view = self.lib.StridedMemoryView.from_buffer(b, (N,), dtype="float32")
        self._buffers[view.ptr] = b
        return view

    def fill(self, x: Any, handle: int) -> None:
        self._buffers[x.ptr].fill(7, stream=self.lib.StreamView(handle))

    def work_on(self, x: Any, handle: int) -> None:
        s = self.lib.StreamView(handle)
        y = self.lib.StridedMemoryView.from_cuda_array_interface(x, stream_ptr=s)
        if not hasattr(self, "_ones"):
            self._ones = self.dev.allocate(y.nbytes, stream=self.own)
            self.own.sync()
        y.copy_from(self.lib.StridedMemoryView.from_buffer(self._ones, y.shape, dtype="float32"), s)
        y.release_on(s)


class Warp(_Cuda):
    """Arrays of NVIDIA Warp on the device."""

    name = "warp@cuda"
    where = "cuda:0"

    def __init__(self) -> None:
        super().__init__()
        _warp(self)

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        return _warp_array(self, dtype, shape, layout)

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.wp.from_dlpack(x)

    def look(self, array: Any) -> Look:
        return _warp_look(array)


class WarpHost(Target):
    """Arrays of NVIDIA Warp on the CPU."""

    name = "warp"
    where = "cpu"

    def __init__(self) -> None:
        _warp(self)

    array = Warp.array
    from_dlpack = Warp.from_dlpack  # type: ignore[assignment]
    look = Warp.look


def _warp(t: Any) -> None:
    import warp

    warp.config.quiet = True
    warp.init()
    t.wp, t.version = warp, warp.__version__


def _warp_array(t: Any, dtype: str, shape: Sequence[int], layout: str) -> Any:
    names = {"bool": "bool", "float16": "float16", "float32": "float32", "float64": "float64"}
    names |= {f"{u}int{n}": f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    if dtype not in names or layout in ("readonly", "reversed", "broadcast", "offset"):
        raise Unsupported(f"{dtype} {layout}")
    if not shape:
        raise Unsupported("arrays have an axis")
    x = t.wp.array(numpy_array(dtype, shape, "C"), dtype=getattr(t.wp, names[dtype]), device=t.where)
    if layout == "C":
        return x
    if layout == "F" and len(shape) == 2:
        y = t.wp.array(numpy_array(dtype, shape, "C").T.copy(), dtype=x.dtype, device=t.where)
        return y.transpose()
    if layout == "sliced" and len(shape) == 1:
        import numpy as np

        wide = np.zeros(2 * shape[0] + 1, dtype)
        wide[1::2] = numpy_array(dtype, shape, "C")
        return t.wp.array(wide, dtype=x.dtype, device=t.where)[1::2]
    raise Unsupported(layout)


def _warp_look(a: Any) -> Look:
    import warp

    name = a.dtype.__name__
    code = {"b": 6, "i": 0, "u": 1, "f": 2}[name[0]]
    size = warp.types.type_size_in_bytes(a.dtype)
    device = (2, 0) if a.device.is_cuda else (1, 0)
    return Look(a.ptr or 0, tuple(a.shape), tuple(s // size for s in a.strides), (code, 8 * size, 1), False, device)


def look_cai(array: Any) -> Look:
    """Reads an array through what its CUDA Array Interface says."""
    from .abi import row_major

    d = array.__cuda_array_interface__
    kind, size = d["typestr"][1], int(d["typestr"][2:])
    code = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}.get(kind, 3)
    steps = d.get("strides")
    strides = tuple(s // size for s in steps) if steps else row_major(d["shape"])
    return Look(d["data"][0], tuple(d["shape"]), strides, (code, 8 * size, 1), d["data"][1], (2, 0))


def described(x: Any) -> tuple[bytes, int, tuple[int, ...]]:
    """The bytes that a NumPy array spans, where it starts in them, and its strides in elements."""
    if x.size == 0:
        return b"", 0, tuple(x.strides)
    size = x.dtype.itemsize
    low = sum(s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True) if s < 0)
    high = sum(s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True) if s > 0)
    import ctypes

    raw = ctypes.string_at(x.ctypes.data + low, high - low + size)
    return raw, -low, tuple(s // size for s in x.strides)


def _version(*packages: str) -> str:
    for p in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(p)
    return ""


LIBRARIES: dict[str, Callable[[], Target]] = {
    "torch@cuda": Torch,
    "jax@cuda": Jax,
    "cupy": CuPy,
    "numba": Numba,
    "cuda.core@cuda": CudaCore,
    "handoff@cuda": Handoff,
    "warp@cuda": Warp,
    "warp": WarpHost,
}
