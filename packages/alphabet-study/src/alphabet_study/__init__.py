"""alphabet-study: the evaluation protocol on 82 tasks, run anywhere, killed at any time, sealed until it may be opened.

registry    the tasks as declarations, one file per suite     readers     strict readers of published formats
protocol    folds, fits, two-stage selection, the seal        campaign    plan, store, engines, export and import
statistics  ranks, tests and pictures                         cli         the console command alphabet-study
"""
