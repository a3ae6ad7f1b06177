"""Weight gradients of a step: sums of what backward kernels wrote per program and per sequence."""
