"""Builds the test modules once per run and makes them importable."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]
OUT = ROOT / "build" / "test-ext"


def build(name: str) -> Path:
    """Builds python/ext/internal/NAME as a Python module."""
    out = OUT / name / f"{name}.abi3.so"
    subprocess.run(
        [os.environ.get("GO", "go"), "build", *os.environ.get("HANDOFF_TEST_BUILD", "").split()]
        + ["-buildmode=c-shared", "-o", str(out), f"./python/ext/internal/{name}"],
        cwd=ROOT,
        check=True,
        env=os.environ | {"CGO_ENABLED": "1"},
    )
    return out


@pytest.fixture(scope="session")
def testmod_path() -> Path:
    """The shared object of testmod."""
    return build("testmod")


@pytest.fixture(scope="session")
def othermod_path() -> Path:
    """The shared object of othermod, a second Go runtime."""
    return build("othermod")


@pytest.fixture(scope="session")
def m(testmod_path: Path) -> ModuleType:
    """The module testmod."""
    sys.path.insert(0, str(testmod_path.parent))
    import testmod

    return testmod


@pytest.fixture
def run(testmod_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a fresh interpreter that can import testmod."""

    def run(code: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(testmod_path.parent)} | env,
        )

    return run
