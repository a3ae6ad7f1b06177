"""alphabet-study: the evaluation protocol on 82 tasks, run anywhere, killed at any time, sealed until it may be opened.

registry    the tasks as declarations, one file per suite     readers      strict readers of published formats
data_root   where files lie, and whether they are right       fetching     downloads that verify and resume
protocol    folds, fits, two-stage selection, the seal        campaign     plan, store, engines, export and import
statistics  ranks, tests and pictures                         diagnostics  the paper's four, with published numbers
page        the page of results                               cli          the console command alphabet-study
"""
