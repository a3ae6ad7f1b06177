"""Pole moments as spectral measurements: what a mode's population statistics are for a known spectrum.

A spectrum is a density f on (-pi, pi] with autocovariance Gamma(k) = integral of exp(i k theta) f(theta) d theta, so
white noise of variance v has f = v / (2 pi). Poles are complex `lambda`, as `Poles.values()` gives them.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from alphabet_core.errors import AlphabetError
from alphabet_core.poles import hold_complex

Spectrum = Callable[[Tensor], Tensor]

_FIRST_GRID, _LAST_GRID = 2**10, 2**22


def frequency_response(pole: Tensor | complex, theta: Tensor, *, step: float = 1.0) -> Tensor:
    """The response H(e^{i theta}) = gain / (1 - p e^{-i theta}) of held poles (...) at angles theta: (..., angles)."""
    transition, gain = _held(pole, step)
    turn = torch.exp(-1j * theta.to(torch.float64))
    return gain.unsqueeze(-1) / (1.0 - transition.unsqueeze(-1) * turn)


def poisson_kernel(transition: Tensor | complex, theta: Tensor) -> Tensor:
    """The Poisson kernel P_p(theta) = (1 - |p|^2) / |e^{i theta} - p|^2 of transitions p (...): (..., angles)."""
    p = torch.as_tensor(transition, dtype=torch.complex128).unsqueeze(-1)
    distance = (torch.exp(1j * theta.to(torch.float64)) - p).abs().square()
    return (1.0 - p.abs().square()) / distance


def population_moments(
    spectrum: Spectrum,
    pole: Tensor | complex,
    lags: Sequence[int] = (0, 1, 2, 4),
    *,
    step: float = 1.0,
    tolerance: float = 1e-10,
) -> Tensor:
    """The moments E[z_t conj(z_{t-lag})] of modes (...), complex (..., lags), driven by a process with this spectrum.

    The integral of |H|^2 f e^{i lag theta} by the periodic trapezoid rule, which converges geometrically; the grid is
    doubled until two results agree to `tolerance`, relative to the energy.
    """
    coarse = _trapezoid(spectrum, pole, lags, step, _FIRST_GRID)
    points = _FIRST_GRID
    while points < _LAST_GRID:
        points *= 2
        fine = _trapezoid(spectrum, pole, lags, step, points)
        scale = fine.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        if bool(((fine - coarse).abs() <= tolerance * scale).all()):
            return fine
        coarse = fine
    raise AlphabetError(
        f"spectrum: the moments did not settle to tolerance={tolerance} on {_LAST_GRID} angles; "
        "the spectrum has a line or a pole on the unit circle, or the tolerance is too small"
    )


def noise_floor(
    pole: Tensor | complex, variance: float = 1.0, *, direction_power: float = 2.0, step: float = 1.0
) -> Tensor:
    """The energy that isotropic white feature noise adds to a mode: nu = variance * ||c||^2 |gain|^2 / (1 - |p|^2).

    `direction_power` is ||c||^2 of c = a + ib, 2 for the frame's orthonormal pair.
    """
    transition, gain = _held(pole, step)
    return variance * direction_power * gain.abs().square() / (1.0 - transition.abs().square())


def ma_spectrum(coefficients: Sequence[float], variance: float = 1.0) -> Spectrum:
    """The spectrum of x_t = sum_k coefficients[k] noise_{t-k}."""
    weights = torch.tensor(list(coefficients), dtype=torch.complex128)
    return lambda theta: variance / (2.0 * math.pi) * _polynomial(weights, theta).abs().square()


def ar_spectrum(coefficients: Sequence[float], variance: float = 1.0) -> Spectrum:
    """The spectrum of x_t = sum_k coefficients[k] x_{t-1-k} + noise_t."""
    weights = torch.tensor([1.0, *(-c for c in coefficients)], dtype=torch.complex128)
    return lambda theta: variance / (2.0 * math.pi) / _polynomial(weights, theta).abs().square()


def _polynomial(weights: Tensor, theta: Tensor) -> Tensor:
    powers = torch.arange(len(weights), dtype=torch.float64)
    return torch.exp(-1j * theta.to(torch.float64).unsqueeze(-1) * powers) @ weights


def _trapezoid(spectrum: Spectrum, pole: Tensor | complex, lags: Sequence[int], step: float, points: int) -> Tensor:
    theta = torch.arange(points, dtype=torch.float64) * (2.0 * math.pi / points) - math.pi
    density = spectrum(theta).to(torch.float64)
    mass = frequency_response(pole, theta, step=step).abs().square() * density  # (..., points)
    turns = torch.exp(1j * theta.unsqueeze(-1) * torch.tensor(list(lags), dtype=torch.float64))  # (points, lags)
    return mass.to(torch.complex128) @ turns * (2.0 * math.pi / points)


def _held(pole: Tensor | complex, step: float) -> tuple[Tensor, Tensor]:
    poles = torch.as_tensor(pole, dtype=torch.complex128)
    if bool((poles.real >= 0).any()):
        raise AlphabetError(f"pole must have a negative real part, as -decay + i frequency; got {pole}")
    if not step > 0:
        raise AlphabetError(f"step must be positive; got {step}")
    transition, gain = hold_complex(poles.flatten(), torch.tensor(step, dtype=torch.float64))
    return transition.view_as(poles), gain.view_as(poles)
