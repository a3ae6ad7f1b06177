"""The model fed token by token: constant state, the whole pass's descriptor at any time.

Each lift looks eight tokens ahead, so the direct bank runs eight tokens behind the input and the cascaded bank sixteen.
`describe` finishes both on a copy, with the zeros that the whole pass pads, and leaves the stream as it was.
"""

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from alphabet_core.arguments import require_count, require_tensor
from alphabet_core.errors import AlphabetError
from alphabet_core.export import freeze
from alphabet_core.grid import LIFT_REACH, convolve_valid, lagged_tokens
from alphabet_core.model import Alphabet, Bank
from alphabet_core.moments import condition, correlate
from alphabet_core.pairs import multiply
from alphabet_core.scan import scan_chunked
from alphabet_core.sequence import read_sequence

NO_CLOCK = (
    "time_delta: a stream runs on a regular grid, because the irregular lift's look-ahead has no bound in tokens; call "
    "model(values, time_delta=...) on a window instead"
)
WAITING_MASKS = ("waiting_valid", "waiting_gate")


def identify_model(frozen: Alphabet) -> Tensor:
    """The digest (32,) uint8 of a frozen model's configuration and numbers: what a stream's state belongs to."""
    digest = hashlib.sha256(repr(frozen.config).encode())
    for name, tensor in frozen.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8, device="cpu")


def count_tokens(state: dict[str, Tensor], names: set[str]) -> int:
    """The number of tokens that a state has seen, after checking that it has these entries and is a state at all."""
    wanted = {"model", "tokens", *names}
    if not isinstance(state, dict) or set(state) != wanted:
        found = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise AlphabetError(f"state must have the entries {sorted(wanted)}; got {found}")
    for name, tensor in state.items():
        require_tensor(f"state[{name!r}]", tensor)
    tokens = state["tokens"]
    if tokens.shape != () or tokens.dtype != torch.int64 or tokens < 0:
        raise AlphabetError(f"state['tokens'] must be a count, one int64 of at least 0; got {tokens}")
    return int(tokens)


def require_same_model(state: dict[str, Tensor], identity: Tensor) -> None:
    """Raise unless a state was taken from the model of this identity."""
    if not torch.equal(state["model"].cpu(), identity):
        raise AlphabetError(
            "state belongs to another model: its digest is not this one's. Restore it into a stream of the model that "
            "it was taken from, with the same parameters"
        )


@dataclass(frozen=True)
class BankState:
    """Everything that one bank remembers, of bounded size after any number of tokens.

    window (B, 8..16, D): lift inputs still in reach, the tokens that wait for their look-ahead last
    waiting_valid, waiting_gate (B, 0..8): the masks of those waiting tokens
    modal (B, 2M): the state after the last finished token
    history (B, max lag, 2M), history_valid (B, max lag): the states that later tokens pair with
    sums (B, 1 + lags, 2M), counts (B, 1 + lags, 1): the moments so far, in float64
    """

    window: Tensor
    waiting_valid: Tensor
    waiting_gate: Tensor
    modal: Tensor
    history: Tensor
    history_valid: Tensor
    sums: Tensor
    counts: Tensor


@dataclass(frozen=True)
class Finished:
    """What the synthesis needs of the tokens that a bank has just finished, (B, n, ...) each."""

    lifted: Tensor
    normed: Tensor
    states: Tensor
    valid: Tensor


