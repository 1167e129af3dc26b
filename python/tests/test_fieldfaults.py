"""Faults seen in the field that have no better place."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import os, warnings
warnings.simplefilter("ignore")
import handoff
from handoff import _core
count = len(handoff.Device.get_all_devices())
assert count == 2, count
device = handoff.Device(0)
assert "software" in device.name
calls = {
    "get_all_devices": handoff.Device.get_all_devices,
    "Device": lambda: handoff.Device(1).name,
    "create_stream": device.create_stream,
    "memory_info": lambda: device.memory_info,
    "sync": device.sync,
}
pid = os.fork()
if pid == 0:
    try:
        for name, call in calls.items():
            try:
                call()
            except handoff.ForkError as e:
                assert "fork" in str(e), e
            else:
                print(name, "says that the device is usable", flush=True)
                os._exit(3)
        os._exit(0)
    except BaseException as e:
        print(repr(e), flush=True)
        os._exit(4)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert len(handoff.Device.get_all_devices()) == 2
device.create_stream().sync()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_B309_what_was_cached_before_a_fork_is_not_believed(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    monkeypatch.setenv("HANDOFF_DRIVER", "soft")
    assert run(PROGRAM).stdout == ""


def in_a_namespace(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a program as process 1 of a namespace of its own."""
    return subprocess.run(
        ["unshare", "--user", "--map-root-user", "--pid", "--fork", *command],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def namespaces() -> bool:
    return shutil.which("unshare") is not None and in_a_namespace("true").returncode == 0


@pytest.mark.skipif(not namespaces(), reason="process namespaces are not allowed here")
@pytest.mark.parametrize("thread", ["main", "another"])
def test_B379_a_fault_ends_process_1(thread: str) -> None:
    p = in_a_namespace(
        sys.executable,
        "-c",
        f"""
import ctypes, os, threading
from handoff import _core
assert os.getpid() == 1
assert _core._selftest("go") in (True, False)
print("running", flush=True)
fault = lambda: ctypes.string_at(8)
if {thread == "another"}:
    t = threading.Thread(target=fault)
    t.start()
    t.join()
else:
    fault()
print("survived", flush=True)
""",
    )
    assert p.stdout == "running\n"
    assert p.returncode in (-signal.SIGSEGV, 128 + signal.SIGSEGV, 2), (p.returncode, p.stderr)
