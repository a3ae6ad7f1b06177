"""Whatever is wrong with a call, one sentence says which argument it is and what was found; nothing else is raised."""

import math

import pytest
import torch
from alphabet_core import (
    RECIPES,
    Alphabet,
    AlphabetConfig,
    Examples,
    Recipe,
    StreamingAlphabet,
    TrainingStep,
    adapt,
    adapt_lifts,
    attribute,
    export_onnx,
    export_program,
    fit,
    fit_validated,
    freeze,
    load,
    logit_bound,
    mean_descriptor,
    neutralize,
    pole_mask,
    predict_examples,
    rank_poles,
    retain,
    save,
    value_checks,
)
from alphabet_testing.wrong_values import (
    NO_COUNTS,
    NO_PATHS,
    NO_RATES,
    NO_SEEDS,
    NO_SWITCHES,
    NO_TENSORS,
    NO_TENSORS_NOR_NONE,
    VALUES,
    assert_refused,
    list_cases,
    without,
)

torch.manual_seed(0)
CONFIG = AlphabetConfig(channels=2, width=8, modes=2, outputs=3)
MODEL = Alphabet(CONFIG)
TARGETS = torch.tensor([0, 1, 2, 0])
EXAMPLES = Examples(VALUES, TARGETS)
DESCRIPTOR = MODEL.describe(VALUES).detach()
CENTER, POLES = DESCRIPTOR.mean(dim=0), torch.ones(2, 2, dtype=torch.bool)
STATE = StreamingAlphabet(MODEL).state()


def step(**options):
    return TrainingStep(Alphabet(CONFIG), **options)


NO_MODELS = {
    "None": None,
    "another module": torch.nn.Linear(2, 3),
    "a class": Alphabet,
    "a state dict": MODEL.state_dict(),
}

