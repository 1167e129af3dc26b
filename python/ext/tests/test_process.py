"""The life of a process that holds Go: workers, shutdown, threads, signals, debuggers, collectors, stacks.

Each test is a program of its own with a limit: see limit.py in python/tests.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def ended(done: subprocess.CompletedProcess[str], out: str, code: int = 0) -> None:
    """The program printed out, and nothing else, and ended with code."""
    assert done.stdout == out, done.stderr
    assert done.returncode == code, done.stderr
    assert "Fatal" not in done.stderr
    assert "SIG" not in done.stderr


# --- Workers ---------------------------------------------------------------

# As a data loader of PyTorch has it: workers take indices from a queue, put
# samples into shared memory, and the parent, which has used Go before, uses
# Go on what arrives.
LOADER = """
import multiprocessing, os, sys
from multiprocessing import shared_memory
import numpy as np

def worker(indices, samples, use_go):
    import testmod
    while (i := indices.get()) is not None:
        block = shared_memory.SharedMemory(create=True, size=8 * 1000)
        np.ndarray(1000, buffer=block.buf)[:] = i
        said = ""
        if use_go:
            try:
                said = testmod.total(np.ndarray(1000, buffer=block.buf))
            except RuntimeError as e:
                said = "refused" if "fork" in str(e) else repr(e)
        samples.put((i, block.name, said))
        block.close()
    samples.put(None)

def main(method, use_go):
    import testmod
    assert testmod.total(np.ones(3)) == 3
    keep = testmod.arange(10)
    context = multiprocessing.get_context(method)
    indices, samples = context.Queue(), context.Queue()
    workers = [context.Process(target=worker, args=(indices, samples, use_go)) for _ in range(2)]
    for w in workers: w.start()
    for i in range(20): indices.put(i)
    for _ in workers: indices.put(None)
    totals, said, open_ends = {}, set(), len(workers)
    while open_ends:
        got = samples.get(timeout=60)
        if got is None:
            open_ends -= 1
            continue
        i, name, answer = got
        block = shared_memory.SharedMemory(name)
        x = np.ndarray(1000, buffer=block.buf)
        totals[i] = testmod.total(x)
        said.add("number" if answer == i * 1000 else answer)
        del x
        block.close(); block.unlink()
    for w in workers:
        w.join(60)
        assert w.exitcode == 0, w.exitcode
    assert totals == {i: i * 1000 for i in range(20)}, totals
    print(sorted(said), len(keep.tolist()))

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "go")
"""


@pytest.mark.parametrize(
    ("method", "use_go", "said"),
    [
        ("spawn", "go", ["number"]),
        ("forkserver", "go", ["number"]),
        ("fork", "no", [""]),
        ("fork", "go", ["refused"]),
    ],
)
def test_B319_data_loader(run: Run, tmp_path: Path, method: str, use_go: str, said: list[str]) -> None:
    """Workers of every start method; in forked ones Go is refused, the rest works, and they end."""
    script = tmp_path / "loader.py"
    script.write_text(LOADER)
    done = run(
        f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, {str(script)!r}, {method!r}, {use_go!r}]))",
        timeout=120,
    )
    assert done.stdout == f"{said} 10\n", done.stderr
    assert done.returncode == 0


def test_B315_fork_while_go_is_busy(run: Run) -> None:
    """Forks of a process whose other threads are inside Go; each child exits in its own way."""
    done = run(
        "import os, sys, threading, testmod, numpy as np\n"
        "x = np.arange(100.0); stop = []\n"
        "def spin():\n"
        "    while not stop: testmod.total(x); testmod.arange(10); testmod.gc()\n"
        "threads = [threading.Thread(target=spin) for _ in range(3)]\n"
        "for t in threads: t.start()\n"
        "for i in range(20):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        try: testmod.total(x)\n"
        "        except RuntimeError: pass\n"
        "        else: os._exit(1)\n"
        "        os._exit(0) if i % 2 else os.execv(sys.executable, [sys.executable, '-c', ''])\n"
        "    assert os.waitpid(pid, 0)[1] == 0\n"
        "stop.append(1)\n"
        "for t in threads: t.join()\n"
        "print('end', testmod.total(x))\n",
        timeout=120,
    )
    ended(done, "end 4950.0\n")


# --- Shutdown --------------------------------------------------------------

SHUTDOWN = {
    "results and arguments in other modules": """
