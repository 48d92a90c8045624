"""`python -m knowgap`."""

from knowgap.cli import main

if __name__ == "__main__":
    main()
