"""ALPHABET, Algorithm 1 from top to bottom."""

import torch
from torch import Tensor, nn

from alphabet_core.arguments import describe
from alphabet_core.config import AlphabetConfig
from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame, Frame
from alphabet_core.grid import Grid, make_grid
from alphabet_core.head import make_head
from alphabet_core.lift import Lift
from alphabet_core.moments import condition, read_moments
from alphabet_core.norm import RMSNorm
from alphabet_core.pairs import multiply
from alphabet_core.poles import Poles
from alphabet_core.scan import Scan, scan_chunked
from alphabet_core.sequence import Sequence, read_sequence


class Alphabet(nn.Module):
    """Two banks of stable complex poles whose moments an affine head reads.

    `model(values, time_delta=..., observed=..., valid=...)` gives logits (B, K); `describe(...)` gives what the head
    reads, (B, banks, M, 7). `scan` chooses the recurrence's algorithm: any function of `alphabet_core.scan`.
    """

    def __init__(self, config: AlphabetConfig, *, scan: Scan = scan_chunked) -> None:
        super().__init__()
        if not isinstance(config, AlphabetConfig):
            raise AlphabetError(f"config must be an AlphabetConfig; got {type(config).__name__}")
        if not callable(scan):
            raise AlphabetError(f"scan must be a function such as SCANS['chunked']; got {scan!r}")
        self.config = config
        self.scan = scan
        self.project = nn.Linear(config.channels, config.width, bias=False)
        nn.init.normal_(self.project.weight, std=0.58 * config.channels**-0.5)
        self.direct = Bank(config)
        self.synthesis = Synthesis(config.width) if config.synthesis else None
        self.cascaded = Bank(config) if config.cascaded else None
        self.head = make_head(config)

    def forward(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Logits (B, K) of values (B, T, C)."""
        descriptor = self.describe(values, time_delta=time_delta, observed=observed, valid=valid)
        logits: Tensor = self.head(descriptor)
        return logits

    def describe(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """The descriptor (B, banks, M, 1 + 2 lags) of values (B, T, C): all that the head reads."""
        sequence = read_sequence(
            values,
            channels=self.config.channels,
            like=self.project.weight,
            time_delta=time_delta,
            observed=observed,
            valid=valid,
        )
        grid = make_grid(sequence)
        trajectories = self.trajectories(sequence, grid)
        return torch.stack([condition(read_moments(z, grid, self.config.lags)) for z in trajectories], dim=1)

    def trajectories(self, sequence: Sequence, grid: Grid) -> list[Tensor]:
        """The packed modal states (B, T, 2M) of each bank: Algorithm 1, lines 5-14."""
        direct, cascaded, keep = self.direct, self.cascaded, sequence.keep_valid
        lifted = keep(direct.lift(self.project(sequence.values), grid))  # line 5: H0 (B, T, D)
        normed = direct.norm(lifted)  # line 6: U1
        frame = direct.frame()  # (D, 2M)
        drive = normed @ frame  # line 7: E1 (B, T, 2M)
        direct_states = direct.transport(drive, sequence.available, grid, self.scan)  # line 8: Z1 (B, T, 2M)
        if cascaded is None:
            return [direct_states]

        stream = lifted
        if self.synthesis is not None:
            stream = self.synthesis(lifted, direct_states @ frame.mT, normed)  # line 9: H1 (B, T, D)
        normed = keep(cascaded.norm(cascaded.lift(keep(stream), grid)))  # lines 11-12: U2
        drive = normed @ cascaded.frame()  # line 13: E2 (B, T, 2M)
        cascaded_states = cascaded.transport(drive, sequence.valid, grid, self.scan)  # line 14: Z2 (B, T, 2M)
        return [direct_states, cascaded_states]

    def banks(self) -> list["Bank"]:
        """The direct bank and, unless it is left out, the cascaded one."""
        return [self.direct] if self.cascaded is None else [self.direct, self.cascaded]

    @torch.no_grad()
    def constrain(self) -> None:
        """Move every frame back onto its manifold, as a complete training step does after the optimizer."""
        for bank in self.banks():
            if isinstance(bank.frame, Frame):
                bank.frame.rebase()


def require_alphabet(model: object) -> Alphabet:
    """The model itself, after checking that it is an `Alphabet`."""
    if not isinstance(model, Alphabet):
        raise AlphabetError(f"model must be an Alphabet; got {describe(model)}")
    return model


class Bank(nn.Module):
    """One bank of poles with the lift, norm and frame that drive it."""

    def __init__(self, config: AlphabetConfig) -> None:
        super().__init__()
        self.lift = Lift(config.width)
        self.norm = RMSNorm(config.width)
        self.frame: Frame | FixedFrame = Frame(config.width, config.modes)
        self.poles = Poles(config.modes, trainable=config.trainable_poles)

    def transport(self, drive: Tensor, gate: Tensor | None, grid: Grid, scan: Scan) -> Tensor:
        """The modal states (B, T, 2M) that excitations (B, T, 2M) drive through the gated zero-order hold."""
        transition, gain = grid.hold(self.poles)
        injected = multiply(gain, drive)
        if gate is not None:
            injected = torch.where(gate.unsqueeze(-1), injected, 0.0)
        return scan(transition, injected, None)


class Synthesis(nn.Module):
    """The residual of line 9: H1 = H0 + scale * (states synthesized into features + feedthrough * U1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.1))
        self.feedthrough = nn.Parameter(torch.ones(width))

    def forward(self, lifted: Tensor, synthesized: Tensor, normed: Tensor) -> Tensor:
        return lifted + self.scale * (synthesized + self.feedthrough * normed)