import builtins, sys, testmod, numpy as np
builtins.keep = [testmod.arange(5), testmod.matrix(2, 2), np.from_dlpack(testmod.arange(3))]
sys.keep = memoryview(testmod.arange(4))
x = np.arange(3.0); testmod.retain(x); testmod.stash(x); testmod.keep([x])
""",
    "the module is gone before its results": """
import gc, sys, testmod, numpy as np
a = testmod.arange(5); b = np.from_dlpack(a); f = testmod.total
del sys.modules["testmod"], sys.modules["handoff._core"], testmod, a
gc.collect()
assert f(b) == 10
""",
    "exit handlers before and after": """
import atexit
def late():
    import testmod
    assert testmod.total(testmod.arange(4)) == 6
    try: testmod.call(lambda: 1 / 0)
    except ZeroDivisionError: print("late")
atexit.register(late)
import testmod
atexit.register(late)
""",
    "an exit handler that raises": """
import atexit, sys, testmod
sys.stderr = sys.__stderr__ = open("/dev/null", "w")
atexit.register(testmod.panics, "index")
atexit.register(testmod.fails, "value")
keep = testmod.arange(3)
""",
    "finalizers that call Go": """
import sys, weakref, testmod, numpy as np
class Late:
    def __del__(self, total=testmod.total, arange=testmod.arange, call=testmod.call):
        assert call(lambda: total(arange(3))) == 3
a, b = Late(), Late()
a.other, b.other = b, a         # a cycle, for the last collection
sys.late = Late()
class Thing: pass
thing = Thing()
weakref.finalize(thing, testmod.total, np.arange(2.0))
""",
    "Go collects while Python ends": """
import threading, testmod, numpy as np
def collect():
    while True: testmod.gc()
threading.Thread(target=collect, daemon=True).start()
for i in range(200):
    testmod.keep(object())      # the one before is dropped by Go's collector
    testmod.retain(np.arange(3.0)); testmod.release()
keep = [testmod.arange(3) for _ in range(100)]
""",
    "goroutines call Python while it ends": """
import threading, time, testmod
seen = []
def spin():
    while True: testmod.call_many(seen.append, 20)
for _ in range(3): threading.Thread(target=spin, daemon=True).start()
while len(seen) < 100: time.sleep(0.001)
""",
    "threads wait in Go": """
import threading, time, testmod
for _ in range(20):
    threading.Thread(target=testmod.wait, args=(60.0,), daemon=True).start()
    threading.Thread(target=testmod.rendezvous, args=(100,), daemon=True).start()
while testmod.goroutines() < 20: time.sleep(0.001)
""",
    "threads that are no daemons end first": """
import threading, testmod
done = []
def work():
    for _ in range(50): done.append(testmod.wait(0.001))
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
import atexit
atexit.register(lambda: print(len(done)))
""",
    "sys.exit in a thread, an exception in another": """
