"""Demonstrations for a program's predictors, by DSPy's optimizers."""
