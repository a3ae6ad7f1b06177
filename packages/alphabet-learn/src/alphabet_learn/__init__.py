"""alphabet-learn: time series classification and regression by ALPHABET, for people with data.

estimators   AlphabetClassifier and AlphabetRegressor    transformer  AlphabetTransformer, over facade
aeon_adapter the same for aeon's conventions             frames       pandas' long format
explaining   Explanation, over poles                     picturing    its pictures
pruning      the strongest poles alone                   storage      save and load, over engine_storage
onnx_export  to_onnx, over onnx_network and onnx_graph   streaming    token by token
closed_form  random banks, nothing trained, an affine head in closed form
recipe       every number of the closed form that was chosen
views        values, changes and averages                banks        random models for one view
ridge        the head and its leave-one-out penalty      calibration  probabilities from scores
trained      the paper's model of a few thousand parameters, with trained_fitting and trained_session
series       what engines read, with arrays and clock    standardizing  channels by mean and deviation
labels       targets of any kind as one                  problem      what engines learn
plain        plain data as JSON that keeps types         engine_storage  engines as tensors
drawing      models without touching random numbers      progress     one line on a terminal
errors       LearnError
"""

from alphabet_learn.errors import LearnError
from alphabet_learn.estimators import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer
from alphabet_learn.explaining import Explanation
from alphabet_learn.frames import read_frame
from alphabet_learn.picturing import plot_bars, plot_map, plot_poles, plot_time
from alphabet_learn.storage import load

__all__ = [
    "AlphabetClassifier",
    "AlphabetRegressor",
    "AlphabetTransformer",
    "Explanation",
    "LearnError",
    "load",
    "plot_bars",
    "plot_map",
    "plot_poles",
    "plot_time",
    "read_frame",
]
