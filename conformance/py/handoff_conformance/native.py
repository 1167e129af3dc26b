"""Builds helper.c with the C compiler, once, and loads it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


class NoCompiler(Exception):  # noqa: N818
    """There is no C compiler, or it failed."""


def own_folder() -> Path:
    """Where what is compiled is kept; nobody else can write there."""
    folder = Path(tempfile.gettempdir()) / f"handoff-conformance-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise NoCompiler(f"{folder} belongs to somebody else")
    return folder


def build() -> Path:
    """The path of the library. HANDOFF_CONFORMANCE_HELPER names one that is there already."""
    given = os.environ.get("HANDOFF_CONFORMANCE_HELPER")
    if given:
        return Path(given)
    source = Path(__file__).with_name("helper.c")
    key = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    target = own_folder() / f"helper-{key}.so"
    if target.exists():
        return target
    cc = os.environ.get("CC") or next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    if cc is None:
        raise NoCompiler("no C compiler found: tried cc, gcc, clang")
    part = target.with_suffix(f".{os.getpid()}")
    command = [*cc.split(), "-std=c11", "-O1", "-fPIC", "-shared", "-o", str(part), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoCompiler(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    part.rename(target)
    return target


lib = ctypes.PyDLL(str(build()))


def address(name: str) -> int:
    """The address of a function of the helper."""
    value = ctypes.cast(getattr(lib, name), ctypes.c_void_p).value
    assert value is not None
    return value


if __name__ == "__main__":
    sys.stdout.write(str(build()) + "\n")