import sys, threading, testmod
sys.stderr = open("/dev/null", "w")
threading.excepthook = lambda *_: None
a = threading.Thread(target=lambda: (testmod.wait(0.01), sys.exit(3)))
b = threading.Thread(target=lambda: testmod.panics("in a thread"))
a.start(); b.start(); a.join(); b.join()
""",
}


@pytest.mark.parametrize("order", SHUTDOWN)
def test_B122_B183_B189_shutdown(run: Run, order: str) -> None:
    """The interpreter ends in whatever order; the exit status is 0 and nothing is said."""
    done = run(SHUTDOWN[order] + "\nprint('end', flush=True)\n", timeout=60)
    said = {
        "exit handlers before and after": "late\nlate\n",
        "threads that are no daemons end first": "200\n",
    }.get(order, "")
    ended(done, "end\n" + said)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "how", ["os._exit(7)", "os.kill(os.getpid(), 15)", "os.abort()", "os.execv('/bin/false', ['false'])"]
)
def test_B122_ends_without_shutdown(run: Run, how: str) -> None:
    """The process ends at once, with threads inside Go and objects alive on both sides."""
    done = run(
        "import os, faulthandler, threading, testmod, numpy as np\n"
        "faulthandler.disable()\n"
        "keep = [testmod.arange(5), np.from_dlpack(testmod.arange(3))]\n"
        "x = np.arange(3.0); testmod.retain(x)\n"
        "for _ in range(4): threading.Thread(target=testmod.wait, args=(60.0,), daemon=True).start()\n"
        "print('end', flush=True)\n" + how,
        timeout=30,
    )
    code = {"os._exit(7)": 7, "os.kill(os.getpid(), 15)": -signal.SIGTERM, "os.abort()": -signal.SIGABRT}.get(how, 1)
    assert done.stdout == "end\n"
    if how == "os.abort()":  # Go's runtime says where its goroutines are, and passes it on
        assert done.returncode in (code, 2), done.stderr
    else:
        assert done.returncode == code, done.stderr


# --- Threads ---------------------------------------------------------------


def test_B329_threads_that_come_and_go(run: Run) -> None:
    """3,000 threads, each into Go, back into Python and out; none is left behind."""
    done = run(
        "import threading, time, testmod, numpy as np\n"
        "x = np.arange(8.0); seen = []\n"
        "def status(key):\n"
        "    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith(key))\n"
        "def work(i):\n"
        "    assert testmod.total(x) == 28\n"
        "    testmod.call(seen.append, i)\n"
        "    if i % 10 == 0: assert testmod.wait(0.0001) == 'waited'\n"
        "def wave(n):\n"
        "    for first in range(0, n, 50):\n"
        "        threads = [threading.Thread(target=work, args=(first + i,)) for i in range(50)]\n"
        "        for t in threads: t.start()\n"
        "        for t in threads: t.join()\n"
        "wave(1000)\n"
        "memory, threads = status('VmRSS'), status('Threads')\n"
        "wave(2000)\n"
        "assert len(seen) == 3000\n"
        "end = time.monotonic() + 60\n"
        "while status('Threads') > threads + 8: assert time.monotonic() < end, (threads, status('Threads'))\n"
        "assert status('VmRSS') < memory + 30_000, (memory, status('VmRSS'))\n"
        "while testmod.goroutines() >= 20: assert time.monotonic() < end, testmod.goroutines()\n"
        "print('end')\n",
        timeout=120,
    )
    ended(done, "end\n")


# --- Signals ---------------------------------------------------------------

STORM = """
import signal, threading, time, testmod, numpy as np
seen = 0
def handler(number, frame):
    global seen
    seen += 1
signal.signal(signal.{name}, handler)
signal.setitimer(signal.{timer}, 0.001, 0.001)
x = np.arange(1000.0); calls = 0
while calls < 300 or seen < 300:
    assert testmod.total(x) == 499500
    assert testmod.call(lambda: 3) == 3
    assert testmod.wait(0.002) == "waited"
    assert sum(np.from_dlpack(testmod.arange(10))) == 45
    calls += 1
signal.setitimer(signal.{timer}, 0)
print("end")
"""


@pytest.mark.parametrize(
    ("name", "timer"), [("SIGALRM", "ITIMER_REAL"), ("SIGPROF", "ITIMER_PROF"), ("SIGVTALRM", "ITIMER_VIRTUAL")]
)
def test_B383_signal_storm(run: Run, name: str, timer: str) -> None:
    """A handler of Python's runs every millisecond, also for the signal that profilers use."""
    ended(run(STORM.format(name=name, timer=timer)), "end\n")


