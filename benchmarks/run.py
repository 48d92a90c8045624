"""All benchmarks in one run, or those that are named: `python benchmarks/run.py concurrency retrieval --quick`."""

from __future__ import annotations

from table import main

if __name__ == "__main__":
    main(["concurrency", "retrieval", "tuning", "reader", "evidence"])
