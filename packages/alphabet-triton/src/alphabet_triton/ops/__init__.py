"""One folder per op: `kernel` is device code, `launch` says how to call it, `autograd` makes it a torch operator.

`lift` has what `edge` and `reader` share, forward and backward; `adamw` works in place and has no backward.
"""
