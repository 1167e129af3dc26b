"""The process: shutdown, fork, signals, threads, interpreters (child processes with limits: see limit.py)."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import limit
import pytest
from capsules import DELETER, DLManagedTensorVersioned, Managed, name_of, pointer_of

import handoff
from handoff import Array, StridedMemoryView, _core


def wait(condition: Any, seconds: float = 20) -> None:
    """Let other threads run until condition() holds; fail after the time limit."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "time limit"
        gc.collect()


def test_R063_R064_B121_deleter_without_the_gil_on_a_foreign_thread() -> None:
    # CDLL-style calls of ctypes give the GIL up: the deleter runs without it.
    np = pytest.importorskip("numpy")
    source = np.arange(4)
    before = sys.getrefcount(source)
    views = [StridedMemoryView.from_array_interface(source) for _ in range(8)]
    capsules = [v.__dlpack__(max_version=(1, 0)) for v in views]
    del views
    tensors = []
    for c in capsules:
        address = pointer_of(c)
        tensors.append((DLManagedTensorVersioned.from_address(address).deleter, address))
        name = ctypes.c_char_p(b"used_dltensor_versioned")
        tensors[-1] += (name,)
        ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(c), name)
    del capsules, c
    gc.collect()
    assert sys.getrefcount(source) == before + 8

    def delete() -> None:
        for deleter, address, _ in tensors[:4]:
            DELETER(deleter)(address)

    t = threading.Thread(target=delete)
    t.start()
    t.join(20)
    for deleter, address, _ in tensors[4:]:
        DELETER(deleter)(address)
    wait(lambda: sys.getrefcount(source) == before)
    assert _core._stats()["pending_releases"] == 0


def test_R064_foreign_deleter_is_called_with_the_gil() -> None:
    m = Managed()
    v = StridedMemoryView.from_dlpack(m.capsule())
    c = v.__dlpack__(max_version=(1, 0))
    address = pointer_of(c)
    deleter = DLManagedTensorVersioned.from_address(address).deleter
    name = ctypes.c_char_p(b"used_dltensor_versioned")
    ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(c), name)
    del v
    assert name_of(c) == name.value
    assert m.deleted == 0
    DELETER(deleter)(address)
    wait(lambda: m.deleted == 1)


def test_R065_B122_live_objects_at_shutdown(run: Any) -> None:
    p = run("""
import atexit, gc, sys, threading, handoff
from handoff import Array, StridedMemoryView
try:
    import numpy as np
except ImportError:
    np = None
keep = [Array.zeros(100) for _ in range(10)]
keep += [a.__dlpack__(max_version=(1, 0)) for a in keep]
keep += [StridedMemoryView.from_dlpack(a) for a in keep[:10]]
keep.append(keep)
if np is not None:
    keep += [np.from_dlpack(keep[0]), memoryview(keep[1]), StridedMemoryView.from_dlpack(np.zeros(3))]
sys.keep = keep
class Late:
    def __del__(self):
        StridedMemoryView.from_dlpack(Array.zeros(2)).__dlpack__(max_version=(1, 0))
sys.late = Late()
atexit.register(keep.clear)
print("end")
""")
    assert p.stdout == "end\n"
    assert p.stderr == ""


def test_R065_B122_deleter_after_finalization(run: Any) -> None:
    # libc calls the deleter from an exit handler, when Python is gone.
    p = run("""
import ctypes, sys
from ctypes import c_void_p
from handoff import StridedMemoryView
v = StridedMemoryView.from_buffer(bytearray(8), (8,), dtype="uint8")
c = v.__dlpack__(max_version=(1, 0))
get = ctypes.pythonapi.PyCapsule_GetPointer
get.restype, get.argtypes = c_void_p, [ctypes.py_object, ctypes.c_char_p]
address = get(c, b"dltensor_versioned")
deleter = c_void_p.from_address(address + 16).value
name = ctypes.create_string_buffer(b"used_dltensor_versioned")
ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(c), name)
libc = ctypes.CDLL(None)
try:
    register = libc.__cxa_atexit
except AttributeError:
    sys.exit("no __cxa_atexit")
register.argtypes = [c_void_p, c_void_p, c_void_p]
assert register(deleter, address, None) == 0
print("end")
""")
    assert p.stdout == "end\n"


