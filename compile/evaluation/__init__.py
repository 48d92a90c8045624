"""Asking programs many questions, scoring their answers, and what that costs.

`evaluate` asks one program or several, and returns an `Evaluation` or `Evaluations`. It is made of `run_questions`, as
the cells of experiments and the trials of studies are. `Estimate` says beforehand what a run costs.
"""
