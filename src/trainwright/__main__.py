"""`python -m trainwright`: the command, where its script is not on the path."""

from __future__ import annotations

from trainwright.cli.main import main

if __name__ == "__main__":
    main()
