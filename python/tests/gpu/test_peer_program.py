"""Code written for cuda.core runs with the import changed.

device/soft/tests runs the same program with cuda.core itself; on a GPU it is done here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import peer_program
import pytest
from gpuhelp import real_gpu


def test_with_handoff() -> None:
    peer_program.run("handoff")


def test_with_the_peer() -> None:
    if not real_gpu():
        pytest.skip("device/soft/tests has a process of its own for it")
    pytest.importorskip("cuda.core")
    p = subprocess.run(
        [sys.executable, Path(peer_program.__file__), "cuda.core"], capture_output=True, text=True, timeout=120
    )
    assert p.returncode == 0, p.stderr
