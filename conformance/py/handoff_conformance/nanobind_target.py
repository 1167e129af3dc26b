"""The target "nanobind": a small extension, compiled once with the sources of the nanobind package."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import native
from .core import Look
from .targets import Target, Unsupported, numpy_array

NAME = "handoff_conformance_nanobind"
TYPES = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}


def build() -> Path:
    """The path of the extension."""
    import nanobind

    source = Path(__file__).with_name("nanobind_target.cpp")
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    key = hashlib.sha256(source.read_bytes() + nanobind.__version__.encode() + sys.version.encode()).hexdigest()[:16]
    folder = native.own_folder() / key
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{NAME}{suffix}"
    if target.exists():
        return target
    cxx = os.environ.get("CXX") or next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), None)
    if cxx is None:
        raise RuntimeError("no C++ compiler found: tried c++, g++, clang++")
    src = Path(nanobind.source_dir())
    part = target.with_suffix(f".{os.getpid()}")
    command = [*cxx.split(), "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing",
               str(source), str(src / "nb_combined.cpp"), "-I", nanobind.include_dir(),
               "-I", str(src.parent / "ext" / "robin_map" / "include"), "-I", sysconfig.get_paths()["include"],
               "-o", str(part)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:]}")
    part.rename(target)
    return target


class Nanobind(Target):
    name = "nanobind"

    def __init__(self) -> None:
        import nanobind

        spec = importlib.util.spec_from_file_location(NAME, build())
        assert spec is not None and spec.loader is not None
        self.lib: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.lib)
        self.version = nanobind.__version__

    def array(self, dtype: str = "float32", shape: Sequence[int] = (2, 3), layout: str = "C") -> Any:
        from .gpu_targets import described

        x = numpy_array(dtype, shape, layout)
        if x.dtype.kind in TYPES and not dtype.startswith("float8"):
            code, bits = TYPES[x.dtype.kind], x.dtype.itemsize * 8
        elif dtype == "bfloat16":
            code, bits = 4, 16
        else:
            raise Unsupported(f"no dtype {dtype}")
        raw, start, strides = described(x)
        make = self.lib.make_readonly if layout == "readonly" else self.lib.make
        return make(raw, list(x.shape), list(strides), start, code, bits)

    def from_dlpack(self, x: Any, **kw: Any) -> Any:
        if kw:
            raise Unsupported("an argument has no device and copy")
        return _Result(self.lib.take(x))

    def from_buffer(self, x: Any) -> Any:
        return self.from_dlpack(x)

    def look(self, array: Any) -> Look:
        if not isinstance(array, _Result):
            return super().look(array)
        t = array.taken
        code, bits, lanes = t.dtype
        return Look(t.address, tuple(t.shape), tuple(t.strides), (code, bits, lanes), True, t.device)

    def write(self, array: Any, index: int, value: Any) -> None:
        raise Unsupported("functions write")


class _Result:
    """What an extension made of an argument, const by its type; it hands it on as a result of its own."""

    def __init__(self, taken: Any) -> None:
        self.taken = taken

    def __dlpack__(self, **kw: Any) -> Any:
        return self.taken.give().__dlpack__(**kw)

    def __dlpack_device__(self) -> Any:
        return self.taken.give().__dlpack_device__()
