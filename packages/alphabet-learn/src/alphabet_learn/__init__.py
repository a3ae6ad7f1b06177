"""alphabet-learn: time series classification and regression by ALPHABET, for people with data.

closed_form  random banks, nothing trained, an affine head in closed form
recipe       every number of the closed form that was chosen
views        values, changes and averages                banks        random models for one view
ridge        the head and its leave-one-out penalty      calibration  probabilities from scores
trained      the paper's model of a few thousand parameters, with trained_fitting and trained_session
series       what engines read, with arrays and clock    frames       pandas' long format
labels       targets of any kind as one                  problem      what engines learn
standardizing  channels by mean and deviation            progress     one line on a terminal
"""
