"""What is known of the races and failures in the gallery: judged by reading the kernels, not computed."""

import re

# Why a race of this kernel is harmless, or not.
KNOWN_RACES = {
    "liger_cross_entropy_kernel": "harmless: all replicas load a logit that one of them then replaces by its gradient",
    "element_mul_kernel": "harmless: all replicas load a value that one of them then replaces by its product",
    "_triton_rope": "harmless: all replicas load a value that one of them then turns in place",
    "_moe_router_histogram_kernel": "true: counts are zeroed by some threads and added to atomically by others, "
    "with no barrier between",
    "fused_recurrent_bwd_kernel": "true, in the last bit: replicas round a value differently and store it in one place",
    "_rms_norm_add_kernel": "harmless: all replicas load a value that one of them then replaces by the sum",
    "_layer_norm_bwd_dx_fused": "true by the letter: a count, read weakly under a lock, is changed by an atomic",
    "chunk_hgrn_bwd_kernel_o": "true: the loop stores the gradients of a chunk, and for the chunk before it other "
    "threads load the first of them, with no barrier between",
}

# Why a case is refused, in words.
REFUSALS = {
    (
        "accelerated-scan",
        "real, T no multiple of the block",
    ): "A fault of the source: it reads behind the sequence's end",
    ("flash-attn", "linear layer with activation"): "Written for Triton 2: it imports a module that Triton 3 has not",
    ("flash-attn", "attention"): "Written for Triton 2: Triton 3.7 does not compile it",
    ("xformers", "product of tiles"): "It estimates its kernels' times from the clock rates of a GPU",
}

# The causes of failures among Triton's tests, by what their names or messages have in them; the first that fits.
PATTERNS = (
    (r"test_int_annotation", "the test's kernel writes behind its array of one element"),
    (
        r"is unknown, in register \S+ global memory to which nothing",
        "the test's kernel copies an empty tensor, which is refused as memory that nobody wrote",
    ),
    (r"jit_hook", "empties the cache of device 0; kernels that run here are kept apart from any GPU's"),
    (r"test_memory_leak", "the device's report keeps every launch, which the test takes for a leak"),
    (r"libdevice\.10\.bc", "needs files of Triton's sources beside its tests"),
    (r"globaltimer|%smid|%clock", "asks for the time, or for the processor that it runs on"),
    (r"test_pointer_arguments", "asks for tensors that are not on the device to be refused, or for pinned memory"),
    (r"more than \d+ s", "takes longer than the time limit"),
    (r"OutOfResources", "needs more shared memory than this architecture has"),
    (r"assert '(mma|ld|st|wgmma)", "asserts which instructions another architecture has"),
    (r"Torch not compiled with CUDA|no pinned memory", "asks torch for memory of a real device"),
    (r"no GPU here whose time|CUDAGraph|elapsed_time", "asks for times of a real device"),
    (r"vprintf", "prints from the device"),
    (r"__assertfail", "an assertion on the device"),
    (r"unknown instruction", "an instruction that is not covered"),
    (r"uninitialised register", "a register without a value"),
    (r"out of range", "an access out of range"),
    (r"cannot read the|unknown special register|is not covered|not covered", "a form of PTX that is not covered"),
)
OTHER = "another cause"
NOT_OURS = {
    "the test's kernel writes behind its array of one element",
    "needs files of Triton's sources beside its tests",
    "asks for the time, or for the processor that it runs on",
    "asks for tensors that are not on the device to be refused, or for pinned memory",
    "needs more shared memory than this architecture has",
    "asserts which instructions another architecture has",
    "asks torch for memory of a real device",
    "asks for times of a real device",
    "prints from the device",
}
CAUSES = {cause: cause not in NOT_OURS for cause in [*(cause for _, cause in PATTERNS), OTHER]}


def explain(test: str, reason: str) -> str:
    """The cause of a failure, from the test's name and what was raised."""
    for pattern, cause in PATTERNS:
        if re.search(pattern, f"{test} {reason}"):
            return cause
    return OTHER
