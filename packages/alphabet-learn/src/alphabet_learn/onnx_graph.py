"""Graph: ONNX nodes written one after the other, as expressions: `graph("Add", a, b)` gives the name of the sum."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, DTypeLike

Shape = tuple[int | str, ...]  # a word is a dynamic size
OPSET, IR_VERSION = 18, 8  # read by every onnxruntime since 1.14
FLOAT, DOUBLE = int(onnx.TensorProto.FLOAT), int(onnx.TensorProto.DOUBLE)


class Graph:
    """Nodes and constants under names that it makes up itself."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The output of a new node of this kind."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(self, kind: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """The outputs of a new node of this kind, which has so many."""
        outputs = [f"{self._prefix}{len(self._nodes)}.{number}" for number in range(count)]
        self._nodes.append(onnx.helper.make_node(kind, inputs, outputs, **attributes))
        return outputs

    def split(self, count: int, tensor: str, *, axis: int) -> list[str]:
        """A tensor in so many equal parts."""
        return self.several("Split", count, tensor, axis=axis, num_outputs=count)

    def constant(self, value: ArrayLike, dtype: DTypeLike = np.float32) -> str:
        """The name of a constant, which is stored once however often it is used."""
        array = np.array(value, dtype, order="C")
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = onnx.numpy_helper.from_array(array, f"{self._prefix}c{len(self._constants)}")
        return str(self._constants[key].name)

    def integers(self, *values: int) -> str:
        """A constant vector of integers, such as axes and places."""
        return self.constant(values, np.int64)

    def as_model(self, inputs: Mapping[str, Shape], outputs: Mapping[str, tuple[str, Shape]]) -> Any:
        """The model: inputs by shape, outputs by their name here and shape, all float32."""
        for name, (inner, _) in outputs.items():
            self._nodes.append(onnx.helper.make_node("Identity", [inner], [name]))
        described = {name: shape for name, (_, shape) in outputs.items()}
        model = onnx.helper.make_model(
            self._as_graph(inputs, described),
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="alphabet-learn",
        )
        onnx.checker.check_model(model)
        return model

    def as_body(self, inputs: list[str], outputs: list[str]) -> Any:
        """The body of a Scan, whose inputs and outputs are float32 of any shape."""
        return self._as_graph(dict.fromkeys(inputs), dict.fromkeys(outputs))

    def _as_graph(self, inputs: Mapping[str, Shape | None], outputs: Mapping[str, Shape | None]) -> Any:
        def describe(tensors: Mapping[str, Shape | None]) -> list[Any]:
            return [onnx.helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in tensors.items()]

        constants = list(self._constants.values())
        return onnx.helper.make_graph(self._nodes, "alphabet", describe(inputs), describe(outputs), constants)
