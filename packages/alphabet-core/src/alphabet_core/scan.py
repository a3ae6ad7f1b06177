"""Linear recurrences `z[t] = transition[t] * z[t-1] + drive[t]` over packed complex pairs.

Three algorithms share one signature and are swapped by passing another function:

    scan(transition, drive, initial=None) -> states
    transition (2M,) static or (B, T, 2M) time-varying;  drive, states (B, T, 2M);  initial (B, 2M) z[-1] or None, zero

`scan_sequential` is the definition. `scan_associative` has logarithmic depth. `scan_chunked` is the default: few, large
operations. All three differentiate with respect to every argument. A recurrence over plain real numbers is the
same code with `product=torch.mul` in place of the product of packed pairs.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from alphabet_core.pairs import multiply, pack, split

Scan = Callable[[Tensor, Tensor, Tensor | None], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]

CHUNK = 32
# While exporting the length is symbolic, so the chunk carry does a fixed number of doublings, enough for EXPORT_LENGTH
# tokens; short chunks keep the power tables that the file holds small.
EXPORT_CHUNK = 4
EXPORT_LEVELS = 15
EXPORT_LENGTH = EXPORT_CHUNK * (2**EXPORT_LEVELS - 2)


def scan_sequential(
    transition: Tensor, drive: Tensor, initial: Tensor | None = None, *, product: Product = multiply
) -> Tensor:
    """The states z[t] = transition[t] * z[t-1] + drive[t], z[-1] = initial, by definition: one token after another."""
    state = torch.zeros_like(drive[:, 0]) if initial is None else initial
    states = []
    for t in range(drive.shape[1]):
        step = transition if transition.ndim == 1 else transition[:, t]
        state = product(step, state) + drive[:, t]
        states.append(state)
    return torch.stack(states, dim=1)


def scan_associative(
    transition: Tensor, drive: Tensor, initial: Tensor | None = None, *, product: Product = multiply
) -> Tensor:
    """The same states by doubling: after level k each token holds the recurrence over its last 2**k tokens."""
    if drive.shape[1] == 1:  # no level would read the transition, whose gradient is zero and not None
        return scan_sequential(transition, drive, initial, product=product)
    states = drive if initial is None else _inject_initial(transition, drive, initial, product)
    return _doubling(transition, states, math.ceil(math.log2(max(1, drive.shape[1]))), product)


def scan_chunked(
    transition: Tensor, drive: Tensor, initial: Tensor | None = None, *, product: Product = multiply
) -> Tensor:
    """The same states chunk by chunk: every chunk from zero at once, then one short scan carries the chunks' ends.

    A static transition makes the work inside a chunk one matrix product with the Toeplitz matrix of its powers.
    """
    states = drive if initial is None else _inject_initial(transition, drive, initial, product)
    if transition.ndim == 1 and product is multiply:
        return _chunked_static(transition, states)
    return _chunked_varying(transition.expand_as(states), states, product)


SCANS: dict[str, Scan] = {
    "sequential": scan_sequential,
    "associative": scan_associative,
    "chunked": scan_chunked,
}


def _inject_initial(transition: Tensor, drive: Tensor, initial: Tensor, product: Product) -> Tensor:
    """Fold z[-1] into the first token's drive, after which the recurrence starts from zero."""
    first = transition if transition.ndim == 1 else transition[:, 0]
    return torch.cat(((drive[:, 0] + product(first, initial)).unsqueeze(1), drive[:, 1:]), dim=1)


def _doubling(transition: Tensor, states: Tensor, levels: int, product: Product = multiply) -> Tensor:
    length = states.shape[1]
    if transition.ndim == 1:
        transition = transition.double()  # repeated squaring would double the rounding of a slow pole at every level
    for level in range(levels):
        shift = 2**level
        earlier = F.pad(states, (0, 0, shift, 0))[:, :length]
        states = states + product(transition.to(states.dtype), earlier)
        if transition.ndim == 1:
            transition = product(transition, transition)
        else:
            # Tokens whose window already reaches the start meet only zero states, so any finite factor will do.
            transition = product(transition, F.pad(transition, (0, 0, shift, 0))[:, :length])
    return states


