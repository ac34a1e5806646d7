"""Hostile calls of every public verb and of the command line: a sentence or an answer, within limits.

`python -m tests.fuzz --cases 100000 --seed 7 --jobs 2` from the repository's root runs slices by seed.
"""
