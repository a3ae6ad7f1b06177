"""The model as a file for other runtimes: a frozen copy, `torch.export`, and ONNX.

Both exports take values (batch, length, channels) on a regular grid without masks; batch and length are dynamic.
"""

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from alphabet_core.arguments import require_folder, require_path
from alphabet_core.errors import AlphabetError
from alphabet_core.frame import FixedFrame
from alphabet_core.model import Alphabet, require_alphabet
from alphabet_core.scan import EXPORT_LENGTH, scan_chunked


def freeze(model: Alphabet) -> Alphabet:
    """An independent copy for inference, in evaluation mode: frames are stored as matrices and nothing trains."""
    frozen = copy.deepcopy(require_alphabet(model))
    for bank in frozen.banks():
        bank.frame = FixedFrame(bank.frame())
    return frozen.requires_grad_(False).eval()


def export_program(model: Alphabet) -> ExportedProgram:
    """The frozen model as a program of `torch.export`, with dynamic batch and length."""
    exportable, example, shapes = _export_arguments(model)
    return torch.export.export(exportable, (example,), dynamic_shapes=shapes)


def export_onnx(model: Alphabet, path: str | Path) -> Path:
    """Write the frozen model as one ONNX file and return its path; input `values`, output `logits`, dynamic sizes."""
    target = require_path(path)
    require_folder(target)
    require_alphabet(model)
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch.onnx needs it and would only say so deep inside)
    except ImportError as missing:
        raise AlphabetError("export_onnx needs onnx and onnxscript: pip install 'alphabet-core[onnx]'") from missing
    exportable, example, shapes = _export_arguments(model)
    program = torch.onnx.export(
        exportable,
        (example,),
        dynamo=True,
        verbose=False,
        dynamic_shapes=shapes,
        input_names=["values"],
        output_names=["logits"],
    )
    assert program is not None  # only the legacy exporter returns None
    proto = program.model_proto
    _strip_debug_records(proto)
    onnx.save_model(proto, str(target))
    return target


def _export_arguments(model: Alphabet) -> tuple[Alphabet, Tensor, dict[str, Any]]:
    exportable = freeze(model)
    exportable.scan = scan_chunked
    weight = exportable.project.weight
    example = torch.zeros(2, 64, model.config.channels, dtype=weight.dtype, device=weight.device)
    shapes = {"values": {0: Dim("batch", min=1), 1: Dim("length", min=1, max=EXPORT_LENGTH)}}
    return exportable, example, shapes


def _strip_debug_records(proto: Any) -> None:
    """Drop stack traces, inferred shapes and node names: nine tenths of the file, read by no runtime."""
    graph = proto.graph
    del graph.value_info[:]
    for record in (proto, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del record.metadata_props[:]
        record.doc_string = ""
    for node in graph.node:
        node.name = ""
