"""One folder per op: `kernel` is device code, `launch` says how to call it, `autograd` makes it a torch operator.

`lift` is what `edge` and `reader` share on the way back; `adamw` works in place and has no way back.
"""
