"""The official mamba-ssm module with the same weights; imported only when it is asked for, and only then needed."""

from collections.abc import Callable

import torch
from alphabet_core import AlphabetError
from torch import nn

from alphabet_baselines.mamba import ALGORITHMS, EXPANSION, MambaMixer

REMEDY = "on a machine with CUDA: pip install 'alphabet-baselines[official]' (mamba-ssm and causal-conv1d)"


def to_official(mixer: nn.Module, module: Callable[..., nn.Module] | None = None) -> nn.Module:
    """An official `Mamba` with the mixer's weights and its fast path on; `module` is its class, imported if None."""
    if not isinstance(mixer, MambaMixer):
        raise AlphabetError(f"mixer must be a MambaMixer; got {type(mixer).__name__}")
    weight = mixer.in_proj.weight
    module = module or _official_class()
    official = module(
        d_model=mixer.in_proj.in_features,
        d_state=mixer.state,
        d_conv=mixer.conv1d.kernel_size[0],
        expand=EXPANSION,
        use_fast_path=True,
        device=weight.device,
        dtype=weight.dtype,
    )
    official.load_state_dict(mixer.state_dict())
    return official


def from_official(official: nn.Module, algorithm: str = ALGORITHMS[0]) -> MambaMixer:
    """A `MambaMixer` with the weights of an official module, whose sizes are read off them."""
    state = official.state_dict()
    if set(state) != set(MambaMixer(1, 1, 1).state_dict()):
        raise AlphabetError(
            f"official must be a mamba_ssm Mamba with its default biases; got {type(official).__name__}"
        )
    width, inner = state["out_proj.weight"].shape
    rank = state["dt_proj.weight"].shape[1]
    mixer = MambaMixer(width, state["A_log"].shape[1], state["conv1d.weight"].shape[-1], algorithm)
    if inner != EXPANSION * width or rank != mixer.dt_proj.in_features:
        raise AlphabetError(
            f"official must have expand={EXPANSION} and dt_rank='auto' ({mixer.dt_proj.in_features}); "
            f"got an inner width of {inner} for width {width}, and dt_rank {rank}"
        )
    mixer.to(dtype=state["out_proj.weight"].dtype, device=state["out_proj.weight"].device)
    mixer.load_state_dict(state)
    return mixer


def _official_class() -> Callable[..., nn.Module]:
    if not torch.cuda.is_available():
        raise AlphabetError(f"algorithm='official' runs on a CUDA device, and none is visible here; {REMEDY}")
    try:
        from mamba_ssm.modules.mamba_simple import Mamba, causal_conv1d_fn
    except ImportError as error:
        raise AlphabetError(f"algorithm='official' needs the official kernels ({error}); {REMEDY}") from error
    if causal_conv1d_fn is None:
        raise AlphabetError(f"causal-conv1d is missing, without which mamba-ssm has no fast path; {REMEDY}")
    official: Callable[..., nn.Module] = Mamba
    return official
