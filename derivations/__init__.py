"""One module a paper: its equations as claims against the engine."""
