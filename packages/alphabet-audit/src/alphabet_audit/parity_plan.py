"""Which gates a parity run must hold on which device."""

from alphabet_audit.cases import PLANS

CPU, NATIVE, INTERPRETED = "cpu", "triton", "triton (interpreted)"


def expected_cases(device: str) -> list[tuple[str, str]]:
    """Runtime and key of every case; without CUDA the kernels' are there too, not run, and once more interpreted."""
    plans = [(CPU, "full"), (NATIVE, "full"), *([] if device == "cuda" else [(INTERPRETED, "reduced")])]
    return [(name, case.key) for name, plan in plans for case in PLANS[plan]]