def test_B189_threads_that_release_during_shutdown(run: Any) -> None:
    run(
        """
import ctypes, sys, threading
from handoff import Array, StridedMemoryView
import time
stop = []
def work():
    while True:
        v = StridedMemoryView.from_buffer(bytearray(64), (64,), dtype="uint8")
        v.__dlpack__(max_version=(1, 0))
        StridedMemoryView.from_dlpack(v.__dlpack__(max_version=(1, 0)))
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
""",
        timeout=60,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_B315_B317_fork(run: Any) -> None:
    # In the child everything but Go works, and Go says so at once.
    p = run(
        """
import os, sys, warnings
warnings.simplefilter("ignore")
import handoff
from handoff import Array, StridedMemoryView, _core
a = Array.full((2, 3), 1, "int32")
v = StridedMemoryView.from_dlpack(a)
big = Array.full((700, 700), 2.0)
assert _core._selftest("go") in (True, False)
pid = os.fork()
if pid == 0:
    try:
        assert memoryview(v).tolist() == [[1, 1, 1], [1, 1, 1]]
        w = StridedMemoryView.from_dlpack(v.__dlpack__(max_version=(1, 0)))
        assert handoff.from_dlpack(w, copy=True).shape == (2, 3)
        StridedMemoryView.from_dlpack(Array.zeros((700, 700))).copy_from(big)   # no Go here: C copies
        del w
        b = Array.zeros(4); b[1] = 3; assert b.tolist() == [0, 3, 0, 0]
        try:
            _core._selftest("go")
        except handoff.ForkError as e:
            assert isinstance(e, RuntimeError) and "fork" in str(e)
        else:
            os._exit(3)
        os._exit(0)
    except BaseException as e:
        print(repr(e), flush=True)
        os._exit(4)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
assert _core._selftest("go") in (True, False)
""",
        timeout=60,
    )
    assert p.stdout == ""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_B319_multiprocessing(method: str, tmp_path: Any) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        """
import multiprocessing, sys, warnings
warnings.simplefilter("ignore")
from handoff import Array
def work(n):
    return sum(Array.full(n, 1, "int32").tolist())
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        assert pool.map(work, [1, 2, 3]) == [1, 2, 3]
"""
    )
    p = limit.run([sys.executable, script, method], timeout=90)
    assert p.returncode == 0, p.stderr


def test_B321_import_in_forked_children(run: Any) -> None:
    run(
        """
import os
for _ in range(2):
    if os.fork() == 0:
        from handoff import Array, _core
        assert Array.full(2, 1).tolist() == [1, 1]
        assert _core._selftest("go") in (True, False)
        os._exit(0)
for _ in range(2):
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""
    )


@pytest.mark.parametrize("where", ["before", "after"])
def test_B377_keyboard_interrupt(where: str) -> None:
    code = f"""
import sys
{"import handoff" if where == "after" else ""}
import time
{"import handoff" if where == "before" else ""}
a = handoff.Array.zeros(1000)
try:
    print("ready", flush=True)
    while True:
        a[::-1].tolist()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    assert interrupted(code, lambda p: p.send_signal(signal.SIGINT)) == ("interrupted\n", 0)


def interrupted(code: str, interrupt: Callable[[subprocess.Popen[str]], None]) -> tuple[str, int]:
    """What a program says after "ready", when it is interrupted, and its status."""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout is not None
            assert p.stdout.readline() == "ready\n"
            interrupt(p)
            return p.communicate(timeout=60)[0], p.returncode
        finally:
            p.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="sends a signal to a thread by its number")
def test_B377_keyboard_interrupt_on_a_thread_of_go() -> None:
    """The kernel gives a signal to any thread, and the loop of Python before 3.13 sees it from its own only."""
    code = """
import handoff
handoff.Array.zeros(3)
try:
    print("ready", flush=True)
    while True: pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

    def a_thread_of_go(p: subprocess.Popen[str]) -> None:
        others = [int(t) for t in os.listdir(f"/proc/{p.pid}/task") if int(t) != p.pid]
        assert ctypes.CDLL(None).tgkill(p.pid, others[-1], signal.SIGINT) == 0

    assert interrupted(code, a_thread_of_go) == ("interrupted\n", 0)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: elsewhere nothing is sent on")
def test_B377_keyboard_interrupt_blocked_in_the_main_thread() -> None:
    """It is not sent on to a thread that blocks it, where it would wait."""
    code = """
