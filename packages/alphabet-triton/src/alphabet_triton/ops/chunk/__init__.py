"""A chunk of a bank's recurrence and its moments (Algorithm 1, lines 8, 10, 14, 15): what three kernels share."""
