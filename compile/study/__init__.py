"""One Optuna study over hyperparameters and demonstrations."""
