"""CpuStream: one stream through a trained model, a few microseconds per token."""

import math
from typing import Any, Self

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetError, read_sequence
from alphabet_core.fused import LAGS, NO_CLOCK, describe_path, require_alphabet
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from alphabet_cpu.arithmetic import allocate
from alphabet_cpu.batch import Doubles, as_bytes
from alphabet_cpu.conditioning import MOMENTS
from alphabet_cpu.dispatch import fused_fallback_reason
from alphabet_cpu.streaming import CHUNK, PAST, count_memory, feed_tokens, finish
from alphabet_cpu.weights import fold_and_pack
from alphabet_cpu.workers import compile_aloud

EVERY = np.ones(1, np.uint8)
assert tuple(1 << k for k in range(len(LAGS))) == LAGS  # the kernel counts pairs so


class CpuStream:
    """A stream through a model as it is now: `push` a token or `feed` a chunk, `describe` or `logits` whenever wanted.

    Gives what `alphabet_core.StreamingAlphabet` gives for one stream. Neither later changes of the model nor other
    threads are seen: a stream belongs to one thread.
    """

    def __init__(self, model: Alphabet) -> None:
        reason = fused_fallback_reason(require_alphabet(model))
        if reason is not None:
            raise AlphabetError(
                f"model is not covered, {describe_path(reason)}; alphabet_core.StreamingAlphabet streams every model"
            )
        self.config = model.config
        self._like = torch.empty(0, dtype=torch.float32)
        self._weights = weights = fold_and_pack(model)
        self._head, self._bias = weights.head.copy(), weights.bias.copy()
        _, _, width, columns = weights.sizes
        self._memory = allocate(count_memory(width, columns))
        self._spare = allocate(self._memory.size)
        self._token = np.zeros(model.config.channels, np.float32)
        self._marks = np.zeros((2, PAST + CHUNK), np.uint8)
        self._sums: Doubles = np.zeros((2, MOMENTS, columns // 2))
        self._pairs: Doubles = np.zeros(1 + len(LAGS))
        self._all = (weights.sizes, weights.packed, self._memory, self._marks, self._sums, self._pairs)
        self.tokens = 0
        with compile_aloud(feed_tokens):  # here rather than at the first token, which may not want to wait
            self.push(self._token)
            self._finish()
        self.reset()

    def reset(self) -> None:
        """Forget everything that was fed."""
        for array in self._parts().values():
            array[...] = 0
        self.tokens = 0

    def state(self) -> dict[str, Tensor]:
        """The stream's whole memory as named tensors, ready for `safetensors.torch.save_file`."""
        named = {name: torch.from_numpy(array.copy()) for name, array in self._parts().items()}
        return {"tokens": torch.tensor(self.tokens), **named}

    def restore(self, state: dict[str, Tensor]) -> Self:
        """Continue from what `state` returned, on a stream of the same model."""
        parts = self._parts()
        if set(state) != {"tokens", *parts}:
            raise AlphabetError(f"state must have the entries {sorted({'tokens', *parts})}; got {sorted(state)}")
        for name, array in parts.items():
            if state[name].numpy().dtype != array.dtype or state[name].shape != array.shape:
                raise AlphabetError(
                    f"state[{name!r}] must look like {array.dtype} {array.shape} of this model; "
                    f"got {state[name].dtype} {tuple(state[name].shape)}"
                )
        for name, array in parts.items():
            array[...] = state[name].numpy()
        self.tokens = int(state["tokens"])
        return self

    def _parts(self) -> dict[str, NDArray[Any]]:
        return {"memory": self._memory, "marks": self._marks, "sums": self._sums, "pairs": self._pairs}

    def push(self, token: ArrayLike) -> None:
        """Append one token, `channels` finite numbers: the way that takes microseconds, with nothing in between."""
        if np.shape(token) != self._token.shape:
            raise AlphabetError(f"token must have shape {self._token.shape}; got {np.shape(token)}")
        self._token[:] = token
        if not all(map(math.isfinite, self._token.tolist())):
            raise AlphabetError(
                f"token must be finite; got {self._token.tolist()}. feed(values, observed=...) masks gaps"
            )
        self.tokens = feed_tokens(self._token, EVERY, EVERY, self.tokens, *self._all)

    def feed(
        self,
        values: Tensor,
        *,
        time_delta: Tensor | None = None,
        observed: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Self:
        """Append a chunk (1, n, channels), n >= 0, with its masks."""
        if time_delta is not None:
            raise AlphabetError(NO_CLOCK)
        if isinstance(values, Tensor) and tuple(values.shape) == (1, 0, self.config.channels):
            return self
        sequence = read_sequence(values, channels=self.config.channels, like=self._like, observed=observed, valid=valid)
        if len(values) != 1:
            raise AlphabetError(f"values must hold one stream; got {len(values)}")
        given = EVERY if sequence.valid is None else as_bytes(sequence.valid)
        gate = EVERY if sequence.available is None else as_bytes(sequence.available)
        chunk = sequence.values.detach().contiguous().view(-1).numpy()
        self.tokens = feed_tokens(chunk, given, gate, self.tokens, *self._all)
        return self

    def describe(self) -> Tensor:
        """The descriptor (1, 2, M, 7) of all tokens so far, as the whole pass would give it."""
        return torch.from_numpy(self._finish()[0]).float().unsqueeze(0)

    def logits(self) -> Tensor:
        """The logits (1, K) of all tokens so far."""
        return torch.from_numpy(self._finish()[1]).float().unsqueeze(0)

    def _finish(self) -> tuple[Doubles, Doubles]:
        if self.tokens == 0:
            raise AlphabetError("values: no token has been fed yet; call push(token) or feed(values) first")
        np.copyto(self._spare, self._memory)
        descriptor, logits = np.empty((2, self._weights.modes, MOMENTS)), np.empty(len(self._bias))
        finish(self.tokens, self._weights.sizes, self._weights.packed, self._spare, self._marks, self._sums.copy(),
               np.maximum(self._pairs, 1.0), self._head, self._bias, descriptor, logits)  # fmt: skip
        return descriptor, logits
