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

from alphabet_core.arguments import require_folder, require_path
from alphabet_core.config import AlphabetConfig
from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame
from alphabet_core.model import Alphabet, require_alphabet

FORMAT = "alphabet-core/1"
# What a model can be trained and run in; half precision and complex numbers it cannot.
DTYPES = (torch.bfloat16, torch.float32, torch.float64)
SIZES = ("channels", "width", "modes", "outputs", "energy_hidden")


def save(model: Alphabet, path: str | Path) -> Path:
    """Write the model to `path` and return that path; all or nothing: a crash leaves an older file as it was."""
    target = require_path(path)
    if any(isinstance(bank.frame, FixedFrame) for bank in require_alphabet(model).banks()):
        raise AlphabetError("model is a frozen copy, whose frames cannot train again; save the model it was made from")
    config = json.dumps(model.config.to_dict(), sort_keys=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    for name, tensor in tensors.items():
        if problem := _find_problem(tensor):
            raise AlphabetError(f"model: {name} {problem}, which could not be loaded again; it is not saved")
    metadata = {"format": FORMAT, "config": config, "sha256": _digest(config, tensors)}
    require_folder(target)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        safetensors.torch.save_file(tensors, partial, metadata=metadata)
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> Alphabet:
    """The model that `save` wrote, on the CPU, in evaluation mode; refuses a file whose hash does not match."""
    source = require_path(path)
    if not source.is_file():
        raise AlphabetError(f"path: no file at {source}; expected one that alphabet_core.save wrote")
    metadata, tensors = _read(source)
    if metadata.get("format") != FORMAT:
        raise AlphabetError(f"path: {source} has format {metadata.get('format')!r}; expected {FORMAT!r}")
    if metadata.get("sha256") != _digest(metadata.get("config", ""), tensors):
        raise AlphabetError(f"path: {source} does not match its own hash: the file is damaged or was edited")
    config = _read_config(metadata.get("config", ""), sum(tensor.numel() for tensor in tensors.values()), source)
    _require_tensors(config, tensors, source)
    with torch.random.fork_rng(devices=[]):  # drawing values that the file replaces is not the caller's business
        model = Alphabet(config)
    model.load_state_dict(tensors, strict=True, assign=True)  # keeps every tensor's own dtype
    return model.eval()


def _read(source: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """A file's metadata and tensors.

    Copies: what safetensors returns lies in the mapped file, at any address. Products would be rounded and timed
    otherwise than in torch's own aligned memory, and whoever rewrote the file would change the model.
    """
    try:
        with safetensors.safe_open(source, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return file.metadata() or {}, tensors
    except (
        safetensors.SafetensorError, struct.error, OSError, OverflowError, RuntimeError, TypeError, ValueError
    ) as problem:  # fmt: skip
        raise AlphabetError(f"path: {source} is not a readable safetensors file: {problem}") from problem


def _read_config(text: str, elements: int, source: Path) -> AlphabetConfig:
    """The configuration that a file's metadata hold. No size can be larger than the file's number of elements."""
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise AlphabetError(f"it is {type(fields).__name__}, not a mapping")
        config = AlphabetConfig.from_dict(fields)
    except (ValueError, RecursionError, TypeError, AlphabetError) as problem:
        raise AlphabetError(f"path: {source} has no readable configuration: {problem}") from problem
    for name in SIZES:
        if (getattr(config, name) or 0) > elements:
            raise AlphabetError(
                f"path: {source} holds other tensors than its configuration needs: {name} is larger than all of them"
            )
    return config


def _require_tensors(config: AlphabetConfig, tensors: dict[str, Tensor], source: Path) -> None:
    """Raise unless the tensors have the names and shapes of a model of this configuration, and finite numbers.

    The model that says so is built without memory: a configuration's sizes are not to be trusted before.
    """
    try:
        with torch.device("meta"):
            wanted = {name: tensor.shape for name, tensor in Alphabet(config).state_dict().items()}
    except (RuntimeError, OverflowError, TypeError) as problem:
        raise AlphabetError(f"path: {source} has a configuration of which no model can be made: {problem}") from problem
    if odd := sorted({*wanted} ^ {*tensors}):
        raise AlphabetError(f"path: {source} holds other tensors than its configuration needs: {', '.join(odd[:4])}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name]:
            raise AlphabetError(
                f"path: {source} holds other tensors than its configuration needs: {name} has shape "
                f"{tuple(tensor.shape)} and not {tuple(wanted[name])}"
            )
        if reason := _find_problem(tensor):
            raise AlphabetError(f"path: {source} holds a tensor that no model can use: {name} {reason}")


def _find_problem(tensor: Tensor) -> str | None:
    """Why a tensor cannot be part of a model, in words that follow its name, or None."""
    if tensor.dtype not in DTYPES:
        return f"is {tensor.dtype}; expected one of {', '.join(map(str, DTYPES))}"
    return None if bool(torch.isfinite(tensor).all()) else "has a value that is not finite"


def _sync(path: Path) -> None:
    """Let what was written to a file, or the names in a folder, outlive a power cut; where folders cannot, files do."""
    if path.is_dir() and os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(config: str, tensors: dict[str, Tensor]) -> str:
    """SHA-256 over the configuration and every tensor's name, dtype, shape and bytes, in name order."""
    digest = hashlib.sha256(config.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
