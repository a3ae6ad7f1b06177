"""Evidence: chained records on disk, what they must look like, and nothing about what they mean.

canonical  one way to write a value               chain    records and manifest, read
files      whole files, bounded and synced        store    a run's folder, open for appending
schema     the form of every field
"""
