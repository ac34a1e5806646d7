"""Reports that reproduce papers: claims with both sides, numbers beside planted errors, figures beside networks.

`reproduce(...)` computes what is not on record yet and writes an HTML page and a LaTeX document for each paper; the
command is `meanfield reproduce`.
"""

from derivations.reports.reproducing import reproduce as reproduce
