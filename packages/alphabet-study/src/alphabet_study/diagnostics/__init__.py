"""Diagnostics with published numbers: what the model sees, which of its parts matter, and how it fails.

spectral    the moment-matched control, over separations and lengths    tasks      the 17 UCR tasks of the other three
ablation    structural variants at equal size                           poles      what single poles contribute
corruption  frozen configurations on a corrupted TEST                   published  the paper's numbers
variants    how a structural variant is trained                         contrasts  paired intervals and Holm
rows        finished fits in a CSV file that a kill cannot hurt         tables     frames as tables for a terminal
cli         `alphabet-study diagnostics`                                progress   what a user sees while fits run

Only `corruption` reads TEST, and only under a configuration that a campaign has frozen.
"""
