"""Frame, norm gain and poles multiplied out: what a bank's kernels read, and the way back to the parameters."""
