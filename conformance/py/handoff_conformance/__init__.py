"""Does a library keep the rules of the exchange protocols? The Python half of the suite.

`python -m handoff_conformance TARGET` runs every check for one target and prints JSON lines. The
command `handoff conform` runs it in child processes and makes the reports; the pytest plug-in
(`pytest --conformance TARGET`) makes a test of every check.
"""

from __future__ import annotations

__version__ = "0.1.0"
