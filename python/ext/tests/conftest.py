"""Build the test modules once per run and makes them importable."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "python" / "tests"))
import limit  # noqa: E402

OUT = ROOT / "build" / "test-ext"


def build(name: str) -> Path:
    """Build python/ext/internal/NAME as a Python module."""
    out = OUT / name / f"{name}.abi3.so"
    go = [os.environ.get("GO", "go"), "build", *os.environ.get("HANDOFF_TEST_BUILD", "").split()]
    if shutil.which(go[0]) is None:
        if out.exists():  # the bundle for GPU machines brings it
            return out
        pytest.skip("needs Go, to build the test module")
    subprocess.run(
        [*go, "-buildmode=c-shared", "-o", str(out), f"./python/ext/internal/{name}"],
        cwd=ROOT,
        check=True,
        env=os.environ | {"CGO_ENABLED": "1"},
    )
    return out


@pytest.fixture(scope="session")
def testmod_path() -> Path:
    """Build testmod and return its file."""
    return build("testmod")


@pytest.fixture(scope="session")
def othermod_path() -> Path:
    """Build othermod, which has a Go runtime of its own."""
    return build("othermod")


@pytest.fixture(scope="session")
def m(testmod_path: Path) -> ModuleType:
    """Import testmod."""
    sys.path.insert(0, str(testmod_path.parent))
    return importlib.import_module("testmod")


@pytest.fixture
def run(testmod_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program in a fresh interpreter that can import testmod; on the software device with the hunt."""

    # Where handoff is not installed it is found by that variable.
    path = [str(testmod_path.parent), os.environ.get("PYTHONPATH", "")]

    def run(code: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        if env.get("HANDOFF_DRIVER") == "soft":
            env = {"HANDOFF_SOFT_CHECK": "1"} | env
        done = limit.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))} | env,
        )
        assert "missing synchronization" not in done.stderr, done.stderr
        return done

    return run
