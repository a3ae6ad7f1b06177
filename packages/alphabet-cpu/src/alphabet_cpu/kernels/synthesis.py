"""The cascaded bank's input from the direct bank's states and features, forward and backward (Algorithm 1, line 9)."""

from alphabet_cpu.compiling import kernel
from alphabet_cpu.kernels.lanes import LANES, load, store
from alphabet_cpu.kernels.lift import clear_masked


@kernel
def synthesize(lifted, tokens, width, through, valid, stream, first_row):
    """Add the lifted features and their feedthrough to the synthesized states, which `stream` holds from a row on."""
    features, scale = lifted.features, lifted.scale
    for v in range(0, width, LANES):
        share = load(through, v)
        for i in range(tokens.count):
            o = (first_row + i) * width + v
            store(stream, o, load(stream, o) + load(features, i * width + v) * (share * scale[i] + 1.0))
    if valid.given:
        clear_masked(stream, first_row, width, tokens, valid)


@kernel
def feedthrough_bwd(d_stream, lifted, rows, width, through, d_through, d_normed):
    """Add to the feedthrough's gradient, and to the normed features' times the norm's scale, given the stream's."""
    features, scale = lifted.features, lifted.scale
    for v in range(0, width, LANES):
        share, d_share = load(through, v), load(d_through, v)
        for t in range(rows):
            o = t * width + v
            d = load(d_stream, o)
            d_share = d_share + d * (load(features, o) * scale[t])
            store(d_normed, o, load(d_normed, o) + d * (share * scale[t]))
        store(d_through, v, d_share)
