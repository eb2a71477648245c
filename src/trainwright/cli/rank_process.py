"""`python -m trainwright.cli.rank_process`: a rank that torchrun starts. Its words are its own, or
those of the command that has started torchrun."""

from __future__ import annotations

import sys

from trainwright.cli.main import main
from trainwright.run.ranks.launch import Meeting


def run_rank() -> int:
    """Run the command; the exit code that torchrun is to see."""
    meeting = Meeting()
    if meeting.is_ours:
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
