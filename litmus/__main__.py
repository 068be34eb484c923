"""`python -m lastread.litmus` is the command `lastread`."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
