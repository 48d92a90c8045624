"""SNIPPET: passages excerpted by the model before reading."""

from __future__ import annotations

from knowgap.programs.baselines.summ import Summ
from knowgap.signatures import ExtractSnippet

__all__ = ["Snippet"]


class Snippet(Summ):
    """SUMM with excerpts in the passages' own words in place of summaries.

    Source: SNIPPET of the paper that `Summ` names, as run in MIGRES (section 4.2, tables 3 and 5). Simplified as SUMM
    is; an excerpt is taken as the model writes it, without a check that the passage contains it.
    """

    name = "snippet"
    output_field = "snippet"
    signature = ExtractSnippet
