"""What is broken on purpose, in which kernel, and which gate has to notice. docs/gpu-faults.md is made from this table.

`python -m alphabet_testing.kernels.faults` prints that page.
"""

import re
from dataclasses import dataclass, replace

import torch

from alphabet_testing.kernels.device import compile_launch

SIZES, LENGTH = (1, 16, 4, 3), 140  # two blocks of every kernel that has more than one
WIDE = (1, 160, 4, 3), 40  # features in three parts
GATES = {
    "numbers": "logits, gradients or moved parameters differ from the float64 reference",
    "bounds": "an access lies outside every tensor",
    "race": "two threads access the same bytes, one writes, and no barrier orders them",
}


@dataclass(frozen=True)
class Fault:
    """A change of a kernel's launch, or of its compiled code, and the gate that catches it first."""

    kernel: str
    gate: str
    change: object
    masks: str = "both"
    shape: tuple = (SIZES, LENGTH)

    def plant(self, launch, compiled):
        if self.change.__name__.startswith("code_"):
            broken = replace(compiled, ptx=self.change(compiled.ptx))
            assert broken.ptx != compiled.ptx
            return launch, broken
        changed = self.change(launch)
        return changed, compile_launch(changed)


def scalar(**changes):
    return lambda launch: replace(launch, scalars={**launch.scalars, **changes})


def tensor(name, change):
    return lambda launch: replace(launch, tensors={**launch.tensors, name: change(launch.tensors[name].clone())})


def flag(**changes):
    return lambda launch: replace(launch, flags={**launch.flags, **changes})


def swap(first, second):
    def change(launch):
        tensors = dict(launch.tensors)
        tensors[first], tensors[second] = tensors[second], tensors[first]
        return replace(launch, tensors=tensors)

    return change


def drop_block(launch):
    return replace(launch, grid=(launch.grid[0] - 1, *launch.grid[1:]))


def one_less(name):
    return lambda launch: replace(launch, scalars={**launch.scalars, name: launch.scalars[name] - 1})


def one_more(name):
    return lambda launch: replace(launch, scalars={**launch.scalars, name: launch.scalars[name] + 1})


def lose_the_last(launch):
    return replace(launch, scalars={"N": launch.scalars["N"] - 1})


def reverse(taps):
    return taps.flip(1).contiguous()


