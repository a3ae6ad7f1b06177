import json

import pytest
import safetensors
import safetensors.torch
import torch
from alphabet_core import VARIANTS, AlphabetError, freeze, load, save
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
