import json
import os
import random
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from alphabet_core import VARIANTS, AlphabetError, freeze, load, save
from alphabet_core.storage import _digest
from alphabet_testing.models import build_model


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_saved_model_comes_back_to_the_last_bit(variant, dtype, tmp_path):
    model = build_model(variant, dtype=dtype)
    path = save(model, tmp_path / "model.safetensors")
    again = load(path)
    assert again.config == model.config
    values = torch.randn(2, 9, 2, dtype=dtype)
    assert again(values).equal(model(values))
    assert not again.training
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]  # no partial file is left


def test_every_tensor_keeps_its_dtype_and_the_generator_its_state(tmp_path):
    model = build_model().bfloat16()
    model.head.double()
    path = save(model, tmp_path / "mixed.safetensors")
    before = torch.get_rng_state()
    again = load(path)
    assert torch.get_rng_state().equal(before)
    for name, tensor in model.state_dict().items():
        assert again.state_dict()[name].dtype == tensor.dtype
        assert again.state_dict()[name].equal(tensor)
    assert all(parameter.requires_grad for parameter in again.parameters())


@pytest.mark.parametrize("variant", VARIANTS)
def test_loaded_tensors_own_aligned_memory(variant, tmp_path):
    # Wherever the header's length puts them in the file: names of different lengths move all that follows.
    path = save(build_model(variant, dtype=torch.float32), tmp_path / "m.safetensors")
    for name, tensor in load(path).state_dict().items():
        assert tensor.data_ptr() % 64 == 0, name


