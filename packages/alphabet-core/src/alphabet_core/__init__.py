"""alphabet-core: the reference ALPHABET, complete and exact.

model       Alphabet: Algorithm 1, top to bottom        config       AlphabetConfig and the structural variants
sequence    the input contract and its errors           arguments    what other arguments must be
grid        tokens or clock: where taps and lags look
lift, norm, frame, poles, scan, moments, head           the steps that model.py names, one room each
pairs       complex numbers as pairs of reals           streaming    StreamingAlphabet: token by token
attribution margins as exact sums over poles            plots        pictures of poles and predictions
bounds      guarantees uniform in the input             spectra      population moments of known spectra
training    TrainingStep, recipes, fit                  early_stopping  fit with validation and a checkpoint
examples    sequences with their targets                adaptation   lifts started on the data
storage     save and load                               export       frozen copies, torch.export, ONNX
fused       the contract with fused runtimes
definition  Algorithm 1 as plain loops                  spectral_control  the moment-matched diagnostic
"""

from alphabet_core.adaptation import adapt, adapt_lifts
from alphabet_core.attribution import (
    Attribution,
    attribute,
    mean_descriptor,
    neutralize,
    pole_mask,
    rank_poles,
    retain,
)
from alphabet_core.bounds import (
    descriptor_bound,
    drive_bound,
    logit_bound,
    perturbation_bound,
    state_bound,
    stream_bound,
)
from alphabet_core.config import VARIANTS, AlphabetConfig
from alphabet_core.early_stopping import DivergedError, Fitted, fit_validated, predict_examples
from alphabet_core.errors import AlphabetError
from alphabet_core.examples import Examples
from alphabet_core.export import export_onnx, export_program, freeze
from alphabet_core.model import Alphabet
from alphabet_core.plots import plot_poles, plot_prediction
from alphabet_core.scan import SCANS, scan_associative, scan_chunked, scan_sequential
from alphabet_core.sequence import Sequence, read_sequence, value_checks
from alphabet_core.spectra import ar_spectrum, frequency_response, ma_spectrum, noise_floor, population_moments
from alphabet_core.storage import load, save
from alphabet_core.streaming import StreamingAlphabet
from alphabet_core.training import RECIPES, Recipe, TrainingStep, fit

__all__ = [
    "RECIPES",
    "SCANS",
    "VARIANTS",
    "Alphabet",
    "AlphabetConfig",
    "AlphabetError",
    "Attribution",
    "DivergedError",
    "Examples",
    "Fitted",
    "Recipe",
    "Sequence",
    "StreamingAlphabet",
    "TrainingStep",
    "adapt",
    "adapt_lifts",
    "ar_spectrum",
    "attribute",
    "descriptor_bound",
    "drive_bound",
    "export_onnx",
    "export_program",
    "fit",
    "fit_validated",
    "freeze",
    "frequency_response",
    "load",
    "logit_bound",
    "ma_spectrum",
    "mean_descriptor",
    "neutralize",
    "noise_floor",
    "perturbation_bound",
    "plot_poles",
    "plot_prediction",
    "pole_mask",
    "population_moments",
    "predict_examples",
    "rank_poles",
    "read_sequence",
    "retain",
    "save",
    "scan_associative",
    "scan_chunked",
    "scan_sequential",
    "state_bound",
    "stream_bound",
    "value_checks",
]
