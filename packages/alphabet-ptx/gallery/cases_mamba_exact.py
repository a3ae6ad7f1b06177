"""mamba-ssm's chunked scan once more, in a process of its own, where every product keeps all bits of float32."""

from case import FP32, Compared, Source
from cases_mamba import ssd

EXACT_MAMBA = Source("mamba-ssm")


@EXACT_MAMBA.case("SSD forward and backward with exact products", FP32)
def ssd_backward() -> list[Compared]:
    from triton import knobs

    # Three tensor-core products of parts in place of one. A kernel that this process had compiled before would stay.
    knobs.language.fp32_default = "tf32x3"
    return ssd(50, 32, gradients=True)
