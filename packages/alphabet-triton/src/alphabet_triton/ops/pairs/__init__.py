"""Sums in pairs of float32, which several kernels are made of."""
