"""The page of results shows what the recorded answers print."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from results import RECORDED, read, tables  # noqa: E402


def test_the_page_of_results_has_the_tables_of_the_recordings():
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    printed = [table.markdown() for table in tables(read(RECORDED))]
    assert printed
    assert all(table.strip() in page for table in printed)
