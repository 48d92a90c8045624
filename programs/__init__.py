"""Question-answering programs: one method per file, found by name and imported when first used.

>>> from knowgap.programs import get_program
>>> get_program("migres").__name__
'MIGRES'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from knowgap.errors import UnknownName

if TYPE_CHECKING:
    from knowgap.programs.adaptive_note import AdaptiveNote as AdaptiveNote
    from knowgap.programs.base import Program as Program
    from knowgap.programs.baselines.chain_of_note import ChainOfNote as ChainOfNote
    from knowgap.programs.baselines.cot import ChainOfThought as ChainOfThought
    from knowgap.programs.baselines.direct import Direct as Direct
    from knowgap.programs.baselines.flare import FLARE as FLARE
    from knowgap.programs.baselines.ircot import IRCoT as IRCoT
    from knowgap.programs.baselines.iter_retgen import IterRetGen as IterRetGen
    from knowgap.programs.baselines.itrg import ITRG as ITRG
    from knowgap.programs.baselines.least_to_most import LeastToMost as LeastToMost
    from knowgap.programs.baselines.rag import RAG as RAG
    from knowgap.programs.baselines.rag_cot import RAGChainOfThought as RAGChainOfThought
    from knowgap.programs.baselines.react import ReAct as ReAct
    from knowgap.programs.baselines.rerank import CitationRerank as CitationRerank
    from knowgap.programs.baselines.self_ask import SelfAsk as SelfAsk
    from knowgap.programs.baselines.self_refine import SelfRefine as SelfRefine
    from knowgap.programs.baselines.self_rerank import SelfRerank as SelfRerank
    from knowgap.programs.baselines.skr import SKR as SKR
    from knowgap.programs.baselines.snippet import Snippet as Snippet
    from knowgap.programs.baselines.summ import Summ as Summ
    from knowgap.programs.baselines.vanilla_s import VanillaS as VanillaS
    from knowgap.programs.baselines.vtg import VTG as VTG
    from knowgap.programs.blend_filter import BlendFilter as BlendFilter
    from knowgap.programs.migres import MIGRES as MIGRES
    from knowgap.programs.ra_isf import RAISF as RAISF
    from knowgap.programs.rq_rag import RQRAG as RQRAG
    from knowgap.programs.trace.trace import Cost as Cost
    from knowgap.programs.trace.trace import Trace as Trace

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

_PUBLIC = {
    **{path.partition(":")[2]: path for path in PROGRAMS.values()},
    "Program": "knowgap.programs.base:Program",
    "Cost": "knowgap.programs.trace.trace:Cost",
    "Trace": "knowgap.programs.trace.trace:Trace",
}


def get_program(name: str) -> type[Program]:
    """The class of a program.

    Raises:
        UnknownName: there is no such program.
    """
    if name not in PROGRAMS:
        raise UnknownName.among("program", name, PROGRAMS)
    return _load(PROGRAMS[name])


def _load(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return _load(_PUBLIC[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
