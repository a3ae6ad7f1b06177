"""The protocol: what a fit is, what it may see, and how one configuration is chosen.

settings   the protocol's numbers        records    keys, jobs, outcomes and records
folds      optimization and validation   sealing    TRAIN for selection, TEST for finals only
trainers   how a candidate is trained    metrics    what is measured
fitting    one fit, job to record        selection  two stages and the frozen configuration
versions   code, libraries and machine
"""
