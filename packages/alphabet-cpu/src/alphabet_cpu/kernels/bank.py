"""One bank over some tokens: lift, drive and recurrence, forward and backward."""

from typing import Any, NamedTuple

from alphabet_core.fused import LIFT_REACH

from alphabet_cpu.compiling import array_kernel, inlined, kernel
from alphabet_cpu.kernels.arithmetic import allocate, clear, copy
from alphabet_cpu.kernels.frames import drive_modes
from alphabet_cpu.kernels.hold import Holds, hold_steps, tabulate_poles
from alphabet_cpu.kernels.lift import Lifted, lift
from alphabet_cpu.kernels.moments import correlate_bwd
from alphabet_cpu.kernels.products import Rows, accumulate_outer, multiply_rows
from alphabet_cpu.kernels.scan import scan, scan_at_bwd, scan_bwd


class KeptBank(NamedTuple):
    """What a bank computes of n tokens, which is all that its backward pass needs.

    lifted: its lift
    drive (n, columns), states (history + n + history, columns)
    holds, table: on an irregular grid what the poles do over each step, and what that is computed from; else None
    """

    lifted: Lifted
    drive: Any
    states: Any
    holds: Any
    table: Any


@array_kernel
def allocate_holds(lookups, count, columns):
    """Buffers for the holds of so many steps; None on a regular grid."""
    if lookups is None:
        return None
    return Holds(allocate(count * columns), allocate(count * columns))


@array_kernel
def tabulate_bank(lookups, raw_poles, columns):
    """The table of a bank's poles, given their parameters (2, M); None on a regular grid."""
    if lookups is None:
        return None
    return tabulate_poles(raw_poles, columns)


@array_kernel
def allocate_bank(lookups, count, sizes, raw_poles, keep_gates):
    """Buffers of zeros for so many tokens of a bank, and whole groups of rows."""
    rows = count + 2 * LIFT_REACH
    features = allocate(rows * sizes.width)
    gates = allocate(rows * sizes.width) if keep_gates else features
    return KeptBank(
        Lifted(features, gates, allocate(rows)),
        allocate(rows * sizes.columns),
        allocate((rows + 2 * sizes.history) * sizes.columns),
        allocate_holds(lookups, rows, sizes.columns),
        tabulate_bank(lookups, raw_poles, sizes.columns),
    )


@kernel
def hold_tokens(lookups, kept, tokens, sizes):
    """Write what the poles do over the tokens' steps; nothing on a regular grid."""
    if lookups is not None:
        hold_steps(lookups.steps, tokens.first, tokens.count, sizes, kept.table, kept.holds)


@inlined
def drive_bank(lookups, source, centre, tokens, sizes, bank, valid, kept, keep_gates):
    """Lift and drive some tokens, the first of which is row `centre` of the source: all that waits for no state."""
    lift(lookups, source, centre, tokens, sizes, bank.taps, valid, kept.lifted, keep_gates)
    drive_modes(kept.lifted.features, bank.drive, kept.drive, tokens.count, sizes)
    hold_tokens(lookups, kept, tokens, sizes)


@inlined
def transport(tokens, sizes, bank, gate, kept, before, after):
    """Run the recurrence from the states (history, columns) that were before on, and write those that are then last."""
    history = sizes.history * sizes.columns
    copy(before, 0, kept.states, 0, history)
    if tokens.time == 0:
        clear(kept.states, 0, history)
    scan(kept.holds, kept.drive, kept.lifted.scale, tokens, sizes, bank.transition, gate, kept.states)
    copy(kept.states, tokens.count * sizes.columns, after, 0, history)


@kernel
def transport_bwd(lookups, tokens, sizes, bank, gate, kept, behind, adjoint, d_transition):
    """Turn the states' gradients `adjoint` into the drive's times the norm's scale; add to the transition's gradient.

    behind (columns,): the adjoint state behind the tokens; afterwards that of the first
    """
    scale = kept.lifted.scale
    if lookups is None:
        scan_bwd(kept.states, scale, tokens, sizes, bank.transition, gate, behind, adjoint, d_transition)
    else:
        scan_at_bwd(kept.holds, lookups.steps, kept.table, kept.drive, kept.states, scale, tokens, sizes, gate, adjoint,
                    d_transition)  # fmt: skip


@inlined
def moments_bwd(lookups, tokens, end, sizes, valid, kept, d_sums, states_behind, adjoint):
    """Add what the moments give to the gradients of the states, which have others behind them."""
    columns, history = sizes.columns, sizes.history * sizes.columns
    at = history + tokens.count * columns
    copy(states_behind, 0, kept.states, at, history)
    if tokens.time + tokens.count == end:
        clear(kept.states, at, at + history)
    correlate_bwd(lookups, kept.states, tokens, end, sizes, valid, d_sums, adjoint)
    copy(kept.states, history, states_behind, 0, history)


@inlined
def drive_bwd(tokens, sizes, kept, turned_drive, adjoint, d_drive, d_normed):
    """Write the normed features' gradients times the norm's scale, and add to the drive matrix's."""
    rows = Rows(adjoint, 0, sizes.columns)
    multiply_rows(rows, turned_drive, Rows(d_normed, 0, sizes.width), tokens.count)
    accumulate_outer(Rows(kept.lifted.features, 0, sizes.width), rows, tokens.count, d_drive)
