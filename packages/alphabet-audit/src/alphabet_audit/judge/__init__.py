"""The verdict on a run, from its evidence alone. Nothing here imports what measures; `nox -s lint` checks it."""
