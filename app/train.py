"""Train models on your own questions.

>>> import knowgap
>>> sorted(knowgap.train.__all__)
['ra_isf', 'reranker', 'rq_rag']
"""

from __future__ import annotations

from knowgap.compiling.training import ra_isf, reranker, rq_rag

__all__ = ["ra_isf", "reranker", "rq_rag"]
