"""What someone with a GPU runs once: every check and every time, kept in one archive (`nox -s first-gpu`).

stages     what is run, in which order, for how long at most
running    one stage as a process of its own, with its log and outcome
campaign   all stages; goes on where it was stopped
summary    what happened and what differed, for people
archive    everything in one file
"""