def test_B377_child_processes_and_SIGCHLD(run: Run) -> None:
    """A SIGCHLD handler sees the children that end while the main thread is in Go."""
    done = run(
        "import signal, subprocess, sys, testmod\n"
        "ended = []\n"
        "signal.signal(signal.SIGCHLD, lambda *_: ended.append(1))\n"
        "children = [subprocess.Popen(['/bin/sleep', '0.05']) for _ in range(3)]\n"
        "for _ in range(200):\n"
        "    testmod.wait(0.01)\n"
        "    if all(c.poll() is not None for c in children) and ended: break\n"
        "assert [c.wait() for c in children] == [0, 0, 0] and ended\n"
        "print(subprocess.run(['/bin/echo', 'end'], capture_output=True, text=True).stdout, end='')\n"
    )
    ended(done, "end\n")


def test_B381_wakeup_fd_and_masks(run: Run) -> None:
    """The byte of a signal arrives at Python's wake-up pipe; a blocked signal stays pending for sigwait."""
    done = run(
        "import os, signal, socket, threading, testmod\n"
        "a, b = socket.socketpair(); a.setblocking(False); b.settimeout(10)\n"
        "signal.set_wakeup_fd(a.fileno()); signal.signal(signal.SIGUSR1, lambda *_: None)\n"
        "threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()\n"
        "testmod.wait(0.2)\n"
        "assert b.recv(1) == bytes([signal.SIGUSR1])\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n"
        "signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)\n"
        "testmod.total(testmod.arange(3)); testmod.wait(0.01)\n"
        "assert signal.sigtimedwait([signal.SIGUSR2], 10).si_signo == signal.SIGUSR2\n"
        "print('end')\n"
    )
    ended(done, "end\n")


def test_B377_interrupt_in_a_callback(run: Run) -> None:
    """Ctrl-C while Go waits for Python: the exception goes through Go and out."""
    done = run(
        "import os, signal, threading, time, testmod\n"
        "def slow():\n"
        "    while True: time.sleep(0.01)\n"
        "for call in (lambda: testmod.call(slow), lambda: testmod.call(lambda: testmod.call(slow))):\n"
        "    try:\n"
        "        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "        call()\n"
        "    except KeyboardInterrupt: print('interrupted')\n"
        "print(testmod.i(1))\n"
    )
    ended(done, "interrupted\ninterrupted\n1\n")


# --- Debuggers -------------------------------------------------------------


def test_trace_and_profile(run: Run) -> None:
    """sys.settrace follows Python through Go, and sys.setprofile sees Go's functions as calls of C."""
    done = run(
        "import sys, testmod\n"
        "lines, calls = [], []\n"
        "def inner(x):\n"
        "    y = x + 1\n"
        "    return y\n"
        "def trace(frame, event, arg):\n"
        "    if frame.f_code.co_name == 'inner': lines.append(event)\n"
        "    return trace\n"
        "sys.settrace(trace)\n"
        "r = testmod.call(inner, 1)\n"
        "sys.settrace(None)\n"
        "assert r == 2 and lines == ['call', 'line', 'line', 'return'], lines\n"
        "def profile(frame, event, arg):\n"
        "    if event.startswith('c_') and getattr(arg, '__name__', '') in ('i', 'fails'): calls.append(event)\n"
        "sys.setprofile(profile)\n"
        "testmod.i(1)\n"
        "try: testmod.fails('value')\n"
        "except ValueError: pass\n"
        "sys.setprofile(None)\n"
        "assert calls == ['c_call', 'c_return', 'c_call', 'c_exception'], calls\n"
        "def bad(frame, event, arg): raise LookupError('from the tracer')\n"
        "sys.settrace(bad)\n"
        "try: testmod.call(lambda: 1)\n"
        "except LookupError as e: print(e)\n"
        "sys.settrace(None)\n"
        "print(testmod.i(3))\n"
    )
    ended(done, "from the tracer\n3\n")


