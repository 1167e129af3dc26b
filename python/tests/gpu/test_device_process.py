"""The life of a process that uses a device: shutdown, exit, fork, threads, signals, collectors.

Each test is a program of its own with a limit: see ../limit.py. ../test_process.py has what needs no driver.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import limit
import pytest

HEAD = """
import atexit, gc, os, signal, sys, threading, time
import handoff
from handoff import Array, Device, StridedMemoryView
d = Device(0); s = d.create_stream(); q = d.create_stream()
N = 1 << 16
b = d.allocate(N, stream=s)
b.fill(3, stream=s)
v = StridedMemoryView.from_buffer(b, (N,), dtype="uint8")
def copied(view, stream):
    host = Array.zeros((N,), "uint8")
    view.copy_to(host, stream)
    stream.sync()
    return set(host.tolist())
"""


def program(code: str, *, timeout: float = 60, status: int = 0, out: str = "end\n", **env: str) -> None:
    """The program prints out, nothing else, and ends with status."""
    p = limit.run([sys.executable, "-X", "faulthandler", "-c", HEAD + code], timeout=timeout, env=os.environ | env)
    assert (p.returncode, p.stdout, p.stderr) == (status, out, "")


SHUTDOWN = {
    "everything is alive": "",
    "objects in other modules": """
sys.keep = [d, s, q, b, v, s.record(), v.__dlpack__(stream=q.handle, max_version=(1, 0))]
""",
    "the modules are gone first": """
c = v.__dlpack__(stream=q.handle, max_version=(1, 0))
for name in [n for n in sys.modules if n.startswith("handoff")]: del sys.modules[name]
del handoff
gc.collect()
assert copied(v, s) == {3}
""",
    "an exit handler": """
def late():
    b.fill(4, stream=s)
    assert copied(v, s) == {4}
atexit.register(late)
""",
    "finalizers": """
class Late:
    def __del__(self, b=b, s=s, d=d):
        b.fill(1, stream=s); s.record().sync(); d.allocate(64, stream=s).close(); s.sync()
x, y = Late(), Late()
x.other, y.other = y, x
sys.late = Late()
""",
    "a release that is held back": """
w = StridedMemoryView.from_any_interface(v, q)
w.release_on(q)
del v, b
""",
    "daemon threads at work": """
def work():
    while True:
        x = d.allocate(4096, stream=s); x.fill(1, stream=s)
        StridedMemoryView.from_buffer(x, (4096,), dtype="uint8").copy_to(Array.zeros((4096,), "uint8"), s)
        s.sync(); x.close()
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
    "a stream that waits": """
key = handoff._core._gate(s)
q.wait(s)
b.fill(5, stream=q)
atexit.register(handoff._core._gate_open, key)
""",
}


@pytest.mark.parametrize("gogc", ["100", "1"])
@pytest.mark.parametrize("order", SHUTDOWN)
def test_B122_B183_B189_shutdown_with_a_device(order: str, gogc: str) -> None:
    program(SHUTDOWN[order] + "\nprint('end', flush=True)\n", GOGC=gogc)


def test_B122_os_exit_with_a_device() -> None:
    program(
        """
def work():
    while True:
        x = d.allocate(4096, stream=s); x.fill(1, stream=s); x.close()
for _ in range(4): threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("end", flush=True)
os._exit(7)
""",
        status=7,
    )