def test_a_file_rewritten_in_place_does_not_change_a_loaded_model(tmp_path):
    path = save(build_model(), tmp_path / "m.safetensors")
    model = load(path)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with path.open("r+b") as file:  # the same inode, which a mapping would see
        file.write(bytes(path.stat().st_size))
    assert all(tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    with pytest.raises(AlphabetError, match="frozen"):
        save(freeze(build_model()), tmp_path / "m")
    with pytest.raises(AlphabetError, match="does not exist"):
        save(build_model(), tmp_path / "nowhere" / "m")


def rewrite(path, *, metadata=None, tensors=None):
    with safetensors.safe_open(path, framework="pt") as file:
        old_metadata, old = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    safetensors.torch.save_file({**old, **(tensors or {})}, path, metadata={**old_metadata, **(metadata or {})})


def test_the_configuration_is_readable_json(tmp_path):
    model = build_model()
    with safetensors.safe_open(save(model, tmp_path / "m"), framework="pt") as file:
        assert json.loads(file.metadata()["config"]) == model.config.to_dict()


@pytest.mark.parametrize("fault", ["weight", "config", "extra tensor", "hash", "format"])
def test_an_edited_file_is_refused(fault, tmp_path):
    model = build_model()
    path = save(model, tmp_path / "m.safetensors")
    edits = {
        "weight": {"tensors": {"head.bias": model.head.bias.detach() + 1e-9}},
        "config": {"metadata": {"config": json.dumps(model.config.to_dict() | {"lags": [1, 2, 3]}, sort_keys=True)}},
        "extra tensor": {"tensors": {"intruder": torch.zeros(1)}},
        "hash": {"metadata": {"sha256": "0" * 64}},
        "format": {"metadata": {"format": "other/1"}},
    }
    rewrite(path, **edits[fault])
    with pytest.raises(AlphabetError, match=r"hash|format"):
        load(path)


def test_what_is_not_a_model_file_is_refused(tmp_path):
    with pytest.raises(AlphabetError, match="no file"):
        load(tmp_path / "missing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(AlphabetError, match="not a readable"):
        load(tmp_path / "text")
    torch.save({"a": torch.zeros(1)}, tmp_path / "pickle")
    with pytest.raises(AlphabetError, match="not a readable"):
        load(tmp_path / "pickle")
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "foreign")
    with pytest.raises(AlphabetError, match="format None"):
        load(tmp_path / "foreign")


def test_a_failed_save_keeps_the_older_file(tmp_path, monkeypatch):
    path = save(build_model(), tmp_path / "m.safetensors")
    before = path.read_bytes()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(build_model(seed=1), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def forge(path, *, config=None, tensors=None):
    """The file rewritten with a hash that matches."""
    with safetensors.safe_open(path, framework="pt") as file:
        metadata, old = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    new = {**old, **(tensors or {})}
    text = metadata["config"] if config is None else config
    hashed = {**metadata, "config": text, "sha256": _digest(text, new)}
    safetensors.torch.save_file(new, path, metadata=hashed)


ODD_CONFIGURATIONS = {
    "not JSON": "{",
    "nothing": "",
    "null": "null",
    "a list": "[]",
    "a number of 5,000 digits": '{"channels": ' + "9" * 5000 + "}",
    "a hundred thousand brackets": "[" * 100_000,
    "no sizes": "{}",
    "a size in words": '{"channels": "two", "width": 16, "modes": 4, "outputs": 3}',
    "a size that is true": '{"channels": true, "width": 16, "modes": 4, "outputs": 3}',
    "a field of a list": '{"channels": [2], "width": 16, "modes": 4, "outputs": 3}',
    "lags in a mapping": '{"channels": 2, "width": 16, "modes": 4, "outputs": 3, "lags": {}}',
    "lags in lists": '{"channels": 2, "width": 16, "modes": 4, "outputs": 3, "lags": [[1], [2]]}',
    "a huge width": '{"channels": 2, "width": 1000000000000, "modes": 4, "outputs": 3}',
    "huge outputs": '{"channels": 2, "width": 16, "modes": 4, "outputs": 100000000}',
    "huge hidden units": '{"channels": 2, "width": 16, "modes": 4, "outputs": 3, "energy_hidden": 1000000000000000000}',
    "another width": '{"channels": 2, "width": 20, "modes": 4, "outputs": 3}',
    "another structure": '{"channels": 2, "width": 16, "modes": 4, "outputs": 3, "energy_hidden": 2}',
}


@pytest.mark.parametrize("name", ODD_CONFIGURATIONS)
def test_an_odd_configuration_with_a_matching_hash_is_refused_in_words(name, tmp_path):
    path = save(build_model(), tmp_path / "m.safetensors")
    forge(path, config=ODD_CONFIGURATIONS[name])
    with pytest.raises(AlphabetError, match=r"configuration"):
        load(path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.tensor(torch.nan), "not finite"),
        (torch.tensor(-torch.inf), "not finite"),
        (torch.tensor(1.0, dtype=torch.float16), "torch.float16"),
        (torch.tensor(1, dtype=torch.int64), "torch.int64"),
        (torch.tensor(1.0, dtype=torch.complex64), "torch.complex64"),
    ],
)
def test_a_tensor_that_no_model_can_use_is_refused_by_load_and_save(value, message, tmp_path):
    model = build_model()
    path = save(model, tmp_path / "m.safetensors")
    forge(path, tensors={"head.bias": value.expand(model.head.bias.shape).contiguous()})
    with pytest.raises(AlphabetError, match=message):
        load(path)
    model.head.bias = torch.nn.Parameter(value.expand(model.head.bias.shape).clone(), requires_grad=False)
    with pytest.raises(AlphabetError, match=message):
        save(model, tmp_path / "other.safetensors")
    assert [each.name for each in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_tensor_of_another_shape_with_a_matching_hash_is_refused(tmp_path):
    path = save(build_model(), tmp_path / "m.safetensors")
    forge(path, tensors={"head.bias": torch.zeros(9)})
    with pytest.raises(AlphabetError, match=r"head.bias has shape \(9,\) and not"):
        load(path)


def test_what_is_saved_is_synced_before_it_takes_its_name(tmp_path, monkeypatch):
    happened = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (happened.append(os.fstat(file).st_ino), fsync(file)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (happened.append("replace"), replace(self, to))[1])
    path = save(build_model(), tmp_path / "m.safetensors")
    assert happened == [path.stat().st_ino, "replace", tmp_path.stat().st_ino]


def damage(content, rng):
    """A file's bytes with some of them changed, cut out, put in, doubled or moved."""
    content = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        place = rng.randrange(len(content)) if rng.random() < 0.5 else rng.randrange(min(len(content), 1200))
        what = rng.randrange(6)
        if what == 0:
            content[place] ^= 1 << rng.randrange(8)
        elif what == 1:
            del content[place : place + rng.choice((1, 8, 100))]
        elif what == 2:
            content[place:place] = rng.randbytes(rng.choice((1, 8, 100)))
        elif what == 3:
            content = content[: max(place, 1)]
        elif what == 4:
            content[place : place + 1] = rng.choice((b"9", b"[", b"{", b'"', b"\x00", b"\xff", b"-", b"e"))
        else:
            content[:8] = rng.choice((0, 1, 2**20, 2**40, 2**63, 2**64 - 1)).to_bytes(8, "little")
        if not content:
            content = bytearray(b"\0")
    return bytes(content)


@pytest.mark.slow
def test_two_thousand_damaged_files_are_refused_or_hold_the_same_model(tmp_path):
    """No other exception, no hang, and never another model."""
    model = build_model()
    path = save(model, tmp_path / "m.safetensors")
    whole, rng = path.read_bytes(), random.Random(20)
    state = model.state_dict()
    refused = 0
    for _ in range(2000):
        path.write_bytes(damage(whole, rng))
        try:
            again = load(path).state_dict()
        except AlphabetError:
            refused += 1
            continue
        assert again.keys() == state.keys()
        assert all(tensor.equal(state[name]) for name, tensor in again.items())
    assert refused > 1900
