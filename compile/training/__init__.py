"""Models whose weights are trained: settings, plans, and the run that can be killed and continued."""
