"""Gaussian processes of wide networks on scikit-learn's handwritten digits: what depth and σ's do to them.

python -m derivations.digits                 prints the tables of docs/digits.md
python -m derivations.digits figures DIR     draws its figure
"""
