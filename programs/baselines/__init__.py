"""What the methods are measured against: one baseline per file, same retriever, same language model, same trace."""

from knowgap.programs.baselines.chain_of_note import ChainOfNote
from knowgap.programs.baselines.cot import ChainOfThought
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.flare import FLARE
from knowgap.programs.baselines.ircot import IRCoT
from knowgap.programs.baselines.iter_retgen import IterRetGen
from knowgap.programs.baselines.itrg import ITRG
from knowgap.programs.baselines.least_to_most import LeastToMost
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.baselines.rag_cot import RAGChainOfThought
from knowgap.programs.baselines.react import ReAct
from knowgap.programs.baselines.rerank import CitationRerank
from knowgap.programs.baselines.self_ask import SelfAsk
from knowgap.programs.baselines.self_refine import SelfRefine
from knowgap.programs.baselines.self_rerank import SelfRerank
from knowgap.programs.baselines.skr import SKR
from knowgap.programs.baselines.snippet import Snippet
from knowgap.programs.baselines.summ import Summ
from knowgap.programs.baselines.vanilla_s import VanillaS
from knowgap.programs.baselines.vtg import VTG

__all__ = [
    "FLARE",
    "ITRG",
    "RAG",
    "SKR",
    "VTG",
    "ChainOfNote",
    "ChainOfThought",
    "CitationRerank",
    "Direct",
    "IRCoT",
    "IterRetGen",
    "LeastToMost",
    "RAGChainOfThought",
    "ReAct",
    "SelfAsk",
    "SelfRefine",
    "SelfRerank",
    "Snippet",
    "Summ",
    "VanillaS",
]
