"""Gradient norm, clipping and AdamW over all parameters at once."""
