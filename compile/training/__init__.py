"""Train models on your own questions: `knowgap.train.reranker(…)`, `ra_isf(…)`, `rq_rag(…)`.

Each function finds or makes the examples, trains a model, and measures it on questions that are not trained on.
"""

from knowgap.compiling.training.config import GeneratorConfig, RerankerConfig, SubModelConfig, TrainingConfig
from knowgap.compiling.training.fit import TrainingResult
from knowgap.compiling.training.generator import rq_rag
from knowgap.compiling.training.reranker import reranker
from knowgap.compiling.training.sub_models import ra_isf
from knowgap.compiling.training.trained import ModelScores, Trained

__all__ = [
    "GeneratorConfig",
    "ModelScores",
    "RerankerConfig",
    "SubModelConfig",
    "Trained",
    "TrainingConfig",
    "TrainingResult",
    "ra_isf",
    "reranker",
    "rq_rag",
]
