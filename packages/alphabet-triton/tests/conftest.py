"""Compiled kernels are for the compiler; the interpreter, where it is chosen, has its own folder."""

import os

collect_ignore = ["test_compiled.py", "test_memo.py"] if os.environ.get("TRITON_INTERPRET") == "1" else []
