"""One folder per op: `kernel` is device code, `launch` says how to call it, `autograd` makes it a torch operator.

`lift` has what `edge` and `reader` share, forward and backward; `pairs` is a kind of arithmetic, in which `poles` are
computed. `loss`, `totals`, `adamw` and `constraint` are parts of a complete step, and no operators.
"""
