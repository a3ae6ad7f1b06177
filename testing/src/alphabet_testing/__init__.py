"""alphabet-testing: what the tests of several packages share. Not published.

models      small models and batches with masks            trainers    what every trainer promises
gradients   every gradient against finite differences      timing      ratios, the only times a test may assert
datasets    the UCR sets bundled with aeon                 places      where the checkout's files are
families    small models of the nine families              sizes       the sizes that runtimes are tried at
processes   code in a process of its own

audit       runs on a fake bench, forgeries, and broken runtimes that the gates must reject
learn       series and problems for alphabet-learn's estimators and engines
kernels     the chain of GPU kernels, faults planted in it, and a device that executes PTX
ptx         snippets, kernels and exact arithmetic for the PTX interpreter
"""
