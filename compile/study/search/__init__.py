"""What a study tries next, and what it stops: search spaces, the sampler, pruning, the race of programs."""
