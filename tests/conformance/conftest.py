"""Failed assertions of the suite show their values, as those of tests do."""

import pytest

pytest.register_assert_rewrite("conformance.program_suite", "conformance.material")
