"""One folder per fused op: `kernel` is device code, `launch` says how to call it, `__init__` is its map."""
