"""Lift, norm and drive of one bank (Algorithm 1, lines 4-7 and 9-13): what both lifts share, forward and backward."""
