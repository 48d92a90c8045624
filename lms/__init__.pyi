from .cache import quiet_dspy as quiet_dspy
from .embedded.engine import ExtractiveEngine as ExtractiveEngine
from .local import HFEngine as HFEngine
from .providers import as_language_model_error as as_language_model_error
from .providers import check_reachable as check_reachable
from .providers import make_lm as make_lm
