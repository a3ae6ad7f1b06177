"""Everything that numba compiles. Host code above this folder prepares arrays, calls these kernels and reads results.

The model, forward and backward side by side, one operation per module, in the order of Algorithm 1:
lift            values to features, five taps and SiLU, and the norm's scale; `project_bwd`, `lift_bwd`
frames          from features to the modes' drives and back, by products or by selection
scan            the modes' recurrence; `scan_bwd`, the adjoint recurrence
synthesis       from the direct bank's states to the features of the cascaded bank; `feedthrough_bwd`
moments         energies and lag products, the descriptor and the logits; `correlate_bwd`, `descriptor_bwd`
clock, hold     on an irregular grid where taps and lags look, and what the poles do over each step

Whole passes:
bank            one bank over some tokens: lift, drive and recurrence
tiles           `run_tile`: both banks over one tile of a sequence
inference       `run_tiles`: all outputs of a batch, tile by tile
backward        `backpropagate`: all gradients of a batch, tile by tile from the last
stream_kernels  `feed_tokens` and `finish`: the forward pass at the end of a stream
fold_kernels    `fold_at_base` and `fold_bwd`: parameters to folded weights, and gradients of these to the parameters'
optimizer       `clip_and_move` and `rebase`: clipping, AdamW and the frames' constraint

What they are written in:
layout          named tuples: what kernels take, and what lies where in packed arrays
products        products with small matrices, in blocks that fit the processor's registers
arithmetic      the sigmoid on lanes, and buffers
lanes           sixteen float32 values as one numba value
memory          numbers that threads share, and memory that torch owns

Arrays are flat float32 unless a docstring says otherwise; rows are tokens, and lanes are features or modes.
"""
