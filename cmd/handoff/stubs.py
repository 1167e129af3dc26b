"""Prints the type stub of a module: stubs.py NAME FILE."""

import importlib.util
import sys

name, path = sys.argv[1:]
spec = importlib.util.spec_from_file_location(name, path)
assert spec is not None and spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
stub = getattr(module, "__handoff_stub__", None)
if stub is None:
    sys.exit(f"{path} was not built with handoff: it has no __handoff_stub__")
sys.stdout.write(stub)
