"""Failed assertions of its helpers show their values, as those of tests do."""

import pytest

pytest.register_assert_rewrite("conformance.material")
