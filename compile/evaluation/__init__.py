"""How good a program is: run it on questions, score the answers, compare."""
