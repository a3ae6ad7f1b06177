"""The recurrence of one bank and its moments (Algorithm 1, lines 8, 10, 14 and 15)."""
