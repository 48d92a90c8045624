"""The page of results shows what the recorded answers print."""

from pathlib import Path

from results import RECORDED, read, tables

ROOT = Path(__file__).parents[2]


def test_the_page_of_results_has_the_tables_of_the_recordings():
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    printed = [table.markdown() for table in tables(read(RECORDED))]
    assert printed
    assert all(table.strip() in page for table in printed)