# What is called, by which argument, with what; each line stands for one call per wrong value.
CALLS = [
    ("values", NO_TENSORS, MODEL),
    ("values", NO_TENSORS, MODEL.describe),
    ("time_delta", NO_TENSORS_NOR_NONE, lambda it: MODEL(VALUES, time_delta=it)),
    ("observed", NO_TENSORS_NOR_NONE, lambda it: MODEL(VALUES, observed=it)),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: MODEL(VALUES, valid=it)),
    ("values", NO_TENSORS, lambda it: step()(it, TARGETS)),
    ("targets", NO_TENSORS, lambda it: step()(VALUES, it)),
    ("targets", NO_TENSORS, lambda it: step(loss="mse")(VALUES, it)),
    ("values", NO_TENSORS, lambda it: Examples(it, TARGETS)),
    ("targets", NO_TENSORS, lambda it: Examples(VALUES, it)),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: Examples(VALUES, TARGETS, valid=it)),
    ("values", NO_TENSORS, lambda it: fit(step(), it, TARGETS, epochs=1, seed=0)),
    ("targets", NO_TENSORS, lambda it: fit(step(), VALUES, it, epochs=1, seed=0)),
    ("values", NO_TENSORS, lambda it: adapt(Alphabet(CONFIG), it, seed=0)),
    ("values", NO_TENSORS, lambda it: adapt_lifts(Alphabet(CONFIG), it, seed=0)),
    ("values", NO_TENSORS, lambda it: mean_descriptor(MODEL, it)),
    ("valid", NO_TENSORS_NOR_NONE, lambda it: mean_descriptor(MODEL, VALUES, valid=it)),
    ("values", NO_TENSORS, StreamingAlphabet(MODEL, batch=4).feed),
    ("observed", NO_TENSORS_NOR_NONE, lambda it: StreamingAlphabet(MODEL, batch=4).feed(VALUES, observed=it)),
    ("descriptor", NO_TENSORS, lambda it: attribute(MODEL, it, CENTER)),
    ("center", NO_TENSORS, lambda it: attribute(MODEL, DESCRIPTOR, it)),
    ("winner", NO_TENSORS_NOR_NONE, lambda it: attribute(MODEL, DESCRIPTOR, CENTER, winner=it)),
    ("runner_up", NO_TENSORS_NOR_NONE, lambda it: attribute(MODEL, DESCRIPTOR, CENTER, runner_up=it)),
    ("descriptor", NO_TENSORS, lambda it: neutralize(it, CENTER, POLES)),
    ("center", NO_TENSORS, lambda it: neutralize(DESCRIPTOR, it, POLES)),
    ("poles", NO_TENSORS, lambda it: neutralize(DESCRIPTOR, CENTER, it)),
    ("poles", NO_TENSORS, lambda it: retain(DESCRIPTOR, CENTER, it)),
    ("poles", NO_TENSORS, lambda it: pole_mask(MODEL, it)),
    ("poles", {"fractions": torch.rand(3, 2), "truth": POLES}, lambda it: pole_mask(MODEL, it)),
    ("channels", NO_COUNTS, lambda it: AlphabetConfig(channels=it, width=8, modes=2, outputs=3)),
    ("modes", NO_COUNTS, lambda it: AlphabetConfig(channels=2, width=8, modes=it, outputs=3)),
    ("lags", NO_COUNTS, lambda it: AlphabetConfig(channels=2, width=8, modes=2, outputs=3, lags=(1, it))),
    ("batch_size", NO_COUNTS, lambda it: Recipe(1e-3, 1.0, batch_size=it)),
    ("microbatch", without(NO_COUNTS, "None"), lambda it: step(microbatch=it)),
    ("epochs", without(NO_COUNTS, "0"),
     lambda it: fit(step(), VALUES, TARGETS, epochs=it, seed=0)),
    ("epochs", NO_COUNTS, lambda it: fit_validated(step(), EXAMPLES, EXAMPLES, epochs=it, patience=1, seed=0)),
    ("patience", NO_COUNTS, lambda it: fit_validated(step(), EXAMPLES, EXAMPLES, epochs=1, patience=it, seed=0)),
    ("batch_size", NO_COUNTS, lambda it: mean_descriptor(MODEL, VALUES, batch_size=it)),
    ("batch", NO_COUNTS, lambda it: StreamingAlphabet(MODEL, batch=it)),
    ("learning_rate", NO_RATES, lambda it: Recipe(it, 1.0)),
    ("clip_norm", without(NO_RATES, "infinity"), lambda it: Recipe(1e-3, it)),
    ("weight_decay", without(NO_RATES, "0"), lambda it: Recipe(1e-3, 1.0, weight_decay=it)),
    ("share", without(NO_RATES, "0"), lambda it: step().accumulate(VALUES, TARGETS, it)),
    ("sharpness", {"None": None, "one number": 1.0, "NaN": (math.nan, 1.0), "falling": (2.0, 1.0), "zero": (0.0, 1.0)},
     lambda it: adapt_lifts(Alphabet(CONFIG), VALUES, seed=0, sharpness=it)),
    ("seed", NO_SEEDS, lambda it: fit(step(), VALUES, TARGETS, epochs=1, seed=it)),
    ("seed", NO_SEEDS, lambda it: fit_validated(step(), EXAMPLES, EXAMPLES, epochs=1, patience=1, seed=it)),
    ("seed", NO_SEEDS, lambda it: adapt(Alphabet(CONFIG), VALUES, seed=it)),
    ("model", NO_MODELS, lambda it: save(it, "model.safetensors")),
    ("model", NO_MODELS, freeze),
    ("model", NO_MODELS, export_program),
    ("model", NO_MODELS, lambda it: export_onnx(it, "model.onnx")),
    ("model", NO_MODELS, StreamingAlphabet),
    ("model", NO_MODELS, lambda it: adapt(it, VALUES, seed=0)),
    ("model", NO_MODELS, lambda it: attribute(it, DESCRIPTOR, CENTER)),
    ("model", NO_MODELS, lambda it: mean_descriptor(it, VALUES)),
    ("model", NO_MODELS, lambda it: pole_mask(it, torch.zeros(1, 2, dtype=torch.int64))),
    ("model", NO_MODELS, logit_bound),
    ("model", {"None": None, "a class": Alphabet, "a state dict": MODEL.state_dict()}, TrainingStep),
    ("config", {"None": None, "a dictionary": CONFIG.to_dict(), "a model": MODEL}, Alphabet),
    ("scan", {"None": None, "text": "chunked"}, lambda it: Alphabet(CONFIG, scan=it)),
    ("recipe", {"None": None, "text": "B", "a dictionary": RECIPES}, lambda it: step(recipe=it)),
    ("loss", {"None": None, "a function": torch.nn.functional.mse_loss, "a list": ["mse"], "text": "l1"},
     lambda it: step(loss=it)),
    ("step", {"None": None, "a model": MODEL}, lambda it: fit(it, VALUES, TARGETS, epochs=1, seed=0)),
    ("step", {"None": None, "a model": MODEL},
     lambda it: fit_validated(it, EXAMPLES, EXAMPLES, epochs=1, patience=1, seed=0)),
    ("train", {"None": None, "values": VALUES, "a pair": (VALUES, TARGETS)},
     lambda it: fit_validated(step(), it, EXAMPLES, epochs=1, patience=1, seed=0)),
    ("validation", {"None": None, "values": VALUES, "a pair": (VALUES, TARGETS)},
     lambda it: fit_validated(step(), EXAMPLES, it, epochs=1, patience=1, seed=0)),
    ("examples", {"None": None, "values": VALUES}, lambda it: predict_examples(MODEL, it)),
    ("predict", {"None": None, "a tensor": VALUES}, lambda it: predict_examples(it, EXAMPLES)),
    ("on_epoch", {"text": "print", "a number": 1},
     lambda it: fit(step(), VALUES, TARGETS, epochs=1, seed=0, on_epoch=it)),
    ("path", NO_PATHS, lambda it: save(MODEL, it)),
    ("path", NO_PATHS, load),
    ("path", NO_PATHS, lambda it: export_onnx(MODEL, it)),
    ("path", {"no such folder": "no/such/folder/model.onnx"}, lambda it: export_onnx(MODEL, it)),
    ("state", {"None": None, "a list": [STATE], "a tensor": VALUES, "half of it": dict(list(STATE.items())[:4])},
     StreamingAlphabet(MODEL).restore),
    ("state", {name: {**STATE, "0.window": it} for name, it in NO_TENSORS.items()}, StreamingAlphabet(MODEL).restore),
    ("attribution", {"None": None, "a tensor": DESCRIPTOR}, rank_poles),
    ("enabled", NO_SWITCHES, lambda it: value_checks(it).__enter__()),
    ("fields", {"None": None, "a list": [1, 2], "text": "{}"}, AlphabetConfig.from_dict),
    ("variant", {"None": None, "a list": ["full"], "text": "none"}, AlphabetConfig.variant),
]  # fmt: skip


@pytest.mark.parametrize(("argument", "call", "value"), list_cases(CALLS))
def test_a_wrong_call_is_refused_in_one_sentence(argument, call, value):
    assert_refused(argument, call, value)
