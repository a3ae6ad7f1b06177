"""A model as one safetensors file: weights, JSON configuration and a hash of both. Nothing is ever unpickled."""

import hashlib
import json
import os
import struct
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from alphabet_core.config import AlphabetConfig
from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame
from alphabet_core.model import Alphabet

FORMAT = "alphabet-core/1"


def save(model: Alphabet, path: str | Path) -> Path:
    """Write the model to `path` and return that path; all or nothing: a crash leaves an older file as it was."""
    if any(isinstance(bank.frame, FixedFrame) for bank in model.banks()):
        raise AlphabetError("model is a frozen copy, whose frames cannot train again; save the model it was made from")
    config = json.dumps(model.config.to_dict(), sort_keys=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    metadata = {"format": FORMAT, "config": config, "sha256": _digest(config, tensors)}
    target = Path(path)
    if not target.parent.is_dir():
        raise AlphabetError(f"path: the folder {target.parent} does not exist; create it first")
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        safetensors.torch.save_file(tensors, partial, metadata=metadata)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> Alphabet:
    """The model that `save` wrote, on the CPU, in evaluation mode; refuses a file whose hash does not match."""
    source = Path(path)
    if not source.is_file():
        raise AlphabetError(f"path: no file at {source}; expected one that alphabet_core.save wrote")
    try:
        with safetensors.safe_open(source, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies: what safetensors returns lies in the mapped file, at any address. Products would be rounded and
            # timed otherwise than in torch's own aligned memory, and whoever rewrote the file would change the model.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (safetensors.SafetensorError, struct.error) as problem:
        raise AlphabetError(f"path: {source} is not a readable safetensors file: {problem}") from problem
    if metadata.get("format") != FORMAT:
        raise AlphabetError(f"path: {source} has format {metadata.get('format')!r}; expected {FORMAT!r}")
    if metadata.get("sha256") != _digest(metadata.get("config", ""), tensors):
        raise AlphabetError(f"path: {source} does not match its own hash: the file is damaged or was edited")
    with torch.random.fork_rng(devices=[]):  # drawing values that the file replaces is not the caller's business
        model = Alphabet(AlphabetConfig.from_dict(json.loads(metadata["config"])))
    try:
        model.load_state_dict(tensors, strict=True, assign=True)  # keeps every tensor's own dtype
    except RuntimeError as problem:
        raise AlphabetError(f"path: {source} holds other tensors than its configuration needs: {problem}") from problem
    return model.eval()


def _digest(config: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 over the configuration and every tensor's name, dtype, shape and bytes, in name order."""
    digest = hashlib.sha256(config.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