import signal, threading, time, handoff
handoff.Array.zeros(3)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    print("ready", flush=True)
    while True: time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    assert interrupted(code, lambda p: p.send_signal(signal.SIGINT)) == ("interrupted\n", 0)


def test_B386_subinterpreter(run: Any) -> None:
    code = """
import sys
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    try:
        import _interpreters as interpreters
    except ImportError:
        print("refused"); raise SystemExit
import handoff
i = interpreters.create()
r = None
try:
    r = interpreters.run_string(i, '''
try:
    import handoff._core
except ImportError as e:
    print("refused", e)
else:
    print("imported")
''')
except Exception as e:
    print("refused", e)
"""
    p = run(code)
    assert p.stdout.startswith("refused"), p.stdout + p.stderr
    if "B386" not in p.stdout and p.stdout != "refused\n":
        assert "subinterpreter" in p.stdout or "interpreter" in p.stdout


def test_B361_second_go_runtime_is_refused(run: Any) -> None:
    # Another object has claimed the process before.
    p = run(
        """
import sys
sys._handoff_go_runtime = "/somewhere/else.abi3.so"
try:
    import handoff
except ImportError as e:
    print(e)
"""
    )
    assert "/somewhere/else.abi3.so already runs Go in this process" in p.stdout
    assert "one Go runtime per process (B361)" in p.stdout


def test_B385_free_threaded_and_debug_builds(run: Any) -> None:
    for abi, word in (("t", "free-threaded"), ("d", "debug")):
        p = run(f"import sys\nsys.abiflags = {abi!r}\ntry:\n  import handoff\nexcept ImportError as e:\n  print(e)")
        assert word in p.stdout


def test_B366_libpython_is_not_linked() -> None:
    path = _core.__file__
    out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True)
    if out.returncode != 0:
        pytest.skip("readelf is not installed")
    needed = [line for line in out.stdout.splitlines() if "NEEDED" in line]
    assert needed
    assert not any("python" in line for line in needed)


def test_B179_panic_in_go_is_an_exception() -> None:
    if _core._selftest("go") is False:
        pytest.skip("built without Go")
    for _ in range(3):
        with pytest.raises(handoff.GoPanic, match="self-test") as info:
            _core._selftest("panic")
        assert "goroutine" in str(info.value), "the message has the Go stack"
        assert isinstance(info.value, RuntimeError)
    assert _core._selftest("go") is True


def test_threads_share_objects() -> None:
    a = Array.full((100, 100), 1, "int32")
    errors = []

    def work() -> None:
        try:
            for _ in range(300):
                v = StridedMemoryView.from_dlpack(a)
                assert memoryview(v).nbytes == 40000
                StridedMemoryView.from_dlpack(v.__dlpack__(max_version=(1, 0)))
                Array.copy_of(a[::2, ::-1])
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not errors


SHUTDOWN = {
    "objects in other modules": """
import builtins, sys, handoff
builtins.keep = [handoff.Array.zeros(3), handoff.StridedMemoryView.from_dlpack(handoff.Array.zeros(4))]
sys.keep = memoryview(builtins.keep[0]), builtins.keep[0].__dlpack__(max_version=(1, 0))
""",
    "the modules are gone first": """
import gc, sys, handoff
a = handoff.Array.full(3, 1, "int32"); v = handoff.StridedMemoryView.from_dlpack(a); c = v.__dlpack__()
for name in [n for n in sys.modules if n.startswith("handoff")]: del sys.modules[name]
del handoff, a
gc.collect()
assert memoryview(v).tolist() == [1, 1, 1]
""",
    "exit handlers before and after": """
import atexit
def late():
    import handoff
    a = handoff.Array.full(4, 2, "int32")
    assert memoryview(handoff.from_dlpack(a, copy=True)).tolist() == [2, 2, 2, 2]
    print("late")
atexit.register(late)
import handoff
atexit.register(late)
""",
    "finalizers": """
import sys, weakref, handoff
class Late:
    def __del__(self, make=handoff.Array.full, view=handoff.StridedMemoryView.from_dlpack):
        assert view(make(3, 1, "int32")).shape == (3,)
a, b = Late(), Late()
a.other, b.other = b, a
sys.late = Late()
class Thing(bytearray): pass
thing = Thing(8)
weakref.finalize(thing, handoff.Array.zeros, 3)
v = handoff.StridedMemoryView.from_buffer(thing, (8,), dtype="uint8")
""",
    "a foreign producer whose deleter comes last": """
import ctypes, sys, handoff
class Producer(bytearray):
    def __del__(self): pass
sys.views = [handoff.StridedMemoryView.from_buffer(Producer(64), (64,), dtype="uint8") for _ in range(10)]
sys.capsules = [v.__dlpack__(max_version=(1, 0)) for v in sys.views]
del sys.views
""",
}


