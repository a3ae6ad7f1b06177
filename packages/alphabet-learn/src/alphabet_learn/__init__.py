"""alphabet-learn: time series classification and regression by ALPHABET, for people with data.

estimators   AlphabetClassifier and AlphabetRegressor    transformer  AlphabetTransformer, over facade
aeon_adapter the same for aeon's conventions             frames       pandas' long format
closed_form  random banks, nothing trained, an affine head in closed form
recipe       every number of the closed form that was chosen
views        values, changes and averages                banks        random models for one view
ridge        the head and its leave-one-out penalty      calibration  probabilities from scores
trained      the paper's model of a few thousand parameters, with trained_fitting and trained_session
series       what engines read, with arrays and clock    standardizing  channels by mean and deviation
labels       targets of any kind as one                  problem      what engines learn
errors       LearnError                                  progress     one line on a terminal
"""

from alphabet_learn.errors import LearnError
from alphabet_learn.estimators import AlphabetClassifier, AlphabetRegressor, AlphabetTransformer
from alphabet_learn.frames import read_frame

__all__ = ["AlphabetClassifier", "AlphabetRegressor", "AlphabetTransformer", "LearnError", "read_frame"]
