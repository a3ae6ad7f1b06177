"""CpuStream: one stream through a trained model, a few microseconds per token."""

import math
from typing import Any, Self

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetError, freeze, read_sequence
from alphabet_core.fused import (
    LAGS,
    MOMENTS,
    NO_CLOCK,
    count_tokens,
    identify_model,
    require_alphabet,
    require_same_model,
    structure_fallback_reason,
)
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from alphabet_cpu.batch import as_marks
from alphabet_cpu.dispatch import fused_fallback_reason
from alphabet_cpu.kernels.arithmetic import allocate
from alphabet_cpu.kernels.layout import Doubles
from alphabet_cpu.kernels.modes import count_sums
from alphabet_cpu.kernels.stream_kernels import CHUNK, PAST, count_memory, feed_tokens, finish
from alphabet_cpu.weights import fold_and_pack
from alphabet_cpu.workers import announce_compilation

NO_TOKEN_MASKED = np.ones(1, np.uint8)  # one mark stands for all tokens


class CpuStream:
    """A stream through a model as it is now: `push` a token or `feed` a chunk, `describe` or `logits` whenever wanted.

    Returns what `alphabet_core.StreamingAlphabet` returns for one stream. Later changes of the model are not seen. A
    stream belongs to one thread.
    """

    def __init__(self, model: Alphabet) -> None:
        reason = structure_fallback_reason(require_alphabet(model)) or fused_fallback_reason(model)
        if reason is not None:
            raise AlphabetError(
                f"model is not covered by the kernels of CpuStream ({reason}); "
                "alphabet_core.StreamingAlphabet streams every model"
            )
        model = freeze(model)
        self.config = model.config
        self._identity = identify_model(model)
        self._like = torch.empty(0, dtype=torch.float32, device="cpu")
        sizes, arrays = fold_and_pack(model)
        self._weights = arrays._replace(head=arrays.head.copy(), bias=arrays.bias.copy())
        self._memory = allocate(count_memory(sizes))
        self._spare = allocate(self._memory.size)  # what `finish` uses up instead
        self._token = np.zeros(model.config.channels, np.float32)
        self._marks = np.zeros((2, PAST + CHUNK), np.uint8)
        self._sums: Doubles = np.zeros((2, MOMENTS, count_sums(sizes.columns)))
        self._pairs: Doubles = np.zeros(1 + len(LAGS))
        # A plain tuple, in the order of `StreamState`: numba would take longer over named ones than over a token.
        self._state = (tuple(sizes), arrays.packed, self._memory, self._marks, self._sums, self._pairs)
        self.tokens = 0
        with announce_compilation(feed_tokens):  # here rather than at the first token, which may not want to wait
            self.push(self._token)
            self._finish()
        self.reset()

    def reset(self) -> None:
        """Forget everything that was fed."""
        for array in self._parts().values():
            array[...] = 0
        self.tokens = 0

    def state(self) -> dict[str, Tensor]:
        """All that the stream remembers, as named tensors, ready for `safetensors.torch.save_file`."""
        named = {name: torch.from_numpy(array.copy()) for name, array in self._parts().items()}
        return {"model": self._identity.clone(), "tokens": torch.tensor(self.tokens, device="cpu"), **named}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Continue from what `state` returned for a stream of the same model; returns the stream itself."""
        parts = self._parts()
        tokens = count_tokens(state, set(parts))
        for name, array in parts.items():
            if state[name].numpy().dtype != array.dtype or state[name].shape != array.shape:
                raise AlphabetError(
                    f"state[{name!r}] must be {array.dtype} of shape {array.shape} for this model; "
                    f"got {state[name].dtype} of shape {tuple(state[name].shape)}"
                )
        if bool((state["pairs"] < 0).any()) or bool((state["pairs"] > tokens).any()):
            raise AlphabetError(
                f"state['pairs'] must lie in 0 ... {tokens}, the tokens so far; got {state['pairs'].tolist()}"
            )
        require_same_model(state, self._identity)
        for name, array in parts.items():
            array[...] = state[name].numpy()
        self.tokens = tokens
        return self

    def _parts(self) -> dict[str, NDArray[Any]]:
        return {"memory": self._memory, "marks": self._marks, "sums": self._sums, "pairs": self._pairs}

    def push(self, token: ArrayLike) -> None:
        """Append one token, `channels` finite numbers, in microseconds: nothing but the kernel runs."""
        try:
            shape = np.shape(token)
            if shape == self._token.shape:
                self._token[:] = token
        except (TypeError, ValueError) as error:
            found = type(token).__name__
            raise AlphabetError(f"token must hold {self._token.size} real numbers; got {found} ({error})") from error
        if shape != self._token.shape:
            raise AlphabetError(f"token must have shape {self._token.shape}; got {shape}")
        if not all(map(math.isfinite, self._token.tolist())):
            raise AlphabetError(
                f"token must be finite; got {self._token.tolist()}. To mask a gap, use feed(values, observed=...)"
            )
        self.tokens = feed_tokens(self._token, NO_TOKEN_MASKED, NO_TOKEN_MASKED, self.tokens, self._state)

    def feed(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Self:
        """Append a chunk (1, n, channels), n >= 0, with its masks; returns the stream itself."""
        if time_delta is not None:
            raise AlphabetError(NO_CLOCK)
        if isinstance(values, Tensor) and tuple(values.shape) == (1, 0, self.config.channels):
            return self
        sequence = read_sequence(values, channels=self.config.channels, like=self._like, observed=observed, valid=valid)
        if len(values) != 1:
            raise AlphabetError(f"values must hold one stream; got a batch of {len(values)}")
        given = NO_TOKEN_MASKED if sequence.valid is None else as_marks(sequence.valid)
        gate = NO_TOKEN_MASKED if sequence.available is None else as_marks(sequence.available)
        chunk = sequence.values.detach().contiguous().view(-1).numpy()
        self.tokens = feed_tokens(chunk, given, gate, self.tokens, self._state)
        return self

    def describe(self) -> Tensor:
        """The descriptor (1, 2, M, 7) of all tokens so far, as a pass over all of them would compute it."""
        return torch.from_numpy(self._finish()[0]).float().unsqueeze(0)

    def logits(self) -> Tensor:
        """The logits (1, K) of all tokens so far."""
        return torch.from_numpy(self._finish()[1]).float().unsqueeze(0)

    def _finish(self) -> tuple[Doubles, Doubles]:
        if self.tokens == 0:
            raise AlphabetError("values: no token has been fed yet; call push(token) or feed(values) first")
        np.copyto(self._spare, self._memory)
        sizes, packed, *_ = self._state
        state = (sizes, packed, self._spare, self._marks, self._sums.copy(), np.maximum(self._pairs, 1.0))
        descriptor = np.empty((2, self.config.modes, MOMENTS))
        logits = np.empty(self.config.outputs)
        finish(self.tokens, state, tuple(self._weights), descriptor, logits)
        return descriptor, logits
