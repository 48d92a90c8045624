"""Train models on your own questions: `knowgap.train.reranker(…)`, `colbert(…)`, `ra_isf(…)`, `rq_rag(…)`.

Each function finds or makes the examples, trains a model, and measures it on questions that are not trained on.
"""

from __future__ import annotations

from knowgap.compiling.training.config import (
    ColBERTConfig,
    GeneratorConfig,
    LanguageModelConfig,
    RerankerConfig,
    SubModelConfig,
    TrainingConfig,
)
from knowgap.compiling.training.cross_encoder import reranker
from knowgap.compiling.training.fit import TrainingPlan, TrainingResult
from knowgap.compiling.training.generator import rq_rag
from knowgap.compiling.training.late_interaction import colbert
from knowgap.compiling.training.sub_models import ra_isf
from knowgap.compiling.training.trained import ModelScores, Trained, compare_models

__all__ = [
    "ColBERTConfig",
    "GeneratorConfig",
    "LanguageModelConfig",
    "ModelScores",
    "RerankerConfig",
    "SubModelConfig",
    "Trained",
    "TrainingConfig",
    "TrainingPlan",
    "TrainingResult",
    "colbert",
    "compare_models",
    "ra_isf",
    "reranker",
    "rq_rag",
]