def conjugate(pairs):
    pairs[len(pairs) // 2 :] *= -1.0
    return pairs


def conjugate_each(rows):
    rows[:, rows.shape[1] // 2 :] *= -1.0
    return rows


def without_synthesis(matrices):
    matrices[2] = 0.0
    return matrices


def next_class(targets):
    return (targets + 1) % SIZES[3]


def one_number_later(starts):
    starts[1:4] += 1
    return starts


def shift_pairs(counts):
    return counts.roll(1, dims=1).contiguous()


def one_later(step):
    return step + 1.0


def unclipped(settings):
    settings[5] = 1e9
    return settings


def code_without_barriers(ptx):
    return "".join(line for line in ptx.splitlines(keepends=True) if "bar.sync" not in line)


def code_without_its_own_barrier(ptx):
    """The one that the source asks for, which stands where a statement begins; the others are the compiler's."""
    broken = re.sub(r"(\.loc\s+\d+ \d+ 8\s[^\n]*\n\s*)bar\.sync[^\n]*\n", r"\1", ptx)
    assert broken.count("bar.sync") == ptx.count("bar.sync") - 1
    return broken


def code_with_far_shuffles(ptx):
    """The first shuffles of a scan take their values from a lane further away."""
    return re.sub(r"(shfl\.sync\.up\.b32[^;]*, )1, 0", r"\g<1>2, 0", ptx)


def code_with_a_lost_sign(ptx):
    return ptx.replace("neg.f32", "mov.b32", 1)


def code_with_relaxed_tickets(ptx):
    """Tickets are still drawn one by one, but what was stored before need not be seen by who draws the last."""
    return ptx.replace("atom.global.gpu.acq_rel", "atom.global.gpu.relaxed")


def code_with_unmasked_stores(ptx):
    """Stores that only some threads may do, done by all."""
    return re.sub(r"@!?%p\d+ (st\.global)", r"\1", ptx)


FAULTS = {
    "conjugate poles in the edge": Fault("edge_fwd_kernel", "numbers", tensor("transition", conjugate)),
    "conjugate poles in the reader": Fault("reader_fwd_kernel", "numbers", tensor("transition", conjugate)),
    "conjugate poles of the cascaded bank": Fault("reader_fwd_kernel", "numbers", tensor("transition_2", conjugate)),
    "conjugate poles in the head": Fault("head_fwd_kernel", "numbers", tensor("transition", conjugate)),
    "conjugate poles in the backward": Fault("scan_bwd_kernel", "numbers", tensor("transition", conjugate)),
    "a token too few in the reader": Fault("reader_fwd_kernel", "numbers", scalar(T=LENGTH - 1)),
    "a token too few in the head": Fault("head_fwd_kernel", "numbers", scalar(T=LENGTH - 1)),
    "no chunk's end carried": Fault("reader_fwd_kernel", "numbers", tensor("ends", torch.zeros_like)),
    "no chunk's end carried in the head": Fault("head_fwd_kernel", "numbers", tensor("ends", torch.zeros_like)),
    "ends of chunks in another order": Fault(
        "head_fwd_kernel", "numbers", tensor("ends", lambda e: e.flip(2).contiguous())
    ),
    "a ticket drawn before": Fault("head_fwd_kernel", "numbers", tensor("tickets", torch.ones_like)),
    "a token too few in the backward": Fault("scan_bwd_kernel", "numbers", scalar(T=LENGTH - 1)),
    "a missing mode": Fault("edge_fwd_kernel", "numbers", scalar(M=SIZES[2] - 1)),
    "a mode too many": Fault("edge_fwd_kernel", "bounds", scalar(M=SIZES[2] + 1)),
    "a mode too many in the head": Fault("head_fwd_kernel", "bounds", scalar(M=SIZES[2] + 1)),
    "the gate left open": Fault("edge_fwd_kernel", "numbers", tensor("gate", torch.ones_like)),
    "the gate left open in the backward": Fault("scan_bwd_kernel", "numbers", tensor("gate", torch.ones_like)),
    "everything valid": Fault("head_fwd_kernel", "numbers", tensor("valid", torch.ones_like)),
    "everything valid in the reader": Fault("reader_fwd_kernel", "numbers", tensor("valid", torch.ones_like)),
    "states' gradient left out": Fault("scan_bwd_kernel", "numbers", flag(ALONE=True)),
    "lags' gradients in another order": Fault(
        "scan_bwd_kernel", "numbers", tensor("d_sums", lambda d: d.roll(2, dims=1).contiguous())
    ),
    "a wrong stride": Fault("reader_fwd_kernel", "numbers", scalar(TS=128)),
    "a stride too long": Fault("reader_fwd_kernel", "bounds", scalar(TS=160)),
    "a missing feature": Fault("edge_fwd_kernel", "numbers", scalar(D=SIZES[1] - 1)),
    "a missing block": Fault("edge_fwd_kernel", "numbers", drop_block),
    "a missing block in the backward": Fault("edge_bwd_kernel", "numbers", drop_block),
    "taps in reverse": Fault("edge_fwd_kernel", "numbers", tensor("taps", reverse)),
    "taps in reverse in the backward": Fault("reader_bwd_kernel", "numbers", tensor("taps", reverse)),
    "masks ignored": Fault("reader_fwd_kernel", "numbers", flag(MASKED=False)),
    "no feedthrough": Fault("reader_fwd_kernel", "numbers", tensor("through", torch.zeros_like)),
    "no feedthrough in the backward": Fault("reader_bwd_kernel", "numbers", tensor("through", torch.zeros_like)),
    "no synthesis": Fault("reader_fwd_kernel", "numbers", tensor("synthesis", torch.zeros_like)),
    "no synthesis in the backward": Fault("reader_bwd_kernel", "numbers", tensor("synthesis", torch.zeros_like)),
    "features not normed": Fault("reader_fwd_kernel", "numbers", tensor("scale", torch.ones_like)),
    "a negative drive": Fault("edge_fwd_kernel", "numbers", tensor("matrix", torch.neg)),
    "a negative drive in the backward": Fault("norm_bwd_kernel", "numbers", tensor("matrix", torch.neg)),
    "features' gradient left out": Fault("norm_bwd_kernel", "numbers", flag(ALONE=True)),
    "features not normed in the matrix's gradient": Fault("outer_bwd_kernel", "numbers", flag(NORMED=False)),
    "decay and frequency exchanged": Fault("fold_fwd_kernel", "numbers", swap("raw_decay", "raw_frequency")),
    "decay and frequency exchanged in the backward": Fault(
        "fold_bwd_kernel", "numbers", swap("d_decay", "d_frequency")
    ),
    "a conjugate gradient of the transition": Fault(
        "fold_bwd_kernel", "numbers", tensor("d_transitions", conjugate_each)
    ),
    "banks' tangents exchanged in the backward": Fault("fold_bwd_kernel", "numbers", swap("base", "base_2")),
    "no synthesis in the frame's gradient": Fault(
        "fold_bwd_kernel", "numbers", tensor("d_matrices", without_synthesis)
    ),
    "a missing block of a tangent's gradient": Fault("fold_bwd_kernel", "numbers", drop_block),
    "banks exchanged in the fold": Fault("fold_fwd_kernel", "numbers", swap("gain", "gain_2")),
    "another target": Fault("loss_kernel", "numbers", tensor("targets", next_class)),
    "another share of the batch": Fault("loss_kernel", "numbers", scalar(B=2)),
    "an output too few in the loss": Fault("loss_kernel", "numbers", scalar(K=SIZES[3] - 1)),
    "an output too many in the loss": Fault("loss_kernel", "bounds", scalar(K=SIZES[3] + 1)),
    "no barriers in the loss": Fault("loss_kernel", "race", code_without_barriers, "none"),
    "features not normed in one product": Fault("products_bwd_kernel", "numbers", tensor("scale_2", torch.ones_like)),
    "products exchanged": Fault("products_bwd_kernel", "numbers", swap("states", "d_drive")),
    "a missing product": Fault("products_bwd_kernel", "numbers", drop_block),
    "no barriers in the products": Fault("products_bwd_kernel", "race", code_without_barriers, "none"),
    "a program's rows left out": Fault("totals_kernel", "numbers", one_less("P")),
    "a reader's rows left out": Fault("totals_kernel", "numbers", one_less("R")),
    "rows too many": Fault("totals_kernel", "bounds", one_more("P")),
    "transitions exchanged": Fault("totals_kernel", "numbers", swap("d_transition", "d_transition_2")),
    "another descriptor": Fault("totals_kernel", "numbers", tensor("descriptor", torch.neg)),
    "no barriers in the sums": Fault("totals_kernel", "race", code_without_barriers, "none"),
    "no gain of the norm": Fault("fold_fwd_kernel", "numbers", tensor("gain", torch.ones_like)),
    "the direct bank's moments in another order": Fault(
        "head_fwd_kernel", "numbers", tensor("parts", lambda p: p.roll(1, dims=2).contiguous())
    ),
    "sums exchanged": Fault("head_fwd_kernel", "numbers", swap("sums", "sums_2")),
    "banks exchanged in the backward": Fault("head_bwd_kernel", "numbers", swap("d_sums", "d_sums_2")),
    "a missing chunk in the head": Fault("head_fwd_kernel", "numbers", drop_block),
    "another lag's count in the backward": Fault("head_bwd_kernel", "numbers", tensor("counts", shift_pairs)),
    "no clipping": Fault("adamw_kernel", "numbers", tensor("settings", unclipped)),
    "a step ahead": Fault("adamw_kernel", "numbers", tensor("steps", one_later)),
    "two parameters exchanged": Fault("adamw_kernel", "numbers", swap("p_2", "p_3")),
    "a parameter that begins too late": Fault("adamw_kernel", "bounds", tensor("starts", one_number_later)),
    "a forgotten average": Fault("adamw_kernel", "numbers", tensor("average", torch.zeros_like)),
    "a missing parameter": Fault("adamw_kernel", "numbers", lose_the_last),
    "frames turned backwards": Fault("turn_kernel", "numbers", tensor("tangent", torch.neg)),
    "frames' tangents exchanged": Fault("turn_kernel", "numbers", swap("tangent", "tangent_2")),
    "a missing block of a frame's rows": Fault("turn_kernel", "numbers", drop_block),
    "a missing column of a tangent": Fault("turn_kernel", "numbers", one_less("N")),
    "frames exchanged": Fault("orthonormalize_kernel", "numbers", swap("base", "base_2")),
    "a missing block of a base's rows": Fault("orthonormalize_kernel", "numbers", drop_block),
    "no barriers in the frames' turn": Fault("turn_kernel", "race", code_without_barriers, "none"),
    "no barriers in the Newton-Schulz step": Fault("orthonormalize_kernel", "race", code_without_barriers, "none"),
    "no barriers in the edge": Fault("edge_fwd_kernel", "race", code_without_barriers, "none"),
    "no barriers in the reader": Fault("reader_fwd_kernel", "race", code_without_barriers, "none"),
    "no barriers in the norm": Fault("norm_bwd_kernel", "race", code_without_barriers, "none"),
    "no barriers in the outer product": Fault("outer_bwd_kernel", "race", code_without_barriers, "none"),
    "no barriers in the reader's backward": Fault("reader_bwd_kernel", "race", code_without_barriers, "none"),
    "no barriers in the norm of gradients": Fault("adamw_kernel", "race", code_without_barriers, "none"),
    "no barrier after the parts of wide features": Fault(
        "edge_fwd_kernel", "race", code_without_its_own_barrier, "none", WIDE
    ),
    "no barrier after the parts in the backward": Fault(
        "norm_bwd_kernel", "race", code_without_its_own_barrier, "none", WIDE
    ),
    "only the first part lifted": Fault("edge_fwd_kernel", "numbers", flag(WIDE=False), "both", WIDE),
    "only the first part synthesized": Fault("reader_fwd_kernel", "numbers", flag(WIDE=False), "both", WIDE),
    "only the first part normed in the backward": Fault("norm_bwd_kernel", "numbers", flag(WIDE=False), "both", WIDE),
    "only the first part in the reader's backward": Fault(
        "reader_bwd_kernel", "numbers", flag(WIDE=False), "both", WIDE
    ),
    "a missing part in the backward": Fault("edge_bwd_kernel", "numbers", drop_block, "none", WIDE),
    "shuffles from too far": Fault("edge_fwd_kernel", "numbers", code_with_far_shuffles, "none"),
    "shuffles from too far in the reader": Fault("reader_fwd_kernel", "numbers", code_with_far_shuffles, "none"),
    "a lost sign": Fault("edge_fwd_kernel", "numbers", code_with_a_lost_sign, "none"),
    "unmasked stores": Fault("edge_fwd_kernel", "bounds", code_with_unmasked_stores, "none"),
    "no barriers in the head": Fault("head_fwd_kernel", "race", code_without_barriers, "none"),
    "a ticket that orders nothing": Fault("head_fwd_kernel", "race", code_with_relaxed_tickets, "none"),
    "unmasked stores in the backward": Fault("edge_bwd_kernel", "bounds", code_with_unmasked_stores, "none"),
}


def make_page():
    """docs/gpu-faults.md."""
    lines = [
        "# Faults planted in the GPU kernels",
        "",
        "Made by `python -m alphabet_testing.kernels.faults`; `nox -s tests` plants every one of them, in a",
        "launch or in the compiled PTX, executes the kernels on the CPU and requires the named gate to notice.",
        "",
        *(f"- **{gate}**: {meaning}" for gate, meaning in GATES.items()),
        "",
        "| fault | kernel | planted in | caught by |",
        "|---|---|---|---|",
    ]
    for name, fault in FAULTS.items():
        where = "PTX" if fault.change.__name__.startswith("code_") else "launch"
        lines.append(f"| {name} | {fault.kernel} | {where} | {fault.gate} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(make_page(), end="")
