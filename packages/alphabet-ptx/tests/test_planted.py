"""Faults planted in somebody else's kernels, Liger's, and caught by the plugin; `nox -s ptx-gallery` installs Liger."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("liger_kernel") is None or importlib.util.find_spec("triton") is None,
        reason="liger-kernel is not installed; `nox -s ptx-gallery` runs this file where it is",
    ),
]

# The module, what of it is replaced and by what, and a call of its launcher.
ARANGE = "tl.arange(0, BLOCK_SIZE)"
FAULTS = {
    "race": (
        "layer_norm",
        "DW_ptr + row_block_id * stride_dw + cols, dW_row",
        "DW_ptr + cols, dW_row",
        """
    x, w, b = (torch.randn(shape, requires_grad=True) for shape in ((8, 64), (64,), (64,)))
    planted.LigerLayerNormFunction.apply(x, w, b, 1e-5).sum().backward()
""",
        ["_layer_norm_backward_kernel: race, in the opposite order DW_ptr gets other values", "tl.store(DW_ptr + cols"],
    ),
    "missing barrier": (
        "cross_entropy",
        "        tl.debug_barrier()\n        softmax_X_y",
        "        softmax_X_y",
        """
    x, y = torch.randn(2, 3000, requires_grad=True), torch.tensor([5, 2900])
    planted.LigerCrossEntropyFunction.apply(x, y, None)[0].backward()
""",
        [
            "liger_cross_entropy_kernel: race, in the opposite order X_ptr gets other values",
            "tl.store(X_ptr + y, dx_y)",
        ],
    ),
    "misalignment": (
        "swiglu",
        f"    col_offsets = {ARANGE}\n",
        f"    col_offsets = tl.max_contiguous(tl.multiple_of({ARANGE} + 2, BLOCK_SIZE), BLOCK_SIZE)\n",
        """
    a, b = torch.randn(2, 1024), torch.randn(2, 1024)
    planted.LigerSiLUMulFunction.apply(a, b)
""",
        ["_swiglu_forward_kernel: misaligned access to global memory: 16 bytes at", "swiglu.py:"],
    ),
}


def run(folder: Path, module: str, before: str, after: str, call: str) -> str:
    """What pytest prints of a test that calls a launcher of Liger's, in whose source something was replaced."""
    origin = importlib.util.find_spec("liger_kernel")
    assert origin is not None
    assert origin.submodule_search_locations is not None
    source = Path(next(iter(origin.submodule_search_locations)), "ops", f"{module}.py").read_text(encoding="utf-8")
    assert before in source, "this version of Liger has other lines"
    folder.joinpath(f"{module}.py").write_text(source.replace(before, after, 1), encoding="utf-8")
    test = f"import pytest, torch\nimport {module} as planted\n\n@pytest.mark.ptx\ndef test_launcher():{call}"
    folder.joinpath("test_launcher.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "test_launcher.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", FAULTS)
def test_the_plugin_catches(name: str, tmp_path: Path) -> None:
    module, before, after, call, messages = FAULTS[name]
    found = run(tmp_path, module, before, after, call)
    assert "1 failed" in found, found
    for message in messages:
        assert message in found, found


@pytest.mark.parametrize("name", FAULTS)
def test_the_plugin_passes_what_liger_wrote(name: str, tmp_path: Path) -> None:
    module, before, _, call, _ = FAULTS[name]
    found = run(tmp_path, module, before, before, call)
    assert "1 passed" in found, found
