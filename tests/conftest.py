"""Every test runs alone: no home folder, no cache, no network settings of the machine it runs on."""

from __future__ import annotations

import os
import sys
import tempfile

# DSPy reads these when it is first imported.
os.environ["DSPY_CACHEDIR"] = tempfile.mkdtemp(prefix="knowgap-test-dspy-")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory):
    """Keep the variables that configure knowgap out of the tests, and what a test configures out of the next one."""
    for name in [name for name in os.environ if name.startswith("KNOWGAP_") and name != "KNOWGAP_TEST_DATA"]:
        monkeypatch.delenv(name)
    import dspy

    dspy.cache.reset_memory_cache()
    kept = {"lm": dspy.settings.lm, "disable_history": dspy.settings.disable_history}
    cache = dspy.cache
    yield
    if any(dspy.settings.get(name) is not value for name, value in kept.items()):
        dspy.configure(**kept)
    dspy.cache = cache
    if "optuna" in sys.modules:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.INFO)
