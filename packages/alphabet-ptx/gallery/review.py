"""Which rows of the gallery stand for what the review of 6b39ecb launched, as far as the review says."""

# The review's groups, in its words: how many launches, how many of them were right, and which rows cover them. It names
# what it launched by its subject only, so that a launch cannot be matched with a row one to one.
GROUPS: tuple[tuple[str, int, int, tuple[str, ...], str], ...] = (
    (
        "Liger: norms, softmax, cross entropy, rope, GLU, JSD, mixture of experts",
        13,
        13,
        ("liger-kernel",),
        "every subject that it names",
    ),
    ("mamba-ssm: state update, norms, SSD forward and backward", 5, 5, ("mamba-ssm",), "every subject that it names"),
    (
        "flash-linear-attention: linear attention, GLA, gated delta, convolution, cumsum",
        8,
        8,
        ("flash-linear-attention",),
        "every subject that it names",
    ),
    (
        "tutorials 02-07, 09",
        12,
        10,
        ("triton",),
        "the launchers of 01 to 09, among them the two that it found refused: fp8 and grouped products",
    ),
    (
        "FlagGems: topk, radix sort, scatter, unique, conv2d",
        17,
        12,
        ("flag-gems",),
        "the five that it names and others; the twelve that it does not name cannot be identified",
    ),
    (
        "others (causal-conv1d, flash-attn, xformers, torchao, accelerated-scan)",
        12,
        5,
        ("causal-conv1d", "flash-attn", "xformers", "torchao", "accelerated-scan"),
        "it names packages only, and two that Triton 3.7 cannot compile: flash-attn's linear layer and attention are "
        "such",
    ),
)
