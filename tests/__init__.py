"""Where things lie: a test that moves to another folder finds them again."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
REFERENCES = TESTS / "references"  # numbers that were computed once, and what computed them
