"""`python -m trainwright.cli.rank_process`: one of the ranks that a command starts by torchrun."""

from __future__ import annotations

import sys

from trainwright.cli.main import main
from trainwright.run.ranks.launch import Meeting


def run_rank() -> int:
    """Run the command; the exit code that torchrun is to see."""
    meeting = Meeting()
    sys.argv[1:] = meeting.words
    try:
        main()
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    else:
        code = 0
    return meeting.ending(code)


if __name__ == "__main__":
    sys.exit(run_rank())