def test_pdb(run: Run, testmod_path: Path, tmp_path: Path) -> None:
    """The debugger stops in a callback, under Go, walks up to the caller, steps and goes on."""
    script = tmp_path / "debugged.py"
    script.write_text(
        "import testmod\n"
        "def inner(x):\n"
        "    y = x * 2\n"
        "    return y\n"
        "def outer():\n"
        "    return testmod.call(inner, 21)\n"
        "print(outer())\n"
    )
    commands = "break 3\ncontinue\nnext\np y\nup\np __name__\nwhere\nclear 1\ncontinue\nquit\n"
    done = run(
        "import subprocess, sys\n"
        f"p = subprocess.run([sys.executable, '-m', 'pdb', {str(script)!r}], input={commands!r},\n"
        "                   text=True, capture_output=True, timeout=50)\n"
        "print(p.stdout); print(p.stderr, file=sys.stderr)\n"
    )
    assert "-> y = x * 2" in done.stdout, done.stdout + done.stderr
    assert "(Pdb) 42" in done.stdout
    assert "debugged.py(6)outer()" in done.stdout
    assert "\n42\n" in done.stdout or "(Pdb) 42\nThe program finished" in done.stdout


def test_faulthandler(run: Run) -> None:
    """Tracebacks of a hanging call in Go show the Python caller; a real fault ends the process with one."""
    done = run(
        "import faulthandler, sys, testmod\n"
        "def caller(): return testmod.wait(2.0)\n"
        "faulthandler.dump_traceback_later(0.2, repeat=True, file=sys.stdout)\n"
        "caller()\n"
        "faulthandler.cancel_dump_traceback_later()\n"
        "print('end')\n"
    )
    assert "in caller" in done.stdout, done.stderr
    assert done.stdout.endswith("end\n")
    for early in ("", "import testmod\n"):  # Python's handler below Go's, and above it
        done = run(
            early + "import faulthandler\nfaulthandler.enable()\nimport testmod\n"
            "testmod.i(1)\n"
            "def caller(): faulthandler._sigsegv()\n"
            "caller()\n",
            timeout=30,
        )
        assert done.returncode != 0
        assert done.returncode in (-signal.SIGSEGV, -signal.SIGABRT, 2), (done.returncode, done.stderr)
        assert "in caller" in done.stderr, done.stderr


# --- Many modules ----------------------------------------------------------


def test_B364_many_modules(run: Run, testmod_path: Path) -> None:
    """Two modules of one object, handoff, NumPy and extensions of Python's own, under load from many threads."""
    done = run(
        "import _json, array, ctypes, importlib.util, mmap, sqlite3, zlib, threading, testmod, numpy as np\n"
        f"spec = importlib.util.spec_from_file_location('testmod2', {str(testmod_path)!r})\n"
        "second = importlib.util.module_from_spec(spec); spec.loader.exec_module(second)\n"
        "import handoff\n"
        "assert handoff.Array is type(testmod.arange(1))\n"
        "errors = []\n"
        "def work():\n"
        "    try:\n"
        "        db = sqlite3.connect(':memory:')\n"
        "        for i in range(300):\n"
        "            a = testmod.arange(64)\n"
        "            assert second.double(i) == 2 * i\n"
        "            assert testmod.total(array.array('d', np.from_dlpack(a))) == 2016\n"
        "            assert zlib.decompress(zlib.compress(memoryview(a))) == bytes(memoryview(a))\n"
        "            assert testmod.call(lambda: db.execute('select 7').fetchone()[0]) == 7\n"
        "            assert handoff.from_dlpack(np.arange(3)).shape == (3,)\n"
        "    except BaseException as e: errors.append(e)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(errors)\n"
    )
    ended(done, "[]\n")


# --- Collectors and stacks -------------------------------------------------


