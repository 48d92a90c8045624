"""What happens while a command runs: waiting is shown, and Ctrl-C stops it."""
