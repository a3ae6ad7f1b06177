"""alphabet-baselines: the nine families of models that ALPHABET is compared with.

registry      FAMILIES, candidates, build: the paper's configuration table  matching    match_parameters
family_model  FamilyModel: the one contract, around every backbone          tokens      metadata, padding
pooling       what the head reads                                           sanity      what every family must learn
cnn1d, tcn, transformer, mamba, s4d, s5, lru, gru, lstm                     one backbone each
convolution, diagonal, fft, recurrent, residual, selective_scan, steps      what several of them share
selective_cpu, selective_kernels                                            Mamba's scan, compiled for a CPU
mamba_official                                                              mamba-ssm's module, same weights, CUDA only
"""

from alphabet_baselines.family_model import FamilyModel
from alphabet_baselines.matching import Match, count_parameters, match_parameters
from alphabet_baselines.registry import ALPHABET_PAIRS, FAMILIES, WIDTHS, Candidate, Family, build, candidates
from alphabet_baselines.tokens import METADATA

__all__ = [
    "ALPHABET_PAIRS",
    "FAMILIES",
    "METADATA",
    "WIDTHS",
    "Candidate",
    "Family",
    "FamilyModel",
    "Match",
    "build",
    "candidates",
    "count_parameters",
    "match_parameters",
]
