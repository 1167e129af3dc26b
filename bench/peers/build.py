#!/usr/bin/env python3
"""Compiles the peers that `make bench` compares with.

    bench/peers/build.py FOLDER

Uses the running interpreter's headers and the sources and headers that the
nanobind and apache-tvm-ffi wheels ship. Needs a C++17 compiler (CXX, or g++).
A peer whose package is not installed is left out, and said so.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
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


def nanobind(folder: Path) -> None:
    """The nanobind module, for this interpreter."""
    import nanobind as nb

    src, inc = Path(nb.source_dir()), Path(nb.include_dir())
    compile_to(
        folder / ("nanobind_peer" + sysconfig.get_config_var("EXT_SUFFIX")),
        HERE / "nanobind_peer.cpp",
        src / "nb_combined.cpp",
        "-fno-strict-aliasing",
        "-I",
        inc,
        "-I",
        src.parent / "ext" / "robin_map" / "include",
        "-I",
        sysconfig.get_paths()["include"],
    )


def tvm_ffi(folder: Path) -> None:
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
        f"-Wl,-rpath,{lib.parent}",
    )


def main() -> int:
    """Builds what can be built."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for package, build in (("nanobind", nanobind), ("tvm_ffi", tvm_ffi)):
        if importlib.util.find_spec(package) is None:
            print(f"peer left out: {package} is not installed")
            continue
        build(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
