"""Where the algorithm "adjoint" runs: in kernels that numba compiles for CPUs, or else in torch's operations."""

import importlib
from functools import cache

from torch import device as Device

ALGORITHM = "adjoint"


@cache
def why_not_compiled() -> str | None:
    """Why this process has no compiled kernels, or None; numba, of the extra [cpu], is only imported here."""
    try:
        importlib.import_module("alphabet_baselines.compiling")
    except ModuleNotFoundError:
        return "numba is not installed (pip install 'alphabet-baselines[cpu]')"
    except ImportError as error:
        return f"numba cannot be imported ({error})"
    return None


def is_compiled(device: Device) -> bool:
    """Whether "adjoint" runs in compiled kernels for tensors on this device."""
    return device.type == "cpu" and why_not_compiled() is None


def describe_algorithm(algorithm: str, device: Device) -> str:
    """What a model's repr says of its algorithm: its name, and of "adjoint" also what runs it."""
    if algorithm != ALGORITHM or device.type == "meta":
        return f"algorithm={algorithm}"
    if is_compiled(device):
        return f"algorithm={algorithm}, compiled by numba"
    reason = f"{device.type} has no kernels" if device.type != "cpu" else why_not_compiled()
    return f"algorithm={algorithm}, in torch's operations: {reason}"
