"""A complete training step as a program of launches: fold, forward, loss, adjoint, optimizer, constraint.

Nothing but launches happens here: recorded, they are the nodes of the step's CUDA graph. Autograd is not asked; every
adjoint is derived in docs/gpu.md, and compared with autograd's own in the tests.
"""

from alphabet_core import Alphabet
from alphabet_core.fused import Frame
from torch import Tensor, nn

from alphabet_triton.fused_adamw import FusedAdamW
from alphabet_triton.inference import infer
from alphabet_triton.inputs import Inputs
from alphabet_triton.ops.constraint.launch import launch_constraint
from alphabet_triton.ops.edge.launch import launch_edge_rows
from alphabet_triton.ops.fold.launch import Foldable, launch_fold, launch_fold_backward
from alphabet_triton.ops.lift.launch import launch_norm_backward, launch_products
from alphabet_triton.ops.loss.launch import LOSS_FLAGS, launch_loss
from alphabet_triton.ops.reader.launch import launch_reader_rows
from alphabet_triton.ops.scan.launch import launch_scan_adjoint
from alphabet_triton.ops.totals.launch import launch_totals
from alphabet_triton.weights import BankWeights, Weights


def covers_step(model: Alphabet, loss: str, targets: Tensor, adamw: FusedAdamW) -> bool:
    """Whether `run_step` does the steps of a model that the kernels cover: all of it trains, and lies by rows."""
    whole = {id(parameter) for parameter in model.parameters()} == {id(parameter) for parameter in adamw.parameters}
    frames = [bank.frame for bank in model.banks() if isinstance(bank.frame, Frame)]
    poles = [getattr(bank.poles, name) for bank in model.banks() for name in ("raw_decay", "raw_frequency")]
    return (
        loss in LOSS_FLAGS
        and (LOSS_FLAGS[loss]["CLASSES"] or targets.dtype == model.project.weight.dtype)
        and len(frames) == len(model.banks())
        and all(isinstance(pole, nn.Parameter) for pole in poles)
        and whole
        and adamw.in_place
        and all(frame.base.is_contiguous() for frame in frames)
    )


def run_step(
    model: Alphabet, inputs: Inputs, targets: Tensor, *, loss: str, adamw: FusedAdamW, measured: Tensor
) -> None:
    """Do a step that `covers_step` allows; the mean loss of the batch before it is written to `measured` ().

    The clipped gradients are where `adamw.expose_gradients` finds them.
    """
    write_gradients(model, inputs, targets, loss=loss, adamw=adamw, measured=measured)
    adamw.launch()
    frames = [bank.frame for bank in model.banks() if isinstance(bank.frame, Frame)]
    launch_constraint([frame.base for frame in frames], [frame.tangent.detach() for frame in frames])


