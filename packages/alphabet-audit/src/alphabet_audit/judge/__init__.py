"""The verdict on a run, from its evidence alone. Nothing here imports what measures; `nox -s lint` checks it.

evaluate   the verdict, and whether a run may be resumed   run        a ledger's records by kind and key
manifest   rules, sources, settings, device               order      what is there, and in which order
timing     calibration, groups, rows, noise               agreement  gates, executions, readings
cells      which candidate, of which size                 parity     the verdict on a parity run
repeated   samples that are copies                        sources    a commit's, compared
seal       the head, published and signed                 headline   some rows in five numbers
remarks    what is possible but worth a look
"""
