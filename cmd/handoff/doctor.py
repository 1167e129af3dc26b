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

# Library, distribution, and an expression for a small array; m is the module.
LIBRARIES = [
    ("numpy", "numpy", "m.arange(3.0)"),
    ("torch", "torch", "m.arange(3.0)"),
    ("jax", "jax", "m.numpy.arange(3.0)"),
    ("tensorflow", "tensorflow", "m.constant([1.0, 2.0])"),
    ("paddle", "paddlepaddle", "m.to_tensor([1.0, 2.0])"),
    ("mlx.core", "mlx", "m.arange(3.0)"),
    ("tvm_ffi", "apache-tvm-ffi", "m.from_dlpack(__import__('numpy').arange(3.0))"),
    ("pyarrow", "pyarrow", "m.array([1.0, 2.0])"),
    ("array_api_strict", "array-api-strict", "m.arange(3.0)"),
    ("cupy", "cupy", "m.arange(3.0)"),
    ("numba.cuda", "numba", "m.to_device(__import__('numpy').arange(3.0))"),
    ("cuda.core", "cuda-core", None),
    ("handoff", "handoff", None),
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


def look(name: str, distribution: str, make: str | None) -> dict[str, object] | None:
    """What is known of one library, or None if it is not installed."""
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    entry: dict[str, object] = {"name": name, "version": version, "protocols": []}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            m = importlib.import_module(name)
            if make is not None:
                entry["protocols"] = protocols(eval(make, {"m": m}))
    except Exception as e:
        entry["error"] = f"{type(e).__name__}: {e}".splitlines()[0]
    return entry


os.environ.setdefault("JAX_PLATFORMS", "cpu")
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
