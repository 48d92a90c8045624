"""Question-answering programs: one method per file, found by name and imported when first used.

>>> from knowgap.programs import get_program
>>> get_program("migres").__name__
'MIGRES'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from knowgap.errors import UnknownName

if TYPE_CHECKING:
    from knowgap.programs.base import Program

__all__ = ["PROGRAMS", "get_program"]

PROGRAMS: dict[str, str] = {
    "migres": "knowgap.programs.migres:MIGRES",
    "adaptive_note": "knowgap.programs.adaptive_note:AdaptiveNote",
    "ra_isf": "knowgap.programs.ra_isf:RAISF",
    "rq_rag": "knowgap.programs.rq_rag:RQRAG",
    "blend_filter": "knowgap.programs.blend_filter:BlendFilter",
    "direct": "knowgap.programs.baselines.direct:Direct",
    "cot": "knowgap.programs.baselines.cot:ChainOfThought",
    "rag": "knowgap.programs.baselines.rag:RAG",
    "rag_cot": "knowgap.programs.baselines.rag_cot:RAGChainOfThought",
    "react": "knowgap.programs.baselines.react:ReAct",
    "self_ask": "knowgap.programs.baselines.self_ask:SelfAsk",
    "iter_retgen": "knowgap.programs.baselines.iter_retgen:IterRetGen",
    "ircot": "knowgap.programs.baselines.ircot:IRCoT",
    "chain_of_note": "knowgap.programs.baselines.chain_of_note:ChainOfNote",
    "least_to_most": "knowgap.programs.baselines.least_to_most:LeastToMost",
    "skr": "knowgap.programs.baselines.skr:SKR",
    "flare": "knowgap.programs.baselines.flare:FLARE",
    "self_refine": "knowgap.programs.baselines.self_refine:SelfRefine",
    "self_rerank": "knowgap.programs.baselines.self_rerank:SelfRerank",
    "itrg": "knowgap.programs.baselines.itrg:ITRG",
    "vtg": "knowgap.programs.baselines.vtg:VTG",
    "vanilla_s": "knowgap.programs.baselines.vanilla_s:VanillaS",
    "summ": "knowgap.programs.baselines.summ:Summ",
    "snippet": "knowgap.programs.baselines.snippet:Snippet",
    "rerank": "knowgap.programs.baselines.rerank:CitationRerank",
}
"""Where the class of each program is, by the program's name: methods first, then baselines."""


def get_program(name: str) -> type[Program]:
    """The class of a program.

    Raises:
        UnknownName: there is no such program.
    """
    if name not in PROGRAMS:
        raise UnknownName.among("program", name, PROGRAMS)
    module, _, class_name = PROGRAMS[name].partition(":")
    return getattr(importlib.import_module(module), class_name)
