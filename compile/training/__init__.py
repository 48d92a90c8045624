"""Train models on your own questions: `knowgap.train.reranker(…)`, `colbert(…)`, `ra_isf(…)`, `rq_rag(…)`.

Each function finds or makes the examples, trains a model, and measures it on questions that are not trained on.
"""

from __future__ import annotations

from knowgap.compiling.training.config import (
    ColBERTConfig,
    GeneratorConfig,
    RerankerConfig,
    SubModelConfig,
    TrainingConfig,
)
from knowgap.compiling.training.cross_encoder import reranker
from knowgap.compiling.training.fit import TrainingPlan, TrainingResult
from knowgap.compiling.training.generator import TrainedGenerator, rq_rag
from knowgap.compiling.training.late_interaction import colbert
from knowgap.compiling.training.ranking import TrainedRanking
from knowgap.compiling.training.sub_models import TrainedSubModel, ra_isf

__all__ = [
    "ColBERTConfig",
    "GeneratorConfig",
    "RerankerConfig",
    "SubModelConfig",
    "TrainedGenerator",
    "TrainedRanking",
    "TrainedSubModel",
    "TrainingConfig",
    "TrainingPlan",
    "TrainingResult",
    "colbert",
    "ra_isf",
    "reranker",
    "rq_rag",
]
