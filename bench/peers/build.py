#!/usr/bin/env python3
"""Compiles the peers that `make bench` compares with.

    bench/peers/build.py FOLDER [--for PYTHON]

Uses the headers of the running interpreter, or of PYTHON, and the sources and headers that the
nanobind and apache-tvm-ffi wheels ship. Needs a C++17 compiler (CXX, or g++).
A peer whose package is not installed is left out, and said so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CXX = shlex.split(os.environ.get("CXX", "g++"))
FLAGS = ["-O3", "-DNDEBUG", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden"]


def compile_to(out: Path, *args: str | Path) -> None:
    """Runs the compiler into a temporary name, then renames."""
    tmp = out.with_suffix(".tmp")
    subprocess.run([*CXX, *FLAGS, *map(str, args), "-o", str(tmp)], check=True)
    tmp.replace(out)
    print(f"built {out}")


def target(python: str) -> tuple[str, str]:
    """The suffix of extension modules and the header folder of an interpreter."""
    code = (
        "import sysconfig, json; "
        "print(json.dumps([sysconfig.get_config_var('EXT_SUFFIX'), sysconfig.get_paths()['include']]))"
    )
    out = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    suffix, include = json.loads(out.stdout)
    return suffix, include


def nanobind(folder: Path, python: str) -> None:
    """The nanobind module, for one interpreter."""
    import nanobind as nb

    src, inc = Path(nb.source_dir()), Path(nb.include_dir())
    suffix, headers = target(python)
    compile_to(
        folder / ("nanobind_peer" + suffix),
        HERE / "nanobind_peer.cpp",
        src / "nb_combined.cpp",
        "-fno-strict-aliasing",
        "-I",
        inc,
        "-I",
        src.parent / "ext" / "robin_map" / "include",
        "-I",
        headers,
    )


def tvm_ffi(folder: Path, python: str) -> None:
    """The tvm-ffi library; it holds no Python, so any interpreter may load it."""
    from tvm_ffi import libinfo

    inc = Path(libinfo.find_include_path())
    lib = Path(libinfo.find_libtvm_ffi())
    compile_to(
        folder / "tvm_ffi_peer.so",
        HERE / "tvm_ffi_peer.cpp",
        "-I",
        inc,
        "-I",
        libinfo.find_dlpack_include_path(),
        f"-L{lib.parent}",
        "-ltvm_ffi",
        # Another machine finds the library through tvm_ffi, which loads it first.
        *([f"-Wl,-rpath,{lib.parent}"] if python == sys.executable else []),
    )


def main() -> int:
    """Builds what can be built."""
    args = argparse.ArgumentParser(description="Compile the benchmark peers.")
    args.add_argument("folder", type=Path)
    args.add_argument("--for", dest="python", default=sys.executable, help="the interpreter to build for")
    opts = args.parse_args()
    folder: Path = opts.folder
    folder.mkdir(parents=True, exist_ok=True)
    for package, build in (("nanobind", nanobind), ("tvm_ffi", tvm_ffi)):
        if importlib.util.find_spec(package) is None:
            print(f"peer left out: {package} is not installed")
            continue
        build(folder, opts.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