def tabulate_powers(transition: Tensor, count: int) -> Tensor:
    """The powers transition**0 ... transition**(count-1), (count, 2M), by doubling in float64."""
    base = transition.double()
    powers = pack(torch.ones_like(split(base)[0]), torch.zeros_like(split(base)[0])).unsqueeze(0)
    while powers.shape[0] < count:
        powers = torch.cat((powers, multiply(powers, base)))
        base = multiply(base, base)
    return powers[:count]


def _chunked_static(transition: Tensor, drive: Tensor) -> Tensor:
    batch, length, _ = drive.shape
    blocks = _split_chunks(drive)  # (B, chunks, chunk, 2M)
    chunks, chunk = blocks.shape[1:3]
    exact = tabulate_powers(transition, chunk + 1)  # (chunk+1, 2M) in float64
    powers = exact.to(drive.dtype)

    columns = blocks.unflatten(-1, (2, -1)).permute(4, 3, 2, 0, 1).flatten(3, 4).flatten(1, 2)  # (M, 2 chunk, B chunks)
    columns = torch.bmm(_toeplitz(powers, chunk), columns)
    local: Tensor = columns.unflatten(1, (2, chunk)).unflatten(-1, (batch, -1)).permute(3, 4, 2, 1, 0).flatten(-2)

    exporting = torch.compiler.is_exporting()
    levels = EXPORT_LEVELS if exporting else math.ceil(math.log2(chunks))
    ends = _doubling(exact[chunk], local[:, :, -1], levels)  # (B, chunks, 2M)
    carry = F.pad(ends, (0, 0, 1, 0))[:, :chunks]  # the end of the chunk before
    states = local + multiply(powers[1:], carry.unsqueeze(2))  # (B, chunks, chunk, 2M)
    if exporting:  # read by index: to flatten a symbolic number of chunks, torch asks how its size divides
        token = torch.arange(length, device=states.device)
        return states[:, token // chunk, token % chunk]
    return states.flatten(1, 2)[:, :length]


def _split_chunks(drive: Tensor) -> Tensor:
    """(B, T, 2M) -> (B, chunks, chunk, 2M), zero past the end."""
    length = drive.shape[1]
    if torch.compiler.is_exporting():
        # Two chunks or more and gathered by index: then no size depends on how a symbolic length divides.
        start = EXPORT_CHUNK * torch.arange(length // EXPORT_CHUNK + 2, device=drive.device)
        index = start.unsqueeze(1) + torch.arange(EXPORT_CHUNK, device=drive.device)
        return F.pad(drive, (0, 0, 0, 2 * EXPORT_CHUNK))[:, index]
    chunk = min(length, CHUNK)
    chunks = (length + chunk - 1) // chunk
    padded = F.pad(drive, (0, 0, 0, chunks * chunk - length))
    return padded.reshape(padded.shape[0], chunks, chunk, padded.shape[2])


def _toeplitz(powers: Tensor, size: int) -> Tensor:
    """(M, 2 size, 2 size): the real matrix that maps a chunk's packed drive to its states, per mode."""
    step = torch.arange(size, device=powers.device)
    lag = step[:, None] - step[None, :]
    table = torch.where((lag >= 0).unsqueeze(-1), powers[lag.clamp(min=0)], 0.0)  # (size, size, 2M)
    re, im = (part.permute(2, 0, 1) for part in split(table))
    return torch.cat((torch.cat((re, -im), dim=2), torch.cat((im, re), dim=2)), dim=1)


def _chunked_varying(transition: Tensor, drive: Tensor, product: Product) -> Tensor:
    length = drive.shape[1]
    drive, transition = _split_chunks(drive), _split_chunks(transition)  # (B, chunks, chunk, 2M)
    chunks, chunk = drive.shape[1:3]
    state, decay = drive[:, :, 0], transition[:, :, 0]
    states, decays = [state], [decay]
    for t in range(1, chunk):
        state = product(transition[:, :, t], state) + drive[:, :, t]
        decay = product(transition[:, :, t], decay)
        states.append(state)
        decays.append(decay)
    ends = scan_associative(decay, state, product=product)
    carry = F.pad(ends, (0, 0, 1, 0))[:, :chunks]
    whole = torch.stack(states, dim=2) + product(torch.stack(decays, dim=2), carry.unsqueeze(2))
    return whole.flatten(1, 2)[:, :length]
