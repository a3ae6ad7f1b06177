"""Frame, norm gain and poles multiplied out into what a bank's kernels read, forward and backward."""
