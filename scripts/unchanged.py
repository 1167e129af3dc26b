#!/usr/bin/env python3
"""Runs a command and fails when it changed the working tree.

    scripts/unchanged.py go generate ./...

What git does not ignore is compared before and after, so that a tree with
changes of its own can be checked too.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def snapshot() -> dict[str, str]:
    """The digest of each file that git does not ignore."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    digests = {}
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file():
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return digests


def main() -> int:
    """Compares the tree before and after the command."""
    before = snapshot()
    code = subprocess.run(sys.argv[1:], cwd=ROOT, check=False).returncode
    if code:
        return code
    after = snapshot()
    changed = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    for name in changed:
        print(f"{name} is not what its generator makes")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
