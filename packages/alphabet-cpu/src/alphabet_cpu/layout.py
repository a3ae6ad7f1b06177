"""The folded weights as one array: what lies where."""

from alphabet_core.fused import LIFT_OFFSETS

from alphabet_cpu.compiling import kernel

TAPS = len(LIFT_OFFSETS)


@kernel
def unpack(packed, sizes):
    """Views of one flat array, as long as this takes, in the order of `weights.arrange`; each a whole number of lanes.

    sizes: channels, features, and in whole lanes the features' width and the columns of all real and imaginary parts.
    """
    channels, _, width, columns = sizes
    project, taps, square = channels * width, (TAPS + 1) * width, width * columns
    a = project
    b = a + taps
    c = b + square
    d = c + columns
    e = d + square
    f = e + width
    g = f + taps
    h = g + square
    return (
        packed[:a], packed[a:b], packed[b:c], packed[c:d], packed[d:e], packed[e:f], packed[f:g], packed[g:h],
        packed[h : h + columns],
    )  # fmt: skip
