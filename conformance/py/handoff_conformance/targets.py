"""What is tested: libraries by name, and anything else by "module:factory".

A target makes arrays (as a producer) and takes those of others (as a consumer). Whatever it lacks it
answers with Unsupported, and the checks that need it are skipped.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import abi
from .core import Look, Skip, look


class Unsupported(Skip):
    """The target cannot make such an array."""


class Missing(Exception):  # noqa: N818
    """The library is not installed, or does not start."""


class Target:
    """A library under test. Subclasses fill in what it has; None means that it does not."""

    name = "target"
    version = ""
    readonly_arrays = False  # every array is immutable
    why: dict[str, str] = {}  # rule -> reason, for SHOULD rules that are not kept on purpose

    from_dlpack: Callable[..., Any] | None = None
    from_array_interface: Callable[[Any], Any] | None = None
    from_buffer: Callable[[Any], Any] | None = None
    from_cai: Callable[[Any], Any] | None = None
    take_stream: Callable[[Any], Any] | None = None
    stream: Callable[[], Any] | None = None
    gpu = False
    # For targets on a device: how the checks see its memory and streams (gpu.py); an array of zeros, a function
    # that queues a write of it on a stream, and the context in which it is exported then; a function that takes
    # what a CUDA Array Interface describes, works on it on a stream and drops it; where arrays are, for device=.
    machine: Any = None
    writer: Callable[[int], tuple[Any, Callable[[], None], Callable[[], Any]]] | None = None
    work_on: Callable[[Any, int], None] | None = None
    own_device: Any = None
    # Takes an array, or what describes it, for work on a stream.
    take_on: Callable[[Any, int], Any] | None = None
    take_cai_on: Callable[[Any, int], Any] | None = None
    explicit = False  # the stream is an argument, not the library's current one
    # For targets with streams: a dict of an array with pending work, whether a stream lives, the default
    # streams (null, legacy, per-thread), and the stream argument passed when working on a given stream.
    pending_stream: Callable[[], dict[str, Any]] | None = None
    default_streams: Callable[[], tuple[Any, Any, Any]] | None = None
    dlpack_stream: Callable[[Any], Any] | None = None

    def stream_alive(self, handle: int) -> bool:
        return True

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        """A new array whose element at flat (row-major) index i has value i (i % 2 for bool).

        layout: "C", "F", "sliced" (every other column of a wider array, not at its start),
        "reversed" (last axis backwards), "broadcast" (first axis of stride 0), "readonly", "offset" (one
        element above a multiple of 64 bytes).
        """
        raise Unsupported(f"{self.name} makes no arrays")

    def special(self, kind: str) -> Any:
        """An array that DLPack cannot describe: "byteorder", "oddstride", "unexportable"."""
        raise Unsupported(f"no {kind} array in {self.name}")

    def look(self, array: Any) -> Look:
        return look(array)

    def write(self, array: Any, index: int, value: Any) -> None:
        """Writes an element of a 1-d array in place; raises if the library refuses."""
        array[index] = value


def numpy_array(dtype: str, shape: Sequence[int], layout: str) -> Any:
    """The NumPy array of Target.array."""
    import numpy as np

    if dtype not in ("bool", "float16") and not hasattr(np, dtype):
        try:
            import ml_dtypes
        except ImportError:
            raise Unsupported("ml_dtypes is not installed") from None
        if not hasattr(ml_dtypes, dtype):
            raise Unsupported(f"no dtype {dtype}")
        t = np.dtype(getattr(ml_dtypes, dtype))
    else:
        t = np.dtype(dtype)
    shape = tuple(shape)
    n = int(np.prod(shape))
    values = np.arange(n)
    if dtype == "bool":
        values = values % 2
    elif t.itemsize == 1:
        values = values % 2 if "float" in dtype else values % 100
    a = values.astype(t).reshape(shape)
    if layout == "C":
        return a
    if layout == "F":
        return np.asfortranarray(a)
    if layout == "readonly":
        a.flags.writeable = False
        return a
    if not shape:
        raise Unsupported("a scalar has one layout")
    if layout == "sliced":
        wide = np.zeros((*shape[:-1], 2 * shape[-1] + 1), t)
        wide[..., 1::2] = a
        return wide[..., 1::2]
    if layout == "reversed":
        return np.ascontiguousarray(a[..., ::-1])[..., ::-1]
    if layout == "broadcast":
        return np.broadcast_to(a[:1], shape)
    if layout == "offset" and len(shape) == 1:
        return elsewhere(a)
    raise Unsupported(layout)


def elsewhere(x: Any) -> Any:
    """A copy of a NumPy array that starts off a multiple of 64 bytes."""
    import numpy as np

    size = x.dtype.itemsize
    raw = np.zeros(x.nbytes + 128 + size, "u1")
    start = -raw.ctypes.data % 64 + size
    y = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


class NumPy(Target):
    name = "numpy"

    def __init__(self) -> None:
        import numpy as np

        self.np = np
        self.version = np.__version__

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        return self.np.from_dlpack(x, **kw)

    def from_array_interface(self, x: Any) -> Any:
        return self.np.asarray(x)

    def from_buffer(self, x: Any) -> Any:
        return self.np.asarray(x)

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        return numpy_array(dtype, shape, layout)

    def special(self, kind: str) -> Any:
        np = self.np
        if kind == "byteorder":
            return np.arange(6, dtype=">i4")
        if kind == "oddstride":
            return np.zeros(3, [("a", "i4"), ("b", "f8")])["b"]
        return np.array([object()], dtype=object)

    def look(self, array: Any) -> Look:
        ai = array.__array_interface__
        if ai["typestr"][1] == "V":
            return look(array)
        size = array.itemsize
        kind = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}[ai["typestr"][1]]
        return Look(
            ai["data"][0],
            array.shape,
            tuple(s // size for s in array.strides),
            (kind, size * 8, 1),
            ai["data"][1],
        )


class MlDtypes(NumPy):
    """NumPy with the element types of ml_dtypes."""

    name = "ml_dtypes"

    def __init__(self) -> None:
        super().__init__()
        import ml_dtypes

        self.version = ml_dtypes.__version__

    def array(self, dtype: str = "bfloat16", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if dtype in ("bfloat16",) or dtype.startswith(("float8", "float6", "float4", "int4", "uint4")):
            return numpy_array(dtype, shape, layout)
        raise Unsupported(f"{dtype} is NumPy's own")

    from_dlpack = None
    from_array_interface = None
    from_buffer = None


class Jax(Target):
    name = "jax"
    readonly_arrays = True

    def __init__(self) -> None:
        environment(self.name)
        import jax

        jax.config.update("jax_enable_x64", True)
        import jax.numpy as jnp

        self.jnp, self.version = jnp, jax.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout not in ("C", "readonly"):
            raise Unsupported("JAX arrays are row-major")
        return self.put(numpy_array(dtype, shape, "C"))

    def put(self, x: Any) -> Any:
        import jax

        # jnp.array would compile something for each type. Memory of NumPy at a multiple of 64 bytes would be
        # shared, whatever may_alias says, and such an array behaves otherwise: it must not be luck.
        return jax.device_put(elsewhere(x)).block_until_ready()

    def special(self, kind: str) -> Any:
        if kind != "unexportable":
            raise Unsupported(kind)
        import jax

        return jax.random.key(0)

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw.get("device") == "cpu":
            import jax

            kw["device"] = jax.devices("cpu")[0]
        return self.jnp.from_dlpack(x, **kw)

    def look(self, array: Any) -> Look:
        got = look(array)
        got.readonly = True
        return got


class ArrayApiStrict(Target):
    name = "array-api-strict"

    def __init__(self) -> None:
        import array_api_strict

        self.xp, self.version = array_api_strict, array_api_strict.__version__
        array_api_strict.set_array_api_strict_flags(api_version="2024.12")

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if not hasattr(self.xp, dtype):
            raise Unsupported(f"no dtype {dtype}")
        if layout in ("F", "readonly"):
            raise Unsupported(layout)
        if layout == "broadcast":
            return self.xp.broadcast_to(self.array(dtype, shape)[:1, ...], tuple(shape))
        wide = numpy_array(dtype, shape, "offset" if layout == "offset" else "C")
        if layout in ("C", "offset"):
            return self.xp.asarray(wide)
        if layout == "sliced":
            import numpy as np

            w = np.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype)
            w[..., 1::2] = wide
            return self.xp.asarray(w)[..., 1::2]
        return self.xp.asarray(wide[..., ::-1].copy())[..., ::-1]

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw.get("device") == "cpu":
            kw["device"] = self.xp.Device("CPU_DEVICE")
        return self.xp.from_dlpack(x, **kw)


class TvmFfi(Target):
    name = "tvm-ffi"

    def __init__(self) -> None:
        import tvm_ffi

        self.lib = tvm_ffi
        self.version = importlib.metadata.version("apache-tvm-ffi")

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        # It has no arrays of its own from Python: these are imported, then exported again.
        try:
            return self.lib.from_dlpack(numpy_array(dtype, shape, layout))
        except (BufferError, ValueError, TypeError, RuntimeError) as e:
            raise Unsupported(f"{dtype} {layout}: {e}") from None

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.lib.from_dlpack(x)


class PyArrow(Target):
    name = "pyarrow"
    readonly_arrays = True

    def __init__(self) -> None:
        import pyarrow

        self.pa, self.version = pyarrow, pyarrow.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (6,), layout: str = "C") -> Any:
        if dtype not in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
                         "float32", "float64"):  # fmt: skip
            raise Unsupported(f"no dtype {dtype}")
        if len(shape) == 1 and layout in ("C", "readonly"):
            return self.pa.array(numpy_array(dtype, shape, "C"))
        if len(shape) == 1 and layout == "sliced":
            raise Unsupported("arrays have no strides")
        if not shape or 0 in shape or layout == "reversed":
            raise Unsupported("tensors have at least one axis and element")
        return self.pa.Tensor.from_numpy(numpy_array(dtype, shape, layout))

    def special(self, kind: str) -> Any:
        if kind != "unexportable":
            raise Unsupported(kind)
        return self.pa.array(["text"])

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.pa.Tensor.from_dlpack(x)


class CudaCore(Target):
    """cuda.core's StridedMemoryView, which reads the arrays of others and hands them on."""

    name = "cuda.core"
    gpu = True  # takes the metadata of CUDA memory, with or without a driver

    def __init__(self) -> None:
        from cuda.core.utils import StridedMemoryView

        self.smv = StridedMemoryView
        self.version = importlib.metadata.version("cuda-core")
        import numpy as np

        try:
            StridedMemoryView.from_array_interface(np.zeros(1))
        except Exception:  # noqa: BLE001  no driver: it asks for one even for host memory
            self.from_array_interface = None  # type: ignore[assignment]

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        try:
            return self.smv.from_dlpack(numpy_array(dtype, shape, layout), stream_ptr=-1)
        except (BufferError, ValueError, TypeError, RuntimeError) as e:
            raise Unsupported(f"{dtype} {layout}: {e}") from None

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.smv.from_dlpack(x, stream_ptr=-1)

    def from_array_interface(self, x: Any) -> Any:
        return self.smv.from_array_interface(x)

    def look(self, array: Any) -> Look:
        from .abi import row_major

        if str(getattr(array.dtype, "str", "")).startswith(">"):
            raise Skip("its dtype says the byte order")
        strides = array.strides if array.strides is not None else row_major(array.shape)
        return Look(array.ptr, tuple(array.shape), tuple(strides), _triple(array.dtype), array.readonly)

    def write(self, array: Any, index: int, value: Any) -> None:
        raise Unsupported("views are not written through")


