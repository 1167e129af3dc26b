"""Runs the tests in gpu/ on the software device."""

from __future__ import annotations

import os
import shutil
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
def test_on_the_software_device(tmp_path: Path) -> None:
    p = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "pytest", "-x", "-p", "no:cacheprovider", str(GPU)],
        env=os.environ | {"HANDOFF_DRIVER": "soft", "HANDOFF_SOFT_CHECK": str(tmp_path / "races.json")},
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


def test_a_driver_that_does_not_start(tmp_path: Path) -> None:
    """The error of opening it is told, with its code: not looked up in the driver that there is not."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    library, source = tmp_path / "libcuda.so", tmp_path / "driver.c"
    source.write_text(
        "int cuInit(unsigned f) { (void)f; return 999; }\n"
        "int cuDriverGetVersion(int *v) { *v = 13000; return 0; }\n"
        "int cuCtxGetCurrent(void **c) { *c = 0; return 0; }\n"
        "int cuCtxPushCurrent_v2(void *c) { (void)c; return 201; }\n"
        "int cuCtxPopCurrent_v2(void **c) { *c = 0; return 201; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=120)
    code = (
        "import handoff\n"
        "try:\n    handoff.Device(0)\n"
        "except handoff.DriverError as e:\n    print(e.code, 'cuInit' in str(e))\n"
    )
    p = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"HANDOFF_DRIVER": "cuda", "HANDOFF_LIBCUDA": str(library)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (p.returncode, p.stdout) == (0, "999 True\n"), p.stderr
