"""The chain of GPU kernels executed as PTX, and the faults that its gates must notice."""
