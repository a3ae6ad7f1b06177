"""Moments to descriptor and logits (Algorithm 1, lines 10, 15 and the last)."""
