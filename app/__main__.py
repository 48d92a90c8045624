"""`python -m knowgap`."""

from knowgap.cli.main import main

if __name__ == "__main__":
    main()
