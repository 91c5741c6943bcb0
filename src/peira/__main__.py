"""`python -m peira`: the command line."""

from __future__ import annotations

from peira.cli import main

if __name__ == "__main__":
    main()
