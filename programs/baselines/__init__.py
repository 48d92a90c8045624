"""What the methods are measured against: one baseline per file, same retriever, same language model, same trace."""

from knowgap.programs.baselines.cot import ChainOfThought
from knowgap.programs.baselines.direct import Direct
from knowgap.programs.baselines.rag import RAG
from knowgap.programs.baselines.rag_cot import RAGChainOfThought

__all__ = ["RAG", "ChainOfThought", "Direct", "RAGChainOfThought"]
