"""Every driver call of a Python call with arrays of a GPU fails once: B140, B279. On the software device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GPU = Path(__file__).resolve().parents[2] / "tests" / "gpu"

PROGRAM = """
import sys
sys.path.insert(0, {gpu!r})
import testmod, handoff
from faultwalk import Walk
device = handoff.Device(0)
a, b = device.create_stream(), device.create_stream()
buffer = device.allocate(64, stream=a)
other = device.allocate(64, stream=a, kind="pinned")

def view(which=buffer):
    return handoff.StridedMemoryView.from_buffer(which, (16,), dtype="float32")

class Producer:
    def __dlpack__(self, **kw):
        return view().__dlpack__(**kw)
    def __dlpack_device__(self):
        return (2, 0)

class Interface:
    @property
    def __cuda_array_interface__(self):
        return dict(view().__cuda_array_interface__, stream=a.handle)

def by_view():
    buffer.fill(1, stream=a)
    assert testmod.on_stream(view(), stream=b)[0] == b.handle

def by_dlpack():
    buffer.fill(1, stream=a)
    testmod.on_stream(Producer(), stream=b)

def by_cai():
    buffer.fill(1, stream=a)
    testmod.on_stream(Interface(), stream=handoff.StreamView(b.handle))

def by_raw_handle():
    testmod.on_stream(view(), stream=b.handle)

def many():
    buffer.fill(1, stream=a)
    testmod.on_stream(view(), Producer(), view(other), Interface(), stream=b)

w = Walk([buffer, other, a, b])
for f in (by_view, by_dlpack, by_cai, by_raw_handle, many):
    # A producer whose own stream cannot be asked whether it is idle names it in the interface.
    w.walk(f.__name__, f, frozenset(("cuStreamGetCtx", "cuCtxGetDevice")) if f in (by_cai, many) else frozenset())
assert w.failed > 300 and len(w.apis) > 8, str(w)
print(w)
"""


def test_fault_walk(run: Any) -> None:
    p = run(PROGRAM.format(gpu=str(GPU)), HANDOFF_DRIVER="soft", timeout=120)
    assert p.returncode == 0, p.stdout + p.stderr
    assert "fault walk: " in p.stdout
    print(p.stdout)
