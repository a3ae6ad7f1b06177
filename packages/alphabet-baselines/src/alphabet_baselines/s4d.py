"""S4D: a diagonal state space of its own for every channel, zero-order hold, S4D-Lin initialization."""

import math
from collections.abc import Callable

import torch
from alphabet_core.pairs import multiply, pack, split
from alphabet_core.poles import zero_order_hold
from alphabet_core.scan import scan_associative, tabulate_powers
from torch import Tensor, nn
from torch.nn import functional as F

from alphabet_baselines import fft
from alphabet_baselines.adjoint import describe_algorithm, is_compiled
from alphabet_baselines.residual import ResidualStack
from alphabet_baselines.steps import draw_log_steps

CHUNK = 32


class S4D(ResidualStack):
    """A stack of `depth` layers; each channel has `state` real dimensions, which are state / 2 conjugate pairs."""

    def __init__(self, inputs: int, width: int, depth: int, state: int, *, algorithm: str) -> None:
        super().__init__(inputs, width, (S4DMixer(width, state, algorithm) for _ in range(depth)))


class S4DMixer(nn.Module):
    """One state space per channel, dx/dt = lambda x + u, y = 2 Re(C x) + D u, held over the channel's learned step.

    S4D-Lin: lambda_n = -1/2 + i pi n.
    """

    def __init__(self, width: int, state: int, algorithm: str) -> None:
        super().__init__()
        self.algorithm = algorithm
        pairs = state // 2
        self.log_step = nn.Parameter(draw_log_steps(width))
        self.log_decay = nn.Parameter(torch.full((width, pairs), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(pairs).repeat(width, 1))
        self.output = nn.Parameter(torch.randn(width, 2 * pairs) * math.sqrt(0.5))  # packed
        self.skip = nn.Parameter(torch.randn(width))

    def forward(self, features: Tensor) -> Tensor:
        mixed = CONVOLUTIONS[self.algorithm](features, self)
        return torch.addcmul(mixed, features, self.skip)

    def discretize(self) -> tuple[Tensor, Tensor]:
        """The transition in float64 and the readout weight, (width, 2n) each, packed.

        y[t] = sum of Re(weight z[t]) with z[t] = transition z[t-1] + u[t]. The rounding of a transition grows with
        every power of it, and the powers reach the whole length.
        """
        decay, step = self.log_decay.double().exp(), self.log_step.double().exp()
        transition, gain = zero_order_hold(decay, self.frequency.double(), step)
        return transition, 2.0 * multiply(gain.to(self.output.dtype), self.output)

    def powers(self, transition: Tensor, count: int) -> Tensor:
        """The powers transition**0 ... transition**(count - 1), (width, count, 2n), in the dtype of the weights."""
        table = tabulate_powers(_flatten(transition), count).to(self.output.dtype)
        return _unflatten(table, len(transition)).transpose(0, 1)

    def extra_repr(self) -> str:
        return describe_algorithm(self.algorithm, self.skip.device)


def convolve_sequential(features: Tensor, layer: S4DMixer) -> Tensor:
    """The outputs (B, T, width) by the recurrence itself, token by token."""
    transition, weight = layer.discretize()
    transition = transition.to(features.dtype)
    state = features.new_zeros(features.shape[0], *transition.shape)  # (B, width, 2n)
    impulse = _impulse(transition)
    outputs = []
    for t in range(features.shape[1]):
        state = multiply(transition, state) + features[:, t].unsqueeze(-1) * impulse
        outputs.append(_read(weight, state))
    return torch.stack(outputs, dim=1)


def convolve_associative(features: Tensor, layer: S4DMixer) -> Tensor:
    """The outputs (B, T, width) by a scan of logarithmic depth over all states, which are kept in memory."""
    transition, weight = layer.discretize()
    drive = features.unsqueeze(-1) * _impulse(weight)  # (B, T, width, 2n)
    states = scan_associative(_flatten(transition), _flatten(drive))
    return _read(weight, _unflatten(states, features.shape[-1]))


def convolve_fft(features: Tensor, layer: S4DMixer) -> Tensor:
    """The outputs (B, T, width) by one product with the whole kernel in the frequency domain."""
    transition, weight = layer.discretize()
    kernel = _read(weight.unsqueeze(1), layer.powers(transition, features.shape[1]))  # (width, T)
    return fft.convolve(features, kernel)


def convolve_adjoint(features: Tensor, layer: S4DMixer) -> Tensor:
    """The outputs (B, T, width) by a compiled loop over tokens on a CPU with numba; elsewhere by `convolve_fft`."""
    if not is_compiled(features.device):
        return convolve_fft(features, layer)
    from alphabet_baselines.diagonal_cpu import CompiledChannels

    outputs: Tensor = CompiledChannels.apply(features, *layer.discretize())  # type: ignore[no-untyped-call]
    return outputs


def convolve_vandermonde(features: Tensor, layer: S4DMixer) -> Tensor:
    """The outputs (B, T, width) by matrix products with tables of powers; only the chunks' end states are scanned."""
    batch, length, width = features.shape
    chunk = min(length, CHUNK)
    count = math.ceil(length / chunk)
    transition, weight = layer.discretize()
    weight = weight.unsqueeze(1)  # (width, 1, 2n)
    powers = layer.powers(transition, chunk + 1)  # (width, chunk + 1, 2n)

    padded = F.pad(features, (0, 0, 0, count * chunk - length))
    columns = padded.view(batch, count, chunk, width).permute(3, 2, 0, 1).flatten(2)  # (width, chunk, B count)
    local = torch.bmm(_toeplitz(_read(weight, powers[:, :chunk])), columns)
    if count > 1:
        ends = torch.bmm(powers[:, :chunk].flip(1).mT.contiguous(), columns)  # (width, 2n, B count)
        ends = ends.unflatten(-1, (batch, count)).permute(2, 3, 0, 1)  # (B, count, width, 2n)
        states = _unflatten(scan_associative(_flatten(powers[:, chunk]), _flatten(ends)), width)
        carry = F.pad(states, (0, 0, 0, 0, 1, 0))[:, :count].permute(2, 3, 0, 1).flatten(2)  # of the chunk before
        re, im = split(multiply(weight, powers[:, 1:]))
        local = torch.baddbmm(local, pack(re, -im), carry)
    outputs: Tensor = local.unflatten(-1, (batch, count)).permute(2, 3, 1, 0).flatten(1, 2)
    return outputs[:, :length]


Convolve = Callable[[Tensor, S4DMixer], Tensor]
CONVOLUTIONS: dict[str, Convolve] = {
    "fft": convolve_fft,
    "vandermonde": convolve_vandermonde,
    "associative": convolve_associative,
    "sequential": convolve_sequential,
    "adjoint": convolve_adjoint,
}
ALGORITHMS = tuple(CONVOLUTIONS)


def _read(weight: Tensor, state: Tensor) -> Tensor:
    """Sum over modes of Re(weight state): (..., 2n), (..., 2n) -> (...)."""
    re, im = split(weight)
    return (pack(re, -im) * state).sum(dim=-1)


def _impulse(transition: Tensor) -> Tensor:
    """What a unit input adds to the packed states: one to every real part."""
    re, im = split(transition)
    return pack(torch.ones_like(re), torch.zeros_like(im))


def _flatten(states: Tensor) -> Tensor:
    """(..., width, 2n) -> (..., 2 width n), packed over all channels."""
    re, im = split(states)
    return pack(re.flatten(-2), im.flatten(-2))


def _unflatten(states: Tensor, width: int) -> Tensor:
    """The inverse of `_flatten`."""
    re, im = split(states)
    return pack(re.unflatten(-1, (width, -1)), im.unflatten(-1, (width, -1)))


def _toeplitz(kernel: Tensor) -> Tensor:
    """(width, chunk) -> (width, chunk, chunk) lower triangular: entry (i, j) is kernel[i - j]."""
    index = torch.arange(kernel.shape[1], device=kernel.device)
    lag = index.unsqueeze(1) - index
    return torch.where(lag >= 0, kernel[:, lag.clamp(min=0)], 0.0)
