"""meanfield: a theory engine for wide random neural networks at initialization."""
