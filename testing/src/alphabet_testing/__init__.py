"""alphabet-testing: what the tests of several packages share. Not published.

models      small models and batches with masks            trainers    what every trainer promises
datasets    the UCR sets bundled with aeon                 timing      ratios, the only times a test may assert
controls    small models of the control families           sizes       the sizes that runtimes are tried at
processes   code in a process of its own                   places      where the checkout's files are

audit       runs on a fake bench, forgeries, and broken runtimes that the gates must reject
kernels     the chain of GPU kernels, faults planted in it, and a device that executes PTX
ptx         snippets, kernels and exact arithmetic for the PTX interpreter
"""
