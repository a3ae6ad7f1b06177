"""Engines taken apart into tensors and plain facts, and put together again; `storage` writes and reads both."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch
from alphabet_core import Alphabet, AlphabetConfig
from numpy.typing import NDArray

from alphabet_learn.banks import Lens, make_bank, read_projections
from alphabet_learn.calibration import Calibration
from alphabet_learn.closed_form import ClosedForm, Head
from alphabet_learn.errors import LearnError
from alphabet_learn.plain import from_plain, to_plain
from alphabet_learn.recipe import Recipe, View
from alphabet_learn.standardizing import Scaler
from alphabet_learn.trained import Trained
from alphabet_learn.trained_fitting import Member

Array = NDArray[Any]
HEAD = ("mean", "factor", "weights", "intercept")
# What a bank's two parts have of their own, beside what the recipe fixes.
PARTS = ("lift.kernel", "lift.bias", "poles.raw_decay", "poles.raw_frequency")
MOST_BANKS, MOST_MODES = 10_000, 4096  # a file that asks for more was not written by us
MOST_FRAME_ENTRIES = 1 << 24  # of a view's identity frames, which a file does not hold; the recipe makes 24,576
MEMBER = ("size", "epochs", "run", "validation_loss", "interrupted")  # the rows of validation folds are not kept


class Contents(NamedTuple):
    """An engine in a file: numbers and words as JSON, and tensors by name."""

    facts: dict[str, Any]
    tensors: dict[str, Array]


def pack_engine(engine: ClosedForm | Trained) -> Contents:
    """All that an engine needs to predict and to explain."""
    facts, tensors = _pack_closed_form(engine) if isinstance(engine, ClosedForm) else _pack_trained(engine)
    if engine.calibration is not None:
        facts["calibration"] = engine.calibration.form
        tensors["calibration"] = engine.calibration.scale
    return Contents(facts, tensors)


def unpack_engine(contents: Contents, *, channels: int) -> ClosedForm | Trained:
    """The engine that was packed; a LearnError, KeyError or ValueError if nothing of the kind was."""
    facts = contents.facts
    if facts["method"] not in ("closed_form", "trained"):
        raise LearnError(f"its method is {facts['method']!r}")
    engine: ClosedForm | Trained
    engine = (_unpack_trained if facts["method"] == "trained" else _unpack_closed_form)(contents, channels)
    form = facts.get("calibration")
    if form not in (None, "binary", "multiclass", "multilabel"):
        raise LearnError(f"its calibration is {form!r}")
    engine.calibration = None if form is None else Calibration(form, contents.tensors["calibration"])
    return engine


def _pack_closed_form(engine: ClosedForm) -> tuple[dict[str, Any], dict[str, Array]]:
    tensors: dict[str, Array] = {f"head.{name}": getattr(engine.head, name) for name in HEAD}
    for i, lens in enumerate(engine.lenses):
        tensors |= {f"lens{i}.mean": lens.scaler.mean, f"lens{i}.deviation": lens.scaler.deviation}
        # (banks, 2M, k): features that read fewer than k channels have channels of weight 0 as well
        tensors[f"lens{i}.channel"], tensors[f"lens{i}.weight"] = read_projections(lens.banks)
        for name in PARTS:
            stacked = [torch.stack([part.get_parameter(name) for part in bank.banks()]) for bank in lens.banks]
            tensors[f"lens{i}.{name}"] = torch.stack(stacked).detach().numpy()  # (banks, 2, ...)
    facts = {
        "method": "closed_form",
        "recipe": asdict(engine.recipe),
        "recipe_digest": engine.recipe.digest(),
        "lenses": [{**asdict(lens.view), "unit": lens.unit.hex()} for lens in engine.lenses],
        "penalty": getattr(engine, "penalty", None),
        "leave_one_out_error": getattr(engine, "leave_one_out_error", None),
    }
    return facts, tensors


def _unpack_closed_form(contents: Contents, channels: int) -> ClosedForm:
    facts, tensors = contents
    recipe = read_recipe(facts["recipe"])
    if recipe.digest() != facts["recipe_digest"]:
        raise LearnError("its recipe does not match its digest")
    engine = ClosedForm(recipe)
    engine.lenses = tuple(
        _unpack_lens(i, _read_view(each), float.fromhex(each["unit"]), contents, recipe, channels)
        for i, each in enumerate(facts["lenses"])
    )
    engine.head = Head(*(tensors[f"head.{name}"] for name in HEAD))
    if not len(engine.head.mean) == len(engine.head.factor) == len(engine.head.weights) == engine.coordinates:
        raise LearnError("its head does not fit its banks")
    if facts["penalty"] is not None:
        engine.penalty, engine.leave_one_out_error = float(facts["penalty"]), float(facts["leave_one_out_error"])
    return engine


def _unpack_lens(i: int, view: View, unit: float, contents: Contents, recipe: Recipe, channels: int) -> Lens:
    tensors = contents.tensors
    channel, weight = (torch.from_numpy(tensors[f"lens{i}.{name}"]) for name in ("channel", "weight"))
    if not len(channel) <= MOST_BANKS or int(channel.min()) < 0 or int(channel.max()) >= channels:
        raise LearnError("its projection reads channels that there are not")
    # What the file really holds decides, before a model of that size is made.
    count, modes = len(channel), recipe.modes
    shapes: dict[str, tuple[int, ...]] = {"lift.kernel": (2 * modes, 5), "lift.bias": (2 * modes,)}
    for name in PARTS:
        _check_shape(tensors, f"lens{i}.{name}", (count, 2, *shapes.get(name, (modes,))))
    for name in ("channel", "weight"):
        _check_shape(tensors, f"lens{i}.{name}", (count, 2 * modes, channel.shape[-1]))
    if count * (2 * modes) ** 2 > MOST_FRAME_ENTRIES:
        raise LearnError(f"its {count} banks of {modes} modes are more than any recipe makes")
    scaler = Scaler(tensors[f"lens{i}.mean"], tensors[f"lens{i}.deviation"])
    banks = []
    for number in range(count):
        model = make_bank(recipe, channels)
        model.project.weight.zero_().scatter_(1, channel[number], weight[number])
        for name in PARTS:
            for part, values in zip(model.banks(), tensors[f"lens{i}.{name}"][number], strict=True):
                _fill(part.get_parameter(name), values, name)
        banks.append(model)
    return Lens(view, scaler, unit, tuple(banks))


def read_recipe(facts: dict[str, Any]) -> Recipe:
    """A recipe out of what `asdict` made of it."""
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in facts.items()}
    recipe = Recipe(**{**values, "views": tuple(_read_view(view) for view in facts["views"])})
    if not 0 < recipe.modes <= MOST_MODES:
        raise LearnError(f"its banks have {recipe.modes} modes")
    return recipe


def _read_view(facts: dict[str, Any]) -> View:
    if facts["kind"] not in ("values", "changes", "averages") or not 0 < int(facts["span"]) < 1 << 20:
        raise LearnError(f"it has a view {facts!r}")
    return View(facts["kind"], int(facts["span"]))


def _pack_trained(engine: Trained) -> tuple[dict[str, Any], dict[str, Array]]:
    tensors = {"scaler.mean": engine.scaler.mean, "scaler.deviation": engine.scaler.deviation}
    tensors |= {"target.mean": engine.target_mean, "target.deviation": engine.target_deviation}
    for i, (model, baseline) in enumerate(zip(engine.models, engine.baseline, strict=True)):
        tensors |= {f"model{i}.{name}": tensor.detach().numpy() for name, tensor in model.state_dict().items()}
        tensors[f"baseline{i}"] = baseline.detach().numpy()
    config = engine.models[0].config
    facts = {
        "method": "trained",
        "kind": engine.kind,
        "models": len(engine.models),
        "config": {name: getattr(config, name) for name in ("channels", "width", "modes", "outputs")},
        "time_unit": engine.time_unit.hex(),
        "members": [to_plain({name: getattr(member, name) for name in MEMBER}) for member in engine.members],
    }
    return facts, tensors


def _unpack_trained(contents: Contents, channels: int) -> Trained:
    facts, tensors = contents
    sizes: dict[str, Any] = {name: int(facts["config"][name]) for name in ("channels", "width", "modes", "outputs")}
    config = AlphabetConfig(**sizes)
    if config.channels != channels or not 0 < int(facts["models"]) <= MOST_BANKS or config.modes > MOST_MODES:
        raise LearnError("its models do not fit the estimator")
    engine = Trained()
    engine.scaler = Scaler(tensors["scaler.mean"], tensors["scaler.deviation"])
    engine.target_mean, engine.target_deviation = tensors["target.mean"], tensors["target.deviation"]
    engine.kind, engine.size = facts["kind"], (config.width, config.modes)
    engine.time_unit = float.fromhex(facts["time_unit"])
    engine.models = [_unpack_model(config, f"model{i}.", tensors) for i in range(facts["models"])]
    engine.baseline = [torch.from_numpy(tensors[f"baseline{i}"]) for i in range(facts["models"])]
    engine.members = [
        Member(model=model, **from_plain(member), held_out=np.empty(0, np.intp), outputs=np.empty((0, config.outputs)))
        for model, member in zip(engine.models, facts["members"], strict=True)
    ]
    return engine


def _unpack_model(config: AlphabetConfig, prefix: str, tensors: dict[str, Array]) -> Alphabet:
    with torch.device("meta"):  # shapes without memory, so that a file cannot ask for more than it holds
        model = Alphabet(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name, shape in shapes.items():
        _check_shape(tensors, prefix + name, shape)
    # Copies of torch's own, aligned as torch does it: products are rounded as before.
    state = {name: torch.from_numpy(tensors[prefix + name]).float().clone() for name in shapes}
    model.load_state_dict(state, strict=True, assign=True)
    return model.requires_grad_(False).eval()


def _check_shape(tensors: dict[str, Array], name: str, shape: tuple[int, ...]) -> None:
    if tensors[name].shape != shape or not np.isfinite(tensors[name]).all():
        raise LearnError(f"{name} has the shape {tensors[name].shape} where {shape} is right, or is not finite")


@torch.no_grad()
def _fill(tensor: torch.Tensor, values: Array, name: str) -> None:
    if tuple(tensor.shape) != values.shape or not np.isfinite(values).all():
        raise LearnError(f"{name} has the shape {values.shape} where {tuple(tensor.shape)} is right, or is not finite")
    tensor.copy_(torch.from_numpy(values))
