"""What runs on a device: arms, clocks, executions, the parity run and the ledger.

parity       every gate on every runtime          ledger       runs and resumes
interpreted  Triton's interpreter, in its own process
workbench    what the ledger asks of a bench      device_bench the bench of a real device
arms         what is timed                        candidates   which model of a family, and its size
executions   how a family can be run              clock, timing
exploring    comparisons without evidence         environment, manifest   what a measurement depends on
vectors      what restricts both arms to AVX2, and what is in force
"""
