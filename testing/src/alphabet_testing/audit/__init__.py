"""Runs of the ledger without hardware, forged evidence, and broken runtimes."""
