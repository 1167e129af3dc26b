"""Runs the tests in gpu/ on the software device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import handoff

GPU = Path(__file__).parent / "gpu"


def has_driver() -> bool:
    try:
        return bool(handoff.Device.get_all_devices())
    except handoff.NoDriverError:
        return False


@pytest.mark.skipif(has_driver(), reason="gpu/ runs on the driver of this process")
def test_on_the_software_device() -> None:
    p = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "pytest", "-x", "-p", "no:cacheprovider", str(GPU)],
        env=os.environ | {"HANDOFF_DRIVER": "soft"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert p.returncode == 0, p.stdout + p.stderr
    assert " passed" in p.stdout


@pytest.mark.skipif(has_driver(), reason="there is a driver")
def test_no_driver(raises: object) -> None:
    for call in (
        handoff.Device,
        lambda: handoff.StreamView(4096).sync(),
        lambda: handoff.StreamView(0).device,
        lambda: handoff.LEGACY_DEFAULT_STREAM.wait(handoff.StreamView(2)),
        lambda: handoff.Buffer.allocate(1, stream=1),
    ):
        with pytest.raises(handoff.NoDriverError, match="driver") as info:
            call()
        assert isinstance(info.value, BufferError)
        assert info.value.code is None
    # What needs no driver has none.
    assert handoff.StreamView(4096).__cuda_stream__() == (0, 4096)
