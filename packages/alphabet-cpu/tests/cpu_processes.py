"""Code in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def run_python(code, **environment):
    """In a process of its own, which finds the test models."""
    here = str(Path(__file__).parents[3] / "tests")
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {here!r})\n{code}"],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environment},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result
