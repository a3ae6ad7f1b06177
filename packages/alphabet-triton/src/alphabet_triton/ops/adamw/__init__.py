"""The tail of a training step: gradient norm, clipping and AdamW over all parameters at once."""
