"""Train the golden runs with two checkouts and compare them bit for bit.

`make golden BASE=<commit> [RUNS='mlp gpt']`: BASE is a commit, the other is the working tree.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from golden.golden_runs import CONTRACTS, Digests, train, write_data

ROOT = Path(__file__).resolve().parents[2]


def compare(base: Digests | str, here: Digests | str) -> str:
    """`same`, or what differs."""
    if isinstance(here, str):
        return f"FAILS: {here}"
    if isinstance(base, str):
        return "new: BASE does not train it"
    if not base:
        return "FAILS: BASE wrote no file that is compared"
    changed = sorted(file for file in {*base, *here} if base.get(file) != here.get(file))
    return f"DIFFERS in {', '.join(changed)}" if changed else f"same ({len(base)} files)"


def main(commit: str, names: list[str]) -> int:
    """1 where a run differs from that of `commit`, else 0."""
    with tempfile.TemporaryDirectory(prefix="golden_") as made:
        tree, folders = Path(made, "tree"), (Path(made, "base"), Path(made, "here"))
        archive = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, "src"]
        tree.mkdir()
        with subprocess.Popen(archive, stdout=subprocess.PIPE) as packed:
            subprocess.run(["tar", "-x", "-C", str(tree)], stdin=packed.stdout, check=True)
        if packed.returncode:
            return 2
        folders[0].mkdir()
        write_data(folders[0])
        # A tokenizer that is trained twice is not the same twice.
        shutil.copytree(*folders)
        sources = (tree / "src", ROOT / "src")
        differing = 0
        with ThreadPoolExecutor(2) as pool:
            for name in names or CONTRACTS:
                result = compare(*pool.map(train, sources, folders, (name, name)))
                differing += not result.startswith(("same", "new"))
                print(f"{name}: {result}", flush=True)
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