def _triple(dtype: Any) -> tuple[int, int, int]:
    import numpy as np

    d = np.dtype(dtype)
    kind = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}.get(d.kind, 3)
    return kind, d.itemsize * 8, 1


class Handoff(Target):
    """Our own package: handoff.Array as a producer, StridedMemoryView as a consumer."""

    name = "handoff"
    why = {
        "R040": "a slice starts where it starts, and byte_offset is folded into data, because consumers in use ignore "
        "byte_offset (B057, B058, B060); memory that handoff allocates is aligned to 256 bytes",
    }

    def __init__(self) -> None:
        import handoff

        self.lib, self.version = handoff, handoff.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        shape = tuple(shape)
        try:
            if layout == "F":
                if len(shape) < 2:
                    raise Unsupported("one axis has one order")
                return self.lib.StridedMemoryView.from_any_interface(self._base(dtype, shape, "F"))
            if layout == "readonly":
                return self.lib.StridedMemoryView.from_any_interface(numpy_array(dtype, shape, "readonly"))
            if layout == "broadcast":
                return self.lib.StridedMemoryView.from_any_interface(numpy_array(dtype, shape, "broadcast"))
            if layout == "C":
                a = self.lib.Array.empty(shape, dtype)
                self._fill(a, numpy_array(dtype, shape, "C"), dtype)
                return a
            if not shape:
                raise Unsupported("a scalar has one layout")
            if layout == "sliced":
                w = self.lib.Array.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype)[..., 1::2]
                self._fill(w, numpy_array(dtype, shape, "C"), dtype)
                return w
            if layout == "offset":
                w = self.lib.Array.zeros((shape[0] + 1,), dtype)[1:]
                self._fill(w, numpy_array(dtype, shape, "C"), dtype)
                return w
            r = self.lib.Array.zeros(shape, dtype)[..., ::-1]
            self._fill(r, numpy_array(dtype, shape, "C"), dtype)
            return r
        except NotImplementedError as e:
            raise Unsupported(str(e)) from None

    def _base(self, dtype: str, shape: tuple[int, ...], layout: str) -> Any:
        return numpy_array(dtype, shape, layout)

    def _fill(self, a: Any, source: Any, dtype: str) -> None:
        import ctypes

        if source.size == 0:
            return
        got = look(a)
        size = max(got.dtype[1] * got.dtype[2] // 8, 1)
        raw = source.tobytes()
        for i, o in enumerate(abi.offsets(got.shape, got.strides)):
            ctypes.memmove(got.address + o * size, raw[i * size : (i + 1) * size], size)

    def special(self, kind: str) -> Any:
        import numpy as np

        v = self.lib.StridedMemoryView
        if kind == "byteorder":
            return lambda: v.from_any_interface(np.arange(6, dtype=">i4"))
        if kind == "oddstride":
            return lambda: v.from_any_interface(np.zeros(3, [("a", "i4"), ("b", "f8")])["b"])
        return lambda: v.from_any_interface(np.array([object()], dtype=object))

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        return self.lib.from_dlpack(x, **kw)

    def from_array_interface(self, x: Any) -> Any:
        return self.lib.StridedMemoryView.from_array_interface(x)

    def from_buffer(self, x: Any) -> Any:
        return self.lib.StridedMemoryView.from_any_interface(x)

    def look(self, array: Any) -> Look:
        from .abi import row_major

        strides = array.strides if array.strides is not None else row_major(array.shape)
        return Look(array.ptr, array.shape, strides, array.dlpack_dtype, array.readonly, array.__dlpack_device__())

    def write(self, array: Any, index: int, value: Any) -> None:
        if array.readonly:
            raise self.lib.ReadOnlyError("read-only")
        source = self.lib.Array.full(array.shape, 0, "float32")
        source.copy_from(array) if hasattr(source, "copy_from") else None
        full = self.lib.Array.copy_of(array)
        full[index] = value
        array.copy_from(full)


class Module(Target):
    """Any module with from_dlpack, or an array or a factory of arrays that somebody names."""

    def __init__(self, name: str, obj: Any) -> None:
        self.name = name
        self.obj = obj
        take = getattr(obj, "from_dlpack", None)
        if callable(take):
            self.from_dlpack = take
        self.version = getattr(obj, "__version__", "")
        self.make = None if isinstance(obj, type(importlib)) else obj if callable(obj) else (lambda: obj)

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if self.make is None:
            raise Unsupported("name a factory of arrays: module:factory")
        if layout != "C":
            raise Unsupported("a factory gives arrays of one layout")
        x = self.make()
        x_look = look(x)
        if x_look.dtype != {"float32": (2, 32, 1), "float64": (2, 64, 1)}.get(dtype) or x_look.shape != tuple(shape):
            raise Unsupported("the factory gives arrays of another type or shape")
        return x

    def any(self) -> Any:
        """Whatever the factory gives."""
        if self.make is None:
            raise Unsupported("name a factory of arrays: module:factory")
        return self.make()


class Torch(Target):
    name = "torch"

    def __init__(self) -> None:
        import torch

        self.torch, self.version = torch, torch.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout == "readonly" or not hasattr(self.torch, dtype):
            raise Unsupported(f"{dtype} {layout}")
        if layout == "reversed":
            raise Unsupported("no negative strides")
        source = "bool" if dtype == "bool" else "float64"
        t = self.torch.from_numpy(numpy_array(source, shape, "C")).to(getattr(self.torch, dtype))
        if layout == "F":
            return t.T.contiguous().T
        if layout == "sliced":
            wide = self.torch.zeros((*shape[:-1], 2 * shape[-1] + 1), dtype=t.dtype)
            wide[..., 1::2] = t
            return wide[..., 1::2]
        if layout == "broadcast":
            return t[:1].expand(*shape)
        if layout == "offset":
            wide = self.torch.zeros(shape[0] + 1, dtype=t.dtype)
            wide[1:] = t
            return wide[1:]
        return t

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        return self.torch.from_dlpack(x, **kw)


class TensorFlow(Target):
    name = "tensorflow"
    readonly_arrays = True

    def __init__(self) -> None:
        environment(self.name)
        import tensorflow as tf

        self.tf, self.version = tf, tf.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout not in ("C", "readonly"):
            raise Unsupported("row-major only")
        return self.tf.constant(numpy_array(dtype, shape, "C"))

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("from_dlpack has no device and copy")
        return self.tf.experimental.dlpack.from_dlpack(x.__dlpack__())


class Paddle(Target):
    name = "paddle"

    def __init__(self) -> None:
        import paddle

        self.paddle, self.version = paddle, paddle.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        if layout != "C":
            raise Unsupported(layout)
        return self.paddle.to_tensor(numpy_array(dtype, shape, "C"))

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        return self.paddle.from_dlpack(x, **kw)


def _nanobind() -> Target:
    from .nanobind_target import Nanobind

    return Nanobind()


LIBRARIES: dict[str, Callable[[], Target]] = {
    "numpy": NumPy,
    "ml_dtypes": MlDtypes,
    "jax": Jax,
    "array-api-strict": ArrayApiStrict,
    "tvm-ffi": TvmFfi,
    "pyarrow": PyArrow,
    "cuda.core": CudaCore,
    "handoff": Handoff,
    "torch": Torch,
    "tensorflow": TensorFlow,
    "paddle": Paddle,
    "nanobind": _nanobind,
}


# What may be imported before a fork: libraries that start nothing when they are imported. Not handoff, whose Go
# runtime does not survive a fork, and nothing on a GPU.
PRELOAD: dict[str, tuple[str, ...]] = {
    "numpy": ("numpy",),
    "ml_dtypes": ("numpy", "ml_dtypes"),
    "jax": ("numpy", "jax", "jax.numpy", "jax.dlpack"),
    "array-api-strict": ("numpy", "array_api_strict"),
    "tvm-ffi": ("numpy", "tvm_ffi"),
    "pyarrow": ("numpy", "pyarrow"),
    "torch": ("numpy", "torch"),
    "tensorflow": ("numpy", "tensorflow"),
    "paddle": ("numpy", "paddle"),
    "cuda.core": ("numpy", "cuda.core.utils"),
    "warp": ("numpy", "warp"),
    "nanobind": ("numpy",),
}


def preload(name: str) -> str:
    """Imports the library of a target, if that may happen before a fork. What went wrong, or nothing."""
    environment(name)
    for module in PRELOAD.get(name, ()):
        try:
            importlib.import_module(module)
        except Exception as e:  # noqa: BLE001  the target itself will say so
            return f"{type(e).__name__}: {e}"
    return ""


def environment(name: str) -> None:
    """What has to be set before a library is imported."""
    if name == "jax":
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    elif name == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def find(name: str) -> Target:
    """The target of a name: a library of LIBRARIES, "reference[:FAULT]", a module, or "module:attribute"."""
    t = _find(name)
    if t.machine is not None:
        abi.machine = t.machine
    return t


def _find(name: str) -> Target:
    if name == "reference" or name.startswith("reference:"):
        from .reference import Reference

        return Reference(name.partition(":")[2])
    libraries = LIBRARIES
    if name not in LIBRARIES:
        from .gpu_targets import LIBRARIES as libraries  # noqa: N811
    if name in libraries:
        try:
            return libraries[name]()
        except Exception as e:  # noqa: BLE001
            raise Missing(f"{name}: {type(e).__name__}: {e}") from e
    module, _, attribute = name.partition(":")
    try:
        obj: Any = importlib.import_module(module)
    except Exception as e:  # noqa: BLE001
        raise Missing(f"{name}: {type(e).__name__}: {e}") from e
    for part in filter(None, attribute.split(".")):
        if not hasattr(obj, part):
            raise Missing(f"{name}: {module} has no {part}")
        obj = getattr(obj, part)
    if isinstance(obj, Target):
        return obj
    if isinstance(obj, type) and issubclass(obj, Target):
        return obj()
    return Module(name, obj)