def write_gradients(
    model: Alphabet, inputs: Inputs, targets: Tensor, *, loss: str, adamw: FusedAdamW, measured: Tensor
) -> None:
    """Write the gradients of all parameters to `adamw.gradient_of` them and the mean loss to `measured` ().

    The step is counted in the optimizer's state.
    """
    direct, cascaded, synthesis, head = model.direct, model.cascaded, model.synthesis, model.head
    assert cascaded is not None
    assert synthesis is not None
    assert isinstance(head, nn.Linear)
    assert isinstance(direct.frame, Frame)
    assert isinstance(cascaded.frame, Frame)
    values, valid, gate = inputs.values, inputs.valid, inputs.gate
    (_, length, channels), width, modes = values.shape, model.config.width, model.config.modes
    foldable = Foldable(
        *(direct.frame.base, direct.poles.raw_decay, direct.poles.raw_frequency, direct.norm.gain),
        *(cascaded.frame.base, cascaded.poles.raw_decay, cascaded.poles.raw_frequency, cascaded.norm.gain),
        *(synthesis.scale, synthesis.feedthrough),
    )

    # Forward: Algorithm 1, keeping what the adjoint reads.
    factors = launch_fold(foldable)
    kept = infer(
        values,
        valid,
        gate,
        Weights(
            project=model.project.weight,
            direct=BankWeights(direct.lift.kernel, direct.lift.bias, factors.matrix, factors.transition),
            synthesis=factors.synthesis,
            through=factors.through,
            cascaded=BankWeights(cascaded.lift.kernel, cascaded.lift.bias, factors.matrix_2, factors.transition_2),
            head=head.weight,
            head_bias=head.bias,
        ),
        keep=True,
    )
    losses, d_logits, d_sums, d_sums_2 = launch_loss(
        loss, kept.logits, targets, kept.sums, kept.sums_2, kept.counts, head.weight
    )

    # Adjoint, from the last line to the first.
    d_drive_2, d_transition_2 = launch_scan_adjoint(
        kept.states_2, factors.transition_2, valid, valid, length, d_sums_2, None
    )
    d_pre_2 = launch_norm_backward(
        length=length,
        valid=valid,
        matrix=factors.matrix_2,
        pre=kept.pre_2,
        scale=kept.scale_2,
        d_drive=d_drive_2,
        others=None,
    )
    d_stream, d_lifted, d_scale, d_states, reader_rows = launch_reader_rows(
        kept.lifted,
        kept.scale,
        kept.states,
        valid,
        factors.synthesis,
        factors.through,
        cascaded.lift.kernel,
        length,
        d_pre_2,
    )
    d_drive, d_transition = launch_scan_adjoint(kept.states, factors.transition, valid, gate, length, d_sums, d_states)
    d_pre = launch_norm_backward(
        length=length,
        valid=valid,
        matrix=factors.matrix,
        pre=kept.pre,
        scale=kept.scale,
        d_drive=d_drive,
        others=(d_lifted, d_scale),
    )
    edge_rows, _ = launch_edge_rows(values, valid, model.project.weight, direct.lift.kernel, d_pre, want_values=False)

    # Weights: products over time, sums over programs and sequences, and back through the fold.
    products = launch_products(
        length,
        {
            "d_drive": d_drive, "pre": kept.pre, "scale": kept.scale, "d_drive_2": d_drive_2, "pre_2": kept.pre_2,
            "scale_2": kept.scale_2, "states": kept.states, "d_stream": d_stream,
        },
    )  # fmt: skip
    folded = {
        "d_matrices": values.new_empty(3, 2 * modes, width),
        "d_transitions": values.new_empty(2, 2 * modes),
        "d_through": values.new_empty(width),
    }
    gradient = adamw.gradient_of
    launch_totals(
        {
            "edge_rows": edge_rows, "reader_rows": reader_rows, "products": products, "d_transition": d_transition,
            "d_transition_2": d_transition_2, "d_logits": d_logits, "descriptor": kept.descriptor, "losses": losses,
        },
        {
            "d_project": gradient(model.project.weight),
            "d_taps": gradient(direct.lift.kernel),
            "d_bias": gradient(direct.lift.bias),
            "d_taps_2": gradient(cascaded.lift.kernel),
            "d_bias_2": gradient(cascaded.lift.bias),
            "d_head": gradient(head.weight),
            "d_head_bias": gradient(head.bias),
            **folded,
            "loss": measured,
            "steps": adamw.steps,
        },
        channels,
    )  # fmt: skip
    found = {"d_synthesis_scale": gradient(synthesis.scale), "d_feedthrough": gradient(synthesis.feedthrough)}
    for bank, suffix in ((direct, ""), (cascaded, "_2")):
        assert isinstance(bank.frame, Frame)
        found[f"d_tangent{suffix}"] = gradient(bank.frame.tangent)
        found[f"d_decay{suffix}"] = gradient(bank.poles.raw_decay)
        found[f"d_frequency{suffix}"] = gradient(bank.poles.raw_frequency)
        found[f"d_gain{suffix}"] = gradient(bank.norm.gain)
    launch_fold_backward(foldable, factors, folded, found)
