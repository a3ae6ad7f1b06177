"""An engine as an ONNX graph of few hundred nodes, whatever the number of its models.

All models of all views are stacked. Features lie in one axis F and the states' real and imaginary parts in one axis M
each, which run over models and modes. Views that are shorter than the series, and the series up to a whole number of
chunks, are padded with tokens that do not count. The recurrence runs through chunks of four tokens, one token of every
chunk at a time, and an ONNX Scan carries states from chunk to chunk.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from alphabet_core.fused import LAGS, LIFT_OFFSETS, LIFT_REACH, NORM_EPSILON, Bank
from alphabet_core.pairs import to_complex
from numpy.typing import NDArray

from alphabet_learn.banks import Lens
from alphabet_learn.calibration import Calibration
from alphabet_learn.closed_form import ClosedForm, Head
from alphabet_learn.onnx_graph import DOUBLE, FLOAT, Graph
from alphabet_learn.poles import lenses_of, read_head
from alphabet_learn.trained import Trained

Array = NDArray[Any]
CHUNK = 4  # no shorter than the longest lag; longer chunks make more nodes and nothing faster


class Complex(NamedTuple):
    """The names of the real and the imaginary parts of complex numbers."""

    re: str
    im: str


def write_engine(engine: ClosedForm | Trained, channels: int) -> Any:
    """The model: `values` (batch, channels, length) to probabilities and scores, or to predictions of a regression."""
    graph, lenses, head = Graph(), lenses_of(engine), read_head(engine)
    scores = write_scores(graph, Network(graph, lenses)("values"), arrange_head(head, lenses))
    named = {"predictions" if engine.calibration is None else "scores": (scores, head.weights.shape[1])}
    if engine.calibration is not None:
        classes = 2 if engine.calibration.form == "binary" else head.weights.shape[1]
        named = {"probabilities": (write_probabilities(graph, scores, engine.calibration), classes), **named}
    outputs = {name: (graph("Cast", inner, to=FLOAT), ("batch", size)) for name, (inner, size) in named.items()}
    return graph.as_model({"values": ("batch", channels, "length")}, outputs)


def write_scores(graph: Graph, coordinates: str, head: Head) -> str:
    """Scores (B, K) of coordinates (B, P), both float64."""
    centred = graph("Sub", coordinates, graph.constant(head.mean, np.float64))
    weighted = graph("MatMul", centred, graph.constant(head.factor[:, None] * head.weights, np.float64))
    return graph("Add", weighted, graph.constant(head.intercept, np.float64))


def write_probabilities(graph: Graph, scores: str, calibration: Calibration) -> str:
    """Calibrated probabilities of scores (B, K), both float64."""
    scaled = graph("Mul", scores, graph.constant(calibration.scale, np.float64))
    if calibration.form == "multiclass":
        return graph("Softmax", scaled, axis=1)
    if calibration.form == "binary":
        scaled = graph("Concat", graph("Neg", scaled), scaled, axis=1)
    return graph("Sigmoid", scaled)


def arrange_head(head: Head, lenses: tuple[Lens, ...]) -> Head:
    """The head for coordinates in the order that `Network` writes: bank, moment, model, mode."""
    models = [model for lens in lenses for model in lens.banks]
    modes, moments = models[0].config.modes, models[0].config.coordinates
    order = np.arange(len(head.mean)).reshape(len(models), 2, modes, moments).transpose(1, 3, 0, 2).ravel()
    return Head(head.mean[order], head.factor[order], head.weights[order], head.intercept)


class Network:
    """What writes `coordinates` (B, P) float64 for the name of raw values (B, C, T): Algorithm 1 for all models."""

    def __init__(self, graph: Graph, lenses: tuple[Lens, ...]) -> None:
        self.graph, self.lenses = graph, lenses
        self.models = [model for lens in lenses for model in lens.banks]
        self.lens_of_model = np.repeat(np.arange(len(lenses)), [len(lens.banks) for lens in lenses])
        config = self.models[0].config
        self.count, self.width, self.modes = len(self.models), config.width, config.modes
        # Random banks have the identity for a frame: then features lie like states, and nothing is multiplied.
        frames = [bank.frame() for model in self.models for bank in model.banks()]
        self.paired = config.width == 2 * config.modes and all(frame.equal(torch.eye(config.width)) for frame in frames)

    def __call__(self, values: str) -> str:
        g = self.graph
        series = g("Transpose", values, perm=[0, 2, 1])  # (B, T, C)
        length = g("Shape", series, start=1, end=2)
        chunks = g("Div", g("Add", length, g.integers(CHUNK - 1)), g.integers(CHUNK))
        self.length, self.padded = length, g("Mul", chunks, g.integers(CHUNK))
        scalar = g("Squeeze", self.padded)
        self.token = g("Range", g.constant(0, np.int64), scalar, g.constant(1, np.int64))  # (T',)
        seen = [self.see(series, lens) for lens in self.lenses]
        inputs = g("Concat", *(view for view, _ in seen), axis=2)  # (B, T', views * C)
        valid = g("Concat", *(mask for _, mask in seen), axis=1)  # (T', views)

        direct, cascaded = ([model.banks()[index] for model in self.models] for index in (0, 1))
        features, weight = self.project(inputs)
        lifted = self.lift(features, direct, weight)
        normed = self.norm(lifted)
        states = self.scan(self.drive(normed, direct), direct)
        of_feature = self.arrange(np.repeat(self.lens_of_model[:, None], self.width, axis=1))
        counted = g("Gather", valid, g.constant(of_feature, np.int32), axis=1)  # (T', F)
        stream = g("Where", counted, self.synthesize(lifted, normed, states), g.constant(0.0))
        of_mode = np.repeat(self.lens_of_model, self.modes)
        mask = g("Cast", g("Gather", valid, g.constant(of_mode, np.int32), axis=1), to=FLOAT)  # (T', M)
        counts = g("ReduceSum", mask, g.integers(0), keepdims=0)  # (M,)
        rows = g("Reshape", mask, g.integers(1, -1, CHUNK, self.count * self.modes))
        masks = g.split(CHUNK, rows, axis=2)
        found = self.describe(states, masks, counts)
        lifted = self.lift(stream, cascaded, np.ones(self.count * self.width))
        states = self.scan(self.drive(self.norm(lifted), cascaded), cascaded)
        return g("Concat", *found, *self.describe(states, masks, counts), axis=1)

    def see(self, series: str, lens: Lens) -> tuple[str, str]:
        """A view, standardized and padded at its end (B, T', C), and which of its tokens are valid (T', 1).

        Of a single token there is no change, and no token of that view is valid.
        """
        g, span = self.graph, lens.view.span
        last = g("Sub", self.length, g.integers(1))

        def rows(place: str) -> str:
            return g("Gather", series, g("Min", place, last), axis=1)

        if lens.view.kind == "averages":
            start = g("Mul", self.token, g.integers(span))
            places = [g("Add", start, g.integers(k)) for k in range(span)]
            inside = [g("Cast", g("Less", place, self.length), to=FLOAT) for place in places]
            column = [g("Unsqueeze", each, g.integers(1)) for each in inside]
            total = g("Sum", *(g("Mul", rows(place), each) for place, each in zip(places, column, strict=True)))
            seen = g("Div", total, g("Max", g("Sum", *column), g.constant(1.0)))
            valid = g("Less", start, self.length)
        elif lens.view.kind == "changes":
            seen = g("Sub", rows(g("Add", self.token, g.integers(1))), rows(self.token))
            valid = g("Less", self.token, last)
        else:
            seen, valid = rows(self.token), g("Less", self.token, self.length)
        valid = g("Unsqueeze", valid, g.integers(1))
        centred = g("Sub", g("Cast", seen, to=DOUBLE), g.constant(lens.scaler.mean, np.float64))
        scaled = g("Cast", g("Div", centred, g.constant(lens.scaler.deviation, np.float64)), to=FLOAT)
        return g("Where", valid, scaled, g.constant(0.0)), valid

    def project(self, inputs: str) -> tuple[str, Array]:
        """Features (B, T', F) of the channels of all views, up to a factor (F,) that goes into the lift.

        Where every feature reads one channel, as in random banks, it is gathered instead of multiplied.
        """
        g, channels = self.graph, self.models[0].config.channels
        matrix = np.zeros((self.count, self.width, len(self.lenses), channels), np.float32)
        for number, model in enumerate(self.models):
            matrix[number, :, self.lens_of_model[number]] = model.project.weight.detach().numpy()
        matrix = self.arrange(matrix.reshape(self.count, self.width, -1))  # (F, views * C)
        if (matrix != 0).sum(axis=1).max() > 1:
            return g("MatMul", inputs, g.constant(matrix.T)), np.ones(len(matrix))
        channel = np.abs(matrix).argmax(axis=1)
        return g("Gather", inputs, g.constant(channel, np.int32), axis=2), matrix[np.arange(len(matrix)), channel]

    def arrange(self, tensors: Array) -> Array:
        """What each model has per feature (models, D, ...) as (F, ...); paired: real parts first, then imaginary."""
        if self.paired:
            tensors = tensors.reshape(self.count, 2, self.modes, *tensors.shape[2:]).swapaxes(0, 1)
        return tensors.reshape(self.count * self.width, *tensors.shape[3 if self.paired else 2 :])

    def lift(self, features: str, banks: list[Bank], weight: Array) -> str:
        """The SiLU of five taps: (B, T', F) to (B, T', F)."""
        g = self.graph
        kernel = self.arrange(_stack([bank.lift.kernel for bank in banks])) * weight[:, None]
        bias = self.arrange(_stack([bank.lift.bias for bank in banks]))
        around = g("Pad", features, g.integers(LIFT_REACH, LIFT_REACH), "", g.integers(1))
        taps = []
        for offset, column in zip(LIFT_OFFSETS, kernel.T, strict=True):
            start = g.integers(LIFT_REACH + offset)
            tap = g("Slice", around, start, g("Add", self.padded, start), g.integers(1))
            taps.append(g("Mul", tap, g.constant(column)))
        total = g("Sum", *taps, g.constant(bias))
        return g("Mul", total, g("Sigmoid", total))

    def norm(self, features: str) -> str:
        """Each model's features (B, T', F) divided by their root mean square; gains go into what reads them."""
        g = self.graph
        shape = (2, self.count, self.modes) if self.paired else (self.count, self.width)
        axes = (2, 4) if self.paired else (3,)
        parts = g("Reshape", features, g.integers(0, 0, *shape))
        mean = g("Div", g("ReduceSumSquare", parts, g.integers(*axes)), g.constant(float(self.width)))
        scaled = g("Div", parts, g("Sqrt", g("Add", mean, g.constant(NORM_EPSILON))))
        return g("Reshape", scaled, g.integers(0, 0, self.count * self.width))

    def drive(self, normed: str, banks: list[Bank]) -> Complex:
        """What is injected into the states, (B, T', M)."""
        g = self.graph
        gains = _stack([bank.norm.gain for bank in banks])  # (models, D)
        holds = _stack([to_complex(bank.poles.hold(torch.ones(())).gain) for bank in banks])  # (models, M)
        if self.paired:
            parts = Complex(*g.split(2, normed, axis=2))
            first, second = (gains[:, half] * holds for half in (slice(self.modes), slice(self.modes, None)))
            return _combine(g, parts, first.ravel(), second.ravel())
        frames = _stack([bank.frame() for bank in banks])  # (models, D, 2M)
        columns = (frames[..., : self.modes] + 1j * frames[..., self.modes :]) * gains[..., None] * holds[:, None, :]
        features = g.split(self.count, normed, axis=2) if self.count > 1 else [normed]
        found = [
            Complex(g("MatMul", part, g.constant(matrix.real)), g("MatMul", part, g.constant(matrix.imag)))
            for part, matrix in zip(features, columns, strict=True)
        ]
        return Complex(*(g("Concat", *parts, axis=2) for parts in zip(*found, strict=True)))

    def scan(self, drive: Complex, banks: list[Bank]) -> list[Complex]:
        """The states of the tokens at each of the places in a chunk, (B, chunks, 1, M) each."""
        g, transition = self.graph, _stack([to_complex(b.poles.hold(torch.ones(())).transition) for b in banks]).ravel()
        rows = g.integers(0, -1, CHUNK, len(transition))
        halves = [g.split(CHUNK, g("Reshape", half, rows), axis=2) for half in drive]
        injected = [Complex(*parts) for parts in zip(*halves, strict=True)]
        end = self.step_through(injected, None, transition)[-1]
        # Of the transition as it was rounded, which is what a pass by steps multiplies by.
        body = Graph("b.")
        moved = _multiply(body, Complex("b.re", "b.im"), transition.astype(np.complex128) ** CHUNK)
        after = [body("Add", part, f"b.end_{name}") for part, name in zip(moved, ("re", "im"), strict=True)]
        before = [body("Identity", name) for name in ("b.re", "b.im")]
        shape = g("Shape", g("Gather", end.re, g.constant(0, np.int64), axis=1))
        start = g("ConstantOfShape", shape)
        carried = g.several(
            "Scan", 4, start, start, *end, num_scan_inputs=2, scan_input_axes=[1, 1], scan_output_axes=[1, 1],
            body=body.as_body(["b.re", "b.im", "b.end_re", "b.end_im"], [*after, *before]),
        )  # fmt: skip
        return self.step_through(injected, Complex(*carried[2:]), transition)

    def step_through(self, injected: list[Complex], state: Complex | None, transition: Array) -> list[Complex]:
        """The states after each token of a chunk that begins in some state."""
        g, states = self.graph, []
        for drive in injected:
            if state is not None:
                moved = _multiply(g, state, transition)
                drive = Complex(g("Add", moved.re, drive.re), g("Add", moved.im, drive.im))
            state = drive
            states.append(state)
        return states

    def synthesize(self, lifted: str, normed: str, states: list[Complex]) -> str:
        """What the cascaded bank reads, (B, T', F)."""
        g, modes = self.graph, self.count * self.modes
        scale, through = (
            self.arrange(_stack([getattr(model.synthesis, name) for model in self.models]))
            for name in ("scale", "feedthrough")
        )
        gains = self.arrange(_stack([model.banks()[0].norm.gain for model in self.models]))
        parts = Complex(*(g("Concat", *part, axis=2) for part in zip(*states, strict=True)))
        parts = Complex(*(g("Reshape", part, g.integers(0, -1, modes)) for part in parts))  # (B, T', M)
        if self.paired:
            features = g("Concat", *parts, axis=2)
        else:
            frames = _stack([model.banks()[0].frame() for model in self.models])
            split = [g.split(self.count, part, axis=2) if self.count > 1 else [part] for part in parts]
            features = g("Concat", *(
                g("MatMul", g("Concat", re, im, axis=2), g.constant(frame.T))
                for re, im, frame in zip(*split, frames, strict=True)
            ), axis=2)  # fmt: skip
        return g(
            "Sum", lifted, g("Mul", features, g.constant(scale)), g("Mul", normed, g.constant(scale * through * gains))
        )

    def describe(self, states: list[Complex], masks: list[str], counts: str) -> list[str]:
        """The seven moments (B, M) float64 of states, conditioned: the log energy, then two parts per lag."""
        g = self.graph
        kept = [
            Complex(g("Mul", state.re, mask), g("Mul", state.im, mask))
            for state, mask in zip(states, masks, strict=True)
        ]
        # The states before the first of a chunk are the last of the chunk before.
        reach = max(LAGS)
        history = [Complex(self.shift(state.re), self.shift(state.im)) for state in kept[-reach:]] + kept
        energy = self.average([g("Mul", part, part) for state in kept for part in state], counts, 0)
        found = [g("Log", g("Add", energy, g.constant(1.0, np.float64)))]
        for lag in LAGS:
            pairs = list(zip(kept, history[reach - lag :], strict=False))
            re = self.average(
                [g("Mul", a, b) for now, then in pairs for a, b in zip(now, then, strict=True)], counts, lag
            )
            forth = self.average([g("Mul", now.im, then.re) for now, then in pairs], counts, lag)
            back = self.average([g("Mul", now.re, then.im) for now, then in pairs], counts, lag)
            found += self.radial_log(re, g("Sub", forth, back))
        return found

    def shift(self, rows: str) -> str:
        """Rows (B, chunks, 1, M) one chunk later, zero in the first."""
        g = self.graph
        return g(
            "Slice", g("Pad", rows, g.integers(1, 0), "", g.integers(1)), g.integers(0), g.integers(-1), g.integers(1)
        )

    def average(self, products: list[str], counts: str, lag: int) -> str:
        """The sum of products (B, chunks, 1, M) over tokens, by the number of pairs at this lag: (B, M) float64."""
        g = self.graph
        total = g("ReduceSum", g("Sum", *products), g.integers(1, 2), keepdims=0)
        pairs = g("Max", g("Sub", counts, g.constant(float(lag))), g.constant(1.0))
        return g("Cast", g("Div", total, pairs), to=DOUBLE)

    def radial_log(self, re: str, im: str) -> list[str]:
        """Both parts of log(1 + |u|) u / |u|, zero at zero."""
        g, one = self.graph, self.graph.constant(1.0, np.float64)
        radius = g("Sqrt", g("Add", g("Mul", re, re), g("Mul", im, im)))
        divisor = g("Max", radius, g.constant(np.finfo(np.float64).tiny, np.float64))
        ratio = g("Div", g("Log", g("Add", radius, one)), divisor)
        return [g("Mul", re, ratio), g("Mul", im, ratio)]


def _combine(graph: Graph, parts: Complex, first: Array, second: Array) -> Complex:
    """The sum of `first` times the real and `second` times i times the imaginary parts, for complex factors (M,)."""
    re, im = (
        [graph("Mul", part, graph.constant(factor)) for factor in factors]
        for part, factors in ((parts.re, (first.real, first.imag)), (parts.im, (-second.imag, second.real)))
    )
    return Complex(graph("Add", re[0], im[0]), graph("Add", re[1], im[1]))


def _multiply(graph: Graph, parts: Complex, factor: Array) -> Complex:
    """The complex product with factors (M,)."""
    return _combine(graph, parts, factor, factor)


def _stack(tensors: list[torch.Tensor]) -> Array:
    return np.stack([tensor.detach().numpy() for tensor in tensors])
