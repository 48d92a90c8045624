"""Pages for the browser: studies, evaluations and experiments."""
