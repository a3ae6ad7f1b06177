"""The protocol as pure functions, which the ledger follows and the evaluator repeats.

plan       what a ledger will do                  orders            ABBA or BAAB, from a row's name
repeats    how many calls fill a block            ratios            a row's numbers from its samples
readings   what a comparison found                outcomes          what came of a gate
execution_choice   the fastest exact execution
"""
