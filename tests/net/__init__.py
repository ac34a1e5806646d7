"""A net under changes that should change nothing: what 300 varied calls answer, kept as data and compared.

`python -m tests.net --write` records the answers of this commit on this machine, `python -m tests.net` compares with
what is recorded: bit for bit on a machine with the same processor and libraries, to 1e-13 of the scale of each result
(and its own stated error) on any other.
"""
