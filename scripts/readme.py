#!/usr/bin/env python3
"""Puts the quoted files into README.md: `make generate` runs it.

A quote is a comment with a file's name, followed by a code block:

    <!-- examples/quickstart/main.go -->
    ```go
    ```
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Rewrites the code blocks."""
    readme = ROOT / "README.md"
    text = re.sub(
        r"(<!-- (\S+) -->\n```\w+\n).*?```\n",
        lambda m: m[1] + (ROOT / m[2]).read_text() + "```\n",
        readme.read_text(),
        flags=re.DOTALL,
    )
    readme.write_text(text)


if __name__ == "__main__":
    main()
