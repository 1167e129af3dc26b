"""Prints, as JSON, the interpreter and which protocols the arrays of each installed library speak."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import json
import os
import platform
import sys
import sysconfig

NUMPY = "__import__('numpy')"

# Library, distribution (or several that have it, apart by spaces), expressions for a small array on
# the host and on a GPU (a false value where there is none), and for the class of its streams; m is
# the module.
LIBRARIES = [
    ("numpy", "numpy", "m.arange(3.0)", None, None),
    (
        "torch",
        "torch",
        "m.arange(3.0)",
        "m.cuda.is_available() and m.arange(3.0, device='cuda')",
        "m.cuda.Stream",
    ),
    (
        "jax",
        "jax",
        f"m.device_put({NUMPY}.arange(3.0), m.devices('cpu')[0])",
        "m.default_backend() == 'gpu' and m.numpy.arange(3.0)",
        None,
    ),
    ("tensorflow", "tensorflow", "m.constant([1.0, 2.0])", None, None),
    (
        "paddle",
        "paddlepaddle",
        "m.to_tensor([1.0, 2.0], place='cpu')",
        "m.device.is_compiled_with_cuda() and m.to_tensor([1.0, 2.0], place='gpu')",
        "m.device.Stream",
    ),
    ("mlx.core", "mlx", "m.arange(3.0)", None, None),
    ("tvm_ffi", "apache-tvm-ffi", f"m.from_dlpack({NUMPY}.arange(3.0))", None, None),
    ("pyarrow", "pyarrow", "m.array([1.0, 2.0])", None, None),
    ("array_api_strict", "array-api-strict", "m.arange(3.0)", None, None),
    ("cupy", "cupy-cuda13x cupy-cuda12x cupy", None, "m.is_available() and m.arange(3.0)", "m.cuda.Stream"),
    (
        "numba.cuda",
        "numba-cuda numba",
        None,
        f"m.is_available() and m.to_device({NUMPY}.arange(3.0))",
        "m.cudadrv.driver.Stream",
    ),
    (
        "warp",
        "warp-lang",
        "m.array([1.0, 2.0], dtype=float, device='cpu')",
        "m.is_cuda_available() and m.array([1.0, 2.0], dtype=float, device='cuda:0')",
        "m.Stream",
    ),
    (
        "cuda.core",
        "cuda-core",
        "__import__('cuda.core.utils').core.utils.StridedMemoryView"
        f".from_dlpack({NUMPY}.arange(3.0), stream_ptr=-1)",
        None,
        "m.Stream",
    ),
    ("handoff", "handoff", "m.Array.zeros(3)", None, "m.Stream"),
]


def protocols(x: object) -> list[str]:
    """The names of the protocols that x offers."""
    found = []
    for old in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        if hasattr(type(x), old) and "exchange table" not in found:
            found.append("exchange table")
    if hasattr(type(x), "__dlpack__"):
        version = "dlpack"
        with contextlib.suppress(Exception):
            if "versioned" in repr(x.__dlpack__(max_version=(1, 3))):  # type: ignore[attr-defined]
                version = "dlpack 1"
        found.append(version)
    with contextlib.suppress(Exception):
        memoryview(x)  # type: ignore[arg-type]
        found.append("buffer")
    for attribute, name in (
        ("__array_interface__", "array interface"),
        ("__cuda_array_interface__", "CUDA array interface"),
    ):
        with contextlib.suppress(Exception):
            if getattr(x, attribute) is not None:
                found.append(name)
    return found


def look(
    name: str, distributions: str, host: str | None, gpu: str | None, stream: str | None
) -> dict[str, object] | None:
    """What is known of one library, or None if it is not installed."""
    version = None
    for distribution in distributions.split():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = version or importlib.metadata.version(distribution)
    if version is None:
        return None
    entry: dict[str, object] = {"name": name, "version": version, "protocols": [], "stream": False}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            m = importlib.import_module(name)
            if host is not None:
                entry["protocols"] = protocols(eval(host, {"m": m}))
            if stream is not None:
                with contextlib.suppress(AttributeError):  # of another version, or built without GPUs
                    entry["stream"] = hasattr(eval(stream, {"m": m}), "__cuda_stream__")
            if gpu is not None:
                array = eval(gpu, {"m": m})
                if array is not False:
                    entry["gpu"] = protocols(array)
    except Exception as e:
        entry["error"] = f"{type(e).__name__}: {e}".splitlines()[0]
    return entry


os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # jax takes most of a GPU's memory otherwise
print(
    json.dumps(
        {
            "executable": sys.executable,
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
            "debug": hasattr(sys, "gettotalrefcount"),
            "libraries": [e for row in LIBRARIES if (e := look(*row)) is not None],
        }
    )
)
