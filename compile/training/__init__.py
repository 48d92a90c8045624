"""Train models on your own questions: `knowgap.train.reranker(…)`, `ra_isf(…)`, `rq_rag(…)`.

Each function finds or makes the examples and trains a model. `knowgap eval --part …` tells what the model is worth.
"""

from knowgap.compiling.training.config import GeneratorConfig, RerankerConfig, SubModelConfig, TrainingConfig
from knowgap.compiling.training.fit import TrainingResult
from knowgap.compiling.training.generator import rq_rag
from knowgap.compiling.training.reranker import reranker
from knowgap.compiling.training.sub_models import ra_isf

__all__ = [
    "GeneratorConfig",
    "RerankerConfig",
    "SubModelConfig",
    "TrainingConfig",
    "TrainingResult",
    "ra_isf",
    "reranker",
    "rq_rag",
]