@pytest.mark.parametrize("order", SHUTDOWN)
def test_B122_B183_shutdown_orders(run: Any, order: str) -> None:
    p = run(SHUTDOWN[order] + "\nprint('end', flush=True)\n")
    assert p.stdout == "end\n" + ("late\nlate\n" if "exit handlers" in order else "")
    assert p.stderr == ""


def test_B122_os_exit(run: Any) -> None:
    p = run(
        """
import os, threading, time
from handoff import Array, StridedMemoryView
keep = [StridedMemoryView.from_dlpack(Array.zeros(100)) for _ in range(10)]
def work():
    while True: Array.copy_of(Array.zeros((100, 100))[::2])
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("end", flush=True)
os._exit(7)
""",
        check=False,
    )
    assert (p.stdout, p.returncode) == ("end\n", 7)


def test_threads_that_come_and_go(run: Any) -> None:
    # Releases without the GIL start a thread once, not once a thread.
    run(
        """
import threading, time
from handoff import Array, StridedMemoryView, _core
def status(key): return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(key))
def work():
    v = StridedMemoryView.from_buffer(bytearray(64), (64,), dtype="uint8")
    StridedMemoryView.from_dlpack(v.__dlpack__(max_version=(1, 0)))
    Array.copy_of(Array.zeros((8, 8))[::2])
def wave(n):
    for _ in range(0, n, 50):
        threads = [threading.Thread(target=work) for _ in range(50)]
        for t in threads: t.start()
        for t in threads: t.join()
wave(500)
memory, threads = status("VmRSS"), status("Threads")
wave(2000)
end = time.monotonic() + 60  # a thread that was joined may still be there for a moment
while status("Threads") > threads + 4: assert time.monotonic() < end, (threads, status("Threads"))
assert status("VmRSS") < memory + 20_000, (memory, status("VmRSS"))
assert _core._stats()["live_exports"] == 0
""",
        timeout=120,
    )


@pytest.mark.parametrize("timer", ["ITIMER_REAL SIGALRM", "ITIMER_PROF SIGPROF"])
def test_B383_signal_storm(run: Any, timer: str) -> None:
    p = run(
        f"""
import signal, time
from handoff import Array, StridedMemoryView
timer, name = {timer!r}.split()
seen = 0
def handler(*_):
    global seen
    seen += 1
signal.signal(getattr(signal, name), handler)
signal.setitimer(getattr(signal, timer), 0.001, 0.001)
a = Array.full((300, 300), 1.0)
rounds = 0
while rounds < 2000 or seen < 200:
    rounds += 1
    assert StridedMemoryView.from_dlpack(Array.copy_of(a[::-1, ::2])).shape == (300, 150)
signal.setitimer(getattr(signal, timer), 0)
print("end")
"""
    )
    assert p.stdout == "end\n"


def test_B353_collectors_under_pressure(monkeypatch: Any, run: Any) -> None:
    monkeypatch.setenv("GOGC", "1")
    run(
        """
import gc, threading, weakref
from handoff import Array, StridedMemoryView, _core
gc.set_threshold(1)
class Source(bytearray): pass
stop = []
def collect():
    while not stop: gc.collect()
t = threading.Thread(target=collect); t.start()
for i in range(300):
    source = Source(64); gone = weakref.ref(source)
    v = StridedMemoryView.from_buffer(source, (64,), dtype="uint8"); del source
    c = v.__dlpack__(max_version=(1, 0)); del v
    w = StridedMemoryView.from_dlpack(c); del c
    assert memoryview(w).nbytes == 64 and gone() is not None
    big = Array.copy_of(Array.full((300, 300), 2.0)[::2])
    assert big[149, 299] == 2.0
    cycle = [w, big]; cycle.append(cycle); del w, big, cycle
stop.append(1); t.join()
gc.collect()
assert gone() is None
assert _core._stats()["live_exports"] == 0
""",
        timeout=120,
    )
