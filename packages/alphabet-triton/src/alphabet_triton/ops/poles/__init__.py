"""Poles and their zero-order hold in pairs of float32, which the fold is made of."""
