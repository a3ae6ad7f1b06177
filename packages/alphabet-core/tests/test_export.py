import pytest
import torch
from alphabet_core import Alphabet, AlphabetConfig, export_onnx, export_program, freeze
from alphabet_testing.models import build_model, move_parameters

SHAPES = [(1, 1), (2, 3), (1, 4), (5, 31), (3, 64), (2, 700)]


@pytest.fixture(scope="module")
def trained_size():
    torch.manual_seed(3)
    model = Alphabet(AlphabetConfig(channels=2, width=64, modes=16, outputs=5))
    move_parameters(model, 0.02, head=True)
    return model


@pytest.fixture(scope="module")
def exported(trained_size):
    return export_program(trained_size)


@pytest.mark.slow
def test_exported_program_takes_any_batch_and_length(trained_size, exported):
    program = exported.module()
    for batch, length in SHAPES:
        values = torch.randn(batch, length, 2)
        with torch.no_grad():
            torch.testing.assert_close(program(values), trained_size(values), rtol=0, atol=1e-6)


@pytest.mark.slow
def test_exported_graph_has_no_complex_number(exported):
    kinds = {node.meta["val"].dtype for node in exported.graph.nodes if hasattr(node.meta.get("val"), "dtype")}
    assert kinds
    assert not any(kind.is_complex for kind in kinds)


@pytest.mark.slow
def test_onnx_file_is_small_and_agrees_for_any_batch_and_length(trained_size, tmp_path):
    import onnxruntime

    path = export_onnx(trained_size, tmp_path / "alphabet.onnx")
    assert path.stat().st_size < 100_000
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch, length in SHAPES:
        values = torch.randn(batch, length, 2)
        got = torch.from_numpy(session.run(["logits"], {"values": values.numpy()})[0])
        with torch.no_grad():
            torch.testing.assert_close(got, trained_size(values), rtol=0, atol=1e-5)
    values[0, 3, 1] = torch.nan
    assert not bool(torch.isfinite(torch.from_numpy(session.run(["logits"], {"values": values.numpy()})[0][0])).any())


@pytest.mark.parametrize("variant", ["full", "one-scan", "energy-only"])
def test_a_frozen_copy_agrees_and_does_not_train(variant):
    model = build_model(variant)
    frozen = freeze(model)
    values = torch.randn(2, 20, 2, dtype=torch.float64)
    torch.testing.assert_close(frozen(values), model(values))
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in model.parameters())
