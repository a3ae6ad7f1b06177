"""The backward of one bank's recurrence and moments (Algorithm 1, lines 8, 10, 14 and 15)."""
