"""Frames, norm gains, poles and synthesis multiplied out into what the kernels of both banks read, and back."""
