"""What a GPU does not have is refused, by `execute` as well."""

import numpy as np
import pytest
from alphabet_ptx import PtxError, execute
from alphabet_testing.ptx.snippets import make_kernel


@pytest.mark.parametrize(
    ("arch", "most"), [("sm_80", 166_912), ("sm_86", 101_376), ("sm_89", 101_376), ("sm_90a", 232_448)]
)
def test_more_shared_memory_than_there_is(arch, most):
    text = make_kernel("mov.u32 %r0, %tid.x;", ["u64"]).replace("sm_80", arch)
    execute(text, 1, [np.zeros(1)], shared=most)
    message = f"kernel k asks for {most + 1} bytes of shared memory; a block of sm_{arch[3:5]} has {most}: take smaller"
    with pytest.raises(PtxError, match=message):
        execute(text, 1, [np.zeros(1)], shared=most + 1)


def test_declared_shared_memory_counts_as_well():
    text = make_kernel("mov.u32 %r0, %tid.x;", ["u64"]).replace(
        ".visible .entry", ".shared .align 16 .b8 table[160000];\n.visible .entry"
    )
    execute(text, 1, [np.zeros(1)], shared=6_000)
    with pytest.raises(PtxError, match="asks for 167000 bytes of shared memory; a block of sm_80 has 166912"):
        execute(text, 1, [np.zeros(1)], shared=7_000)


def test_a_grid_of_more_programs_than_steps():
    text = make_kernel("mov.u32 %r0, %tid.x;", ["u64"])
    with pytest.raises(PtxError, match="the grid of k is 200 x 1 x 1, more programs than the 100 steps"):
        execute(text, 200, [np.zeros(1)], limit=100)
