"""The contract between the reference and the runtimes that fuse it: all that such a runtime may import of the core.

dispatch    FusedDispatch: which calls kernels cover, and why the reference runs the others
layout      where tensors lie, and of which shapes they must be
runtime     FusedRuntime and FusedTrainer: the bases of inference and of complete training steps
folding     the model's factors multiplied out: what kernels read instead of the parameters
watching    ModelWatch and SettingsMemo: what a call must know of them, in a few microseconds
adamw       the settings of torch's AdamW, for optimizer kernels
graphs      work recorded once into a CUDA graph and replayed

The constants below are those that kernels freeze when they are compiled.
"""

from alphabet_core.arguments import require_number
from alphabet_core.frame import TANGENT_SCALE, FixedFrame, Frame
from alphabet_core.fused.adamw import CLIP_EPSILON, AdamWSettings, read_adamw_settings
from alphabet_core.fused.dispatch import (
    FUSED,
    LAGS,
    MOMENTS,
    FusedDispatch,
    call_fallback_reason,
    describe_path,
    gradient_fallback_reason,
    list_modules,
    list_tensors,
    model_fallback_reason,
    module_fallback_reason,
    structure_fallback_reason,
)
from alphabet_core.fused.folding import Folded, FoldedBank, FoldedParts, fold, fold_parts
from alphabet_core.fused.graphs import Capture, GraphCapture, Run, restore, run_eagerly, warm_up
from alphabet_core.fused.runtime import FusedRuntime, FusedTrainer
from alphabet_core.fused.watching import ModelWatch, SettingsMemo
from alphabet_core.grid import LIFT_OFFSETS, LIFT_REACH, LONGEST_STEP, SNAP
from alphabet_core.head import EnergyHead
from alphabet_core.model import Bank, require_alphabet
from alphabet_core.norm import EPSILON as NORM_EPSILON
from alphabet_core.poles import DECAY_MAX, DECAY_MIN, FREQUENCY_MAX
from alphabet_core.sequence import check_lengths, values_checked, values_must_be_checked
from alphabet_core.streaming import NO_CLOCK, count_tokens, identify_model, require_same_model
from alphabet_core.training import LOSSES

__all__ = [
    "CLIP_EPSILON",
    "DECAY_MAX",
    "DECAY_MIN",
    "FREQUENCY_MAX",
    "FUSED",
    "LAGS",
    "LIFT_OFFSETS",
    "LIFT_REACH",
    "LONGEST_STEP",
    "LOSSES",
    "MOMENTS",
    "NORM_EPSILON",
    "NO_CLOCK",
    "SNAP",
    "TANGENT_SCALE",
    "AdamWSettings",
    "Bank",
    "Capture",
    "EnergyHead",
    "FixedFrame",
    "Folded",
    "FoldedBank",
    "FoldedParts",
    "Frame",
    "FusedDispatch",
    "FusedRuntime",
    "FusedTrainer",
    "GraphCapture",
    "ModelWatch",
    "Run",
    "SettingsMemo",
    "call_fallback_reason",
    "check_lengths",
    "count_tokens",
    "describe_path",
    "fold",
    "fold_parts",
    "gradient_fallback_reason",
    "identify_model",
    "list_modules",
    "list_tensors",
    "model_fallback_reason",
    "module_fallback_reason",
    "read_adamw_settings",
    "require_alphabet",
    "require_number",
    "require_same_model",
    "restore",
    "run_eagerly",
    "structure_fallback_reason",
    "values_checked",
    "values_must_be_checked",
    "warm_up",
]
