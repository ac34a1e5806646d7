"""A search by machine for wrong answers: random activations, architectures, places and verbs, compared with quadrature
that shares no code with the engine, and one verb with another; and hostile calls, which end in a sentence or an answer.

`python -m tests.fuzz --seed 7 --calls 1000 --out calls.jsonl` from the repository's root; --only 12 repeats call 12.
"""
