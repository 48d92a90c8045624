"""SNIPPET: passages excerpted by the model before reading."""

from __future__ import annotations

from knowgap.programs.baselines.summ import Summ
from knowgap.signatures import ExtractSnippet

__all__ = ["Snippet"]


class Snippet(Summ):
    """As SUMM, with excerpts in the passages' own words in place of summaries.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE, EMNLP 2023), SNIPPET,
    as run in MIGRES (section 4.2, tables 3 and 5). Simplified as SUMM is; an excerpt is taken as the model gives it.
    """

    name = "snippet"
    _how = "snippet"
    _signature = ExtractSnippet
