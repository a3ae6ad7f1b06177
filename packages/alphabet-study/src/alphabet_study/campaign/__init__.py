"""A campaign: all fits of some tasks and families, run by an engine, kept in a store, resumed by the same command.

plan      which fits there are, and which of them can run now    store     where their records are kept, one file
runner    the loop between plan, engine and store                engines   who computes: processes here, or Ray
transfer  export to and import from CSV                          progress  what a user sees meanwhile
watched_data  no record from files other than the recorded ones
"""