@pytest.mark.parametrize("debug", ["", "clobberfree=1", "gcstoptheworld=1"])
def test_B353_B357_both_collectors_under_pressure(run: Run, debug: str) -> None:
    """GOGC=1, and gc.collect() in a loop, while results, views and kept objects come and go."""
    done = run(
        "import gc, threading, weakref, testmod, numpy as np\n"
        "stop, errors = [], []\n"
        "class Node: pass\n"
        "def collect():\n"
        "    while not stop: gc.collect(); testmod.gc()\n"
        "collector = threading.Thread(target=collect); collector.start()\n"
        "for i in range(300):\n"
        "    a = testmod.arange(50); b = np.from_dlpack(a); c = memoryview(a)[5:]; del a\n"
        "    assert b.sum() == 1225 and c[0] == 5\n"
        "    x = np.arange(9.0); t = np.from_dlpack(testmod.tail(x, 3)); del x\n"
        "    assert t[0] == 3\n"
        "    n = Node(); n.me, n.array = n, testmod.matrix(3, 3); gone = weakref.ref(n)\n"
        "    testmod.keep(n); del n\n"
        "    kept = testmod.kept(); assert kept.me is kept; testmod.drop(); del kept\n"
        "    testmod.retain(np.full(4, 1.0)); assert testmod.retained_sum() == 1; testmod.release()\n"
        "    assert testmod.call(lambda: np.from_dlpack(testmod.arange(4)))[3] == 3\n"
        "    assert testmod.words(5)[4] == 'word number 4 of 5'\n"
        "stop.append(1); collector.join()\n"
        "del b, c, t\n"
        "for _ in range(100):\n"
        "    gc.collect(); testmod.gc()\n"
        "    if gone() is None and testmod.exports() == 0: break\n"
        "print(gone(), testmod.exports(), testmod.pinned())\n",
        timeout=120,
        GOGC="1",
        GODEBUG=debug,
    )
    ended(done, "None 0 0\n")


def test_B393_deep_recursion_through_go(run: Run) -> None:
    """Python in Go in Python until Python says RecursionError, which comes out through every level of Go."""
    done = run(
        "import sys, threading, testmod\n"
        "deepest = 0\n"
        "def down(n):\n"
        "    global deepest\n"
        "    deepest = n\n"
        "    return testmod.call(down, n + 1)\n"
        "def up(n): return 0 if n == 0 else 1 + testmod.call(up, n - 1)\n"
        "def both():\n"
        "    for _ in range(3):\n"
        "        try: down(0)\n"
        "        except RecursionError: pass\n"
        "        assert deepest > 100, deepest\n"
        "        assert up(150) == 150\n"
        "both()\n"
        "threads = [threading.Thread(target=lambda: both()) for _ in range(2)]\n"
        "for t in threads: t.start(); t.join()\n"
        "sys.setrecursionlimit(20000)\n"
        "threading.stack_size(512 << 20)\n"
        "out = []\n"
        "t = threading.Thread(target=lambda: out.append(up(3000))); t.start(); t.join()\n"
        "print(out)\n",
        timeout=120,
    )
    ended(done, "[3000]\n")


def test_go_stacks_grow_below_python(run: Run) -> None:
    """A goroutine's stack moves while C and Python frames lie on the thread's: addresses stay right."""
    done = run(
        "import testmod, numpy as np\n"
        "x = np.arange(1000.0)\n"
        "def down(n):\n"
        "    if n == 0:\n"
        "        testmod.gc()\n"
        "        return testmod.total(x)\n"
        "    y = testmod.tail(x, n)\n"
        "    r = testmod.call(down, n - 1)\n"
        "    assert np.from_dlpack(y)[0] == n\n"
        "    return r\n"
        "for _ in range(10):\n"
        "    assert testmod.call(down, 60) == 499500\n"
        "assert testmod.call_many(lambda i: down(10), 30) == 30\n"
        "print('end')\n",
        GOGC="1",
    )
    ended(done, "end\n")
