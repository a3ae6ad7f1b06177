"""The modules of the gallery that hold cases, in the order of its table."""

import tables

MODULES = (
    "cases_liger",
    "cases_mamba",
    "cases_mamba_exact",
    "cases_fla",
    "cases_flaggems",
    "cases_scan",
    "cases_conv",
    "cases_flash",
    "cases_xformers",
    "cases_torchao",
    "cases_tutorials",
)


def find_digest(module: str) -> str:
    """What decides the rows of a module's cases."""
    return tables.digest(*(tables.HERE / name for name in ("case.py", "run_case.py", f"{module}.py")))
