"""A diagonal linear recurrence between two dense maps: what S5 and LRU do with their different parameters."""

from collections.abc import Callable

import torch
from alphabet_core.pairs import from_complex, multiply, to_complex
from alphabet_core.scan import SCANS, Scan, scan_sequential, tabulate_powers
from torch import Tensor

from alphabet_baselines.adjoint import is_compiled
from alphabet_baselines.fft import padded_length


def scan_fft(transition: Tensor, drive: Tensor, initial: Tensor | None = None) -> Tensor:
    """The states of `alphabet_core.scan` by convolving the drive with the powers of a static transition (2M,)."""
    length = drive.shape[1]
    if length == 1:  # no power but the first, which is one: the transition has a gradient of zero and not None
        return scan_sequential(transition, drive, initial)
    drive = drive_from(transition, drive, initial)
    powers = to_complex(tabulate_powers(transition, length).to(drive.dtype))  # (T, M)
    size = padded_length(length)
    spectrum = torch.fft.fft(to_complex(drive), size, dim=1) * torch.fft.fft(powers, size, dim=0)
    return from_complex(torch.fft.ifft(spectrum, dim=1)[:, :length])


def scan_adjoint(transition: Tensor, drive: Tensor, initial: Tensor | None = None) -> Tensor:
    """The same states by a compiled loop with a hand-derived backward on a CPU with numba; elsewhere by `scan_fft`."""
    if not is_compiled(drive.device):
        return scan_fft(transition, drive, initial)
    from alphabet_baselines.diagonal_cpu import CompiledModes

    states: Tensor = CompiledModes.apply(transition, drive_from(transition, drive, initial))  # type: ignore[no-untyped-call]
    return states


def drive_from(transition: Tensor, drive: Tensor, initial: Tensor | None) -> Tensor:
    """The drive (B, T, 2M) that leads from zero to the states that `drive` leads to from `initial`."""
    if initial is None:
        return drive
    return torch.cat((drive[:, :1] + multiply(transition, initial).unsqueeze(1), drive[:, 1:]), dim=1)


STATIC_SCANS: dict[str, Scan] = {**SCANS, "fft": scan_fft, "adjoint": scan_adjoint}
ALGORITHMS = ("fft", "chunked", "associative", "sequential", "adjoint")

# transition (2N,), input map (N, width) and output map (width, N), both complex, of one discretized system.
System = tuple[Tensor, Tensor, Tensor]


def mix_modes(features: Tensor, system: System, skip: Tensor, scan: Callable[..., Tensor]) -> Tensor:
    """The outputs Re(output z[t]) + skip u[t] of z[t] = transition z[t-1] + input u[t], (B, T, width) like u."""
    transition, to_modes, from_modes = system
    drive = features @ from_complex(to_modes.mT)  # (B, T, 2N), packed
    states = scan(transition, drive, None)
    return torch.addcmul(states @ from_complex(from_modes.conj()).mT, features, skip)