class StreamingAlphabet:
    """A stream through a trained model: `feed` tokens in chunks of any size, `describe` or `logits` whenever wanted.

    Works on a frozen copy of the model. Regular grid only: an irregular lift looks ahead in time, and how many tokens
    that takes has no bound, so `time_delta` is refused.
    """

    def __init__(self, model: Alphabet, *, batch: int = 1) -> None:
        self.model = freeze(model)
        self.batch = require_count("batch", batch)
        self._identity = identify_model(self.model)
        weight = self.model.project.weight
        one = torch.ones((), dtype=weight.dtype, device=weight.device)
        self._holds = [bank.poles.hold(one) for bank in self.model.banks()]
        self.reset()

    def reset(self) -> None:
        """Forget everything that was fed."""
        self.tokens = 0
        self._banks = self._initial()

    @torch.no_grad()
    def feed(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Self:
        """Append a chunk (batch, n, channels), n >= 0, with its masks, and return the stream."""
        if time_delta is not None:
            raise AlphabetError(NO_CLOCK)
        if isinstance(values, Tensor) and tuple(values.shape) == (self.batch, 0, self.model.config.channels):
            return self
        sequence = read_sequence(
            values,
            channels=self.model.config.channels,
            like=self.model.project.weight,
            observed=observed,
            valid=valid,
        )
        if len(values) != self.batch:
            raise AlphabetError(
                f"values must hold {self.batch} parallel streams, the batch that this stream was made for; "
                f"got {len(values)}"
            )
        everything = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
        token_valid = everything if sequence.valid is None else sequence.valid
        available = everything if sequence.available is None else sequence.available
        self._banks = self._advance(self.model.project(sequence.values), token_valid, available, final=False)
        self.tokens += values.shape[1]
        return self

    @torch.no_grad()
    def describe(self) -> Tensor:
        """The descriptor (batch, banks, M, coordinates) of all tokens so far, as the whole pass would give it."""
        if self.tokens == 0:
            raise AlphabetError("values: no token has been fed yet; call feed(values) first")
        nothing = torch.zeros(self.batch, 0, dtype=torch.bool, device=self._banks[0].window.device)
        banks = self._advance(self._banks[0].window[:, :0], nothing, nothing, final=True)
        dtype = self.model.project.weight.dtype
        return torch.stack([condition((bank.sums / bank.counts.clamp(min=1)).to(dtype)) for bank in banks], dim=1)

    @torch.no_grad()
    def logits(self) -> Tensor:
        """The logits (batch, K) of all tokens so far."""
        logits: Tensor = self.model.head(self.describe())
        return logits

    def state(self) -> dict[str, Tensor]:
        """The stream's whole memory as tensors by name, ready for `safetensors.torch.save_file`."""
        named = {"model": self._identity.clone(), "tokens": torch.tensor(self.tokens, device="cpu")}
        for index, bank in enumerate(self._banks):
            named |= {f"{index}.{field.name}": getattr(bank, field.name).clone() for field in fields(bank)}
        return named

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Continue from what `state` returned, on a stream of the same model and batch, and return the stream."""
        blank = {f"{i}.{f.name}": getattr(b, f.name) for i, b in enumerate(self._initial()) for f in fields(b)}
        tokens = count_tokens(state, set(blank))
        for name, expected in blank.items():
            found = state[name]
            grows = name.endswith(("window", *WAITING_MASKS))
            fits = found.ndim == expected.ndim and found.dtype == expected.dtype
            axes = (0, *range(2, expected.ndim)) if grows else range(expected.ndim)
            if not fits or any(found.shape[axis] != expected.shape[axis] for axis in axes):
                raise AlphabetError(
                    f"state[{name!r}] must be {expected.dtype} {tuple(expected.shape)}, as this model and batch need; "
                    f"got {found.dtype} {tuple(found.shape)}"
                )
        for index in range(len(self._banks)):
            window, *waiting = (state[f"{index}.{name}"].shape[1] for name in ("window", *WAITING_MASKS))
            if not LIFT_REACH <= window <= 2 * LIFT_REACH or any(n != window - LIFT_REACH for n in waiting):
                raise AlphabetError(
                    f"state['{index}.window'] must hold 8 to 16 tokens, 8 more than the waiting masks; got {window} "
                    f"tokens and masks of {waiting[0]} and {waiting[1]}"
                )
            counts = state[f"{index}.counts"]
            if (counts < 0).any() or (counts > tokens).any():
                raise AlphabetError(
                    f"state['{index}.counts'] must lie in 0 ... {tokens}, the tokens so far; "
                    f"got {counts.flatten().tolist()}"
                )
        require_same_model(state, self._identity)
        device = self.model.project.weight.device
        self.tokens = tokens
        names = [field.name for field in fields(BankState)]
        self._banks = [
            BankState(**{name: state[f"{index}.{name}"].to(device).clone() for name in names})
            for index in range(len(self._banks))
        ]
        return self

    def _initial(self) -> list[BankState]:
        return [self._empty() for _ in self.model.banks()]

    def _empty(self) -> BankState:
        config, weight = self.model.config, self.model.project.weight
        lags, reach = 1 + len(config.lags), max(config.lags)
        mask = torch.zeros(self.batch, 0, dtype=torch.bool, device=weight.device)
        return BankState(
            window=weight.new_zeros(self.batch, LIFT_REACH, config.width),
            waiting_valid=mask,
            waiting_gate=mask,
            modal=weight.new_zeros(self.batch, 2 * config.modes),
            history=weight.new_zeros(self.batch, reach, 2 * config.modes),
            history_valid=mask.new_zeros(self.batch, reach),
            sums=weight.new_zeros(self.batch, lags, 2 * config.modes, dtype=torch.float64),
            counts=weight.new_zeros(self.batch, lags, 1, dtype=torch.int64),
        )

    def _advance(self, projected: Tensor, valid: Tensor, available: Tensor, *, final: bool) -> list[BankState]:
        """Run every bank as far as the look-ahead allows; to the very end if `final`."""
        model = self.model
        direct, done = self._advance_bank(0, model.direct, projected, valid, available, final=final)
        if model.cascaded is None:
            return [direct]
        stream = done.lifted
        if model.synthesis is not None:
            stream = model.synthesis(stream, done.states @ model.direct.frame().mT, done.normed)
        stream = torch.where(done.valid.unsqueeze(-1), stream, 0.0)
        cascaded, _ = self._advance_bank(1, model.cascaded, stream, done.valid, done.valid, final=final)
        return [direct, cascaded]

    def _advance_bank(
        self, index: int, bank: Bank, inputs: Tensor, valid: Tensor, gate: Tensor, *, final: bool
    ) -> tuple[BankState, Finished]:
        before = self._banks[index]
        window = torch.cat((before.window, inputs), dim=1)
        valid = torch.cat((before.waiting_valid, valid), dim=1)
        gate = torch.cat((before.waiting_gate, gate), dim=1)
        if final:
            window = F.pad(window, (0, 0, 0, LIFT_REACH))
        ready = max(0, window.shape[1] - 2 * LIFT_REACH)
        if ready == 0:
            waiting = replace(before, window=window, waiting_valid=valid, waiting_gate=gate)
            none = inputs[:, :0]
            return waiting, Finished(none, none, before.history[:, :0], valid[:, :0])

        done = valid[:, :ready]
        lifted = bank.lift.activate(convolve_valid(window[:, : ready + 2 * LIFT_REACH], bank.lift.kernel))
        lifted = torch.where(done.unsqueeze(-1), lifted, 0.0)
        normed = bank.norm(lifted)
        transition, gain = self._holds[index]
        injected = torch.where(gate[:, :ready].unsqueeze(-1), multiply(gain, normed @ bank.frame()), 0.0)
        states = scan_chunked(transition, injected, before.modal)  # (B, ready, 2M)

        reach = before.history.shape[1]
        extended = torch.cat((before.history, states), dim=1)
        extended_valid = torch.cat((before.history_valid, done), dim=1)
        pairs = lagged_tokens(extended, extended_valid, (0, *self.model.config.lags))
        sums = correlate(states.double(), [pair.earlier.double() for pair in pairs])
        counts = torch.stack([pair.number for pair in pairs], dim=1)
        after = BankState(
            window=window[:, ready:],
            waiting_valid=valid[:, ready:],
            waiting_gate=gate[:, ready:],
            modal=states[:, -1],
            history=extended[:, -reach:],
            history_valid=extended_valid[:, -reach:],
            sums=before.sums + sums,
            counts=before.counts + counts,
        )
        return after, Finished(lifted, normed, states, done)
