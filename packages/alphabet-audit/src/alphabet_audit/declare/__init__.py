"""What is declared before anything runs: designs, tolerances, gates' cases and quantities, and the words of verdicts.

declarations   data/ or another folder, read      designs      cells and rows
tolerances     what counts as agreement           quantities   what each gate must read
cases          what gates are tried on            verdicts     pass, fail, not-run, partial
vectors        what a run may say of vector instructions
"""
