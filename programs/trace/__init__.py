"""What happened while a question was answered: steps, trace, recorder, view."""