def test_B315_B317_fork_with_a_device() -> None:
    """In the child every call that needs Go or the driver says why, closing is no error, and it ends."""
    program(
        """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork beside threads, as the driver's are
assert copied(v, s) == {3}
for how in ("os._exit", "sys.exit"):
    pid = os.fork()
    if pid == 0:
        wrong = []
        for f in (
            lambda: b.fill(1, stream=s), s.sync, lambda: d.allocate(64, stream=s), lambda: Device(1).name,
            d.create_stream, s.record, lambda: v.copy_to(Array.zeros((N,), "uint8"), s), lambda: q.wait(s),
            lambda: v.__dlpack__(stream=q.handle, max_version=(1, 0)),
        ):
            try: wrong.append(f())
            except handoff.ForkError: pass
        b.close(); s.close()
        os._exit(len(wrong)) if how == "os._exit" else sys.exit(len(wrong))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, how
assert copied(v, s) == {3}
print("end")
"""
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_B319_workers_with_a_device(method: str, tmp_path: Any) -> None:
    """A pool whose parent has used the device: fresh workers use it too, forked ones are told."""
    script = tmp_path / "workers.py"
    script.write_text(
        """
import multiprocessing, sys, warnings
import handoff
from handoff import Array, Device, StridedMemoryView
warnings.simplefilter("ignore")
def work(n):
    try:
        s = Device(0).create_stream()
        b = Device(0).allocate(64, stream=s)
        b.fill(n, stream=s)
        host = Array.zeros((64,), "uint8")
        StridedMemoryView.from_buffer(b, (64,), dtype="uint8").copy_to(host, s)
        s.sync()
        return sum(host.tolist())
    except handoff.ForkError:
        return 64 * n if sys.argv[1] == "fork" else "refused"
if __name__ == "__main__":
    assert Device(0).create_stream().handle
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(work, [1, 2, 3]) == [64, 128, 192]
"""
    )
    p = limit.run([sys.executable, script, method], timeout=90)
    assert p.returncode == 0, p.stderr


def test_threads_that_come_and_go_with_a_device() -> None:
    """A thousand threads, each with a stream and memory of its own; nothing of them stays."""
    program(
        """
def work():
    t = d.create_stream(); x = d.allocate(64, stream=t)
    x.fill(1, stream=t); q.wait(t); t.sync(); x.close(); t.close()
def threads(): return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("Threads"))
def waves(n):
    for _ in range(n):
        some = [threading.Thread(target=work) for _ in range(50)]
        for t in some: t.start()
        for t in some: t.join()
waves(5)
before = threads()
waves(15)
assert threads() <= before + 60, (before, threads())   # Go keeps threads, but one of a few, not of a thousand
print("end")
""",
        timeout=120,
    )


@pytest.mark.parametrize("timer", ["ITIMER_REAL SIGALRM", "ITIMER_PROF SIGPROF"])
def test_B383_signal_storm_with_a_device(timer: str) -> None:
    program(
        f"""
timer, name = {timer!r}.split()
seen = 0
def handler(*_):
    global seen
    seen += 1
signal.signal(getattr(signal, name), handler)
signal.setitimer(getattr(signal, timer), 0.001, 0.001)
rounds = 0
while rounds < 100 or seen < 100:
    rounds += 1
    q.wait(s); b.fill(7, stream=q); s.wait(q)
    assert copied(v, s) == {{7}}
signal.setitimer(getattr(signal, timer), 0)
print("end")
"""
    )


@pytest.mark.parametrize("debug", ["", "clobberfree=1"])
def test_B353_collectors_with_a_device(debug: str) -> None:
    """GOGC=1 and gc.collect() in a loop, while memory, views, capsules and events come and go."""
    program(
        """
stop = []
def collect():
    while not stop: gc.collect()
collector = threading.Thread(target=collect); collector.start()
try:
    for i in range(200):
        x = d.allocate(N, stream=s); x.fill(i % 256, stream=s)
        w = StridedMemoryView.from_any_interface(StridedMemoryView.from_buffer(x, (N,), dtype="uint8"), s)
        c = w.__dlpack__(stream=q.handle, max_version=(1, 0))
        e = q.record(); del x
        if i % 20 == 0: assert copied(w, s) == {i % 256}
        del w, c, e
finally:
    stop.append(1); collector.join()
print("end")
""",
        timeout=120,
        GOGC="1",
        GODEBUG=debug,
    )
