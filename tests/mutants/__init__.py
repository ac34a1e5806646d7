"""Single errors planted in the package, and how many of them the fast tests see: python -m tests.mutants."""
