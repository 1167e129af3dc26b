"""Builds handoff: the Python files here, and the compiled part by `go build`.

The metadata is in pyproject.toml. The Go module is the folder above, so the
package is built from a checkout; `pip install ./python` does that.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent


class BuildGo(build_ext):
    """Builds the extension module with the Go tool."""

    def build_extension(self, ext: Extension) -> None:
        """Build handoff/_core.abi3.so."""
        go = os.environ.get("GO") or "go"
        if shutil.which(go) is None:
            sys.exit(f"handoff: the Go tool is needed to build the package; {go!r} was not found")
        if not (HERE.parent / "go.mod").exists():
            sys.exit("handoff: build the package from a checkout of the repository, where the Go module is")
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        env = dict(os.environ, CGO_ENABLED="1")
        # Everything but the entry point stays hidden.
        flags = f"-s -w '-extldflags=\"-Wl,--version-script={HERE / 'core' / 'exports.map'}\"'"
        command = [go, "build", "-buildmode=c-shared", "-trimpath", f"-ldflags={flags}", "-o", str(target), "./core"]
        print("handoff:", " ".join(command), flush=True)
        subprocess.run(command, cwd=HERE, env=env, check=True)
        # The C header that the Go tool writes beside it has no use here.
        target.with_suffix(".h").unlink(missing_ok=True)

    def get_source_files(self) -> list[str]:
        """Return no sources: they belong to the Go module."""
        return []


setup(
    ext_modules=[Extension("handoff._core", sources=[], py_limited_api=True)],
    cmdclass={"build_ext": BuildGo},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
