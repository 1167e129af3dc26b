"""The pytest plug-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.mark.parametrize(("target", "status"), [("reference", 0), ("reference:R117", 1), ("reference:R040", 0)])
def test_plugin(target: str, status: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "handoff_conformance.pytest_plugin", "-p", "no:cacheprovider",
               "-q",
               "--conformance", target, str(tmp_path)]  # fmt: skip
    p = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(HERE.parent), "PATH": "/usr/bin:/bin"},
    )
    assert p.returncode == status, p.stdout + p.stderr
    if status:
        assert "R117 MUST" in p.stdout
    assert " passed" in p.stdout


def test_strict(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "handoff_conformance.pytest_plugin", "-p", "no:cacheprovider",
               "-q",
               "--conformance", "reference:R040", "--conformance-strict", str(tmp_path)]  # fmt: skip
    p = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(HERE.parent), "PATH": "/usr/bin:/bin"},
    )
    assert p.returncode == 1
    assert "R040 SHOULD" in p.stdout
