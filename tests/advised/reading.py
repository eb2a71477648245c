"""Files that cannot be read as they are, and columns that are not what the contract says."""

from __future__ import annotations

import gzip
import io
import json

import polars as pl

from advised.cases import LABELS, NUMBERS, ROWS, Case, csv, edited

MIXED_DATES = [f"{at % 9 + 1:02d}/0{at % 7 + 1}/2020" for at in range(ROWS)]
COMMAS = csv(x=[f"{at * 37 % 101},5" for at in range(ROWS)])
SEMICOLONS = COMMAS.replace(",5,", "|5,").replace(",", ";").replace("|", ",")
NESTED = "\n".join(json.dumps({"x": at, "l": [at], "y": LABELS[at]}) for at in range(ROWS))
BROKEN = "\n".join(json.dumps({"x": at, "y": LABELS[at]}) for at in range(ROWS)) + '\n{"x": 1,'
DAYS = csv(day=["soon", *(f"2020-{at // 28 + 1:02d}-{at % 28 + 1:02d}" for at in range(1, ROWS))])
JSON = "data.path=rows.jsonl"
NUL = (
    "name the file after its format, export the data again, or, if it is text with stray NUL "
    "bytes, set data.reading.control_characters to remove"
)


def parquet(text: str, turns: list[list[dict[str, str]]] | None = None) -> bytes:
    """A Parquet file of a table, with a column of turns if there are some."""
    frame = pl.read_csv(io.StringIO(text))
    stream = io.BytesIO()
    (frame.with_columns(turns=pl.Series(turns)) if turns else frame).write_parquet(stream)
    return stream.getvalue()


def listed_target() -> bytes:
    """A Parquet file whose target is a list of one class in each row."""
    stream = io.BytesIO()
    pl.DataFrame({"x": range(ROWS), "y": [[label] for label in LABELS]}).write_parquet(stream)
    return stream.getvalue()


CASES = (
    Case(
        "repair the rows, or leave them out with data.missing_target: drop",
        rows=csv(y=["", *LABELS[1:]]),
    ),
    Case(
        "set data.reading.encoding to cp1252 or to the encoding it was written in, or: "
        "iconv -f CP1252 -t UTF-8 'rows.csv' > utf8.csv",
        rows=csv(word=["Straße"] * 60 + ["Weg"] * 60).encode("cp1252"),
    ),
    Case(
        "set data.reading.encoding to utf-16, or: iconv -f UTF-16 -t UTF-8 'rows.csv' > utf8.csv",
        rows=csv().encode("utf-16"),
    ),
    Case("set data.reading.encoding to utf-32", rows=csv().encode("utf-32")),
    Case(
        "export the file again, or set data.reading.control_characters to remove",
        rows=csv() + "1,2,red,2020-01-01,no\n" * 3500 + "\0" * 40,
    ),
    Case(NUL, rows=edited(50, "1,2,r\0ed,2020-01-01,yes")),
    Case(
        "rename the repeated columns in the header, set data.reading.repeated_names to rename, or "
        "data.reading.header to false if the first line is a row",
        rows=csv().replace("x,z", "x,x", 1),
        leaves="no column 'y'",
    ),
    Case(
        "line 3 looks like the header: --set data.reading.skip_lines=2 leaves out the lines above "
        "it",
        rows="Quarterly report,,,,\n,,,,\n" + csv(),
        does=("data.reading.skip_lines=2",),
    ),
    Case(
        "mend the quotes of the row that starts on this line, or set data.reading.quotes to none "
        "if quotes are part of the text",
        rows=edited(50, '1,2,"red,2020-01-01,yes'),
    ),
    Case(
        "quote fields that hold the separator, repair these rows, or allow some to be skipped: "
        "data.reading.bad_records",
        rows=edited(50, "1,2,red,2020-01-01,yes,6"),
    ),
    Case(
        "set data.columns.day.format to one of them",
        ("data.columns.day.kind=datetime",),
        rows=csv(day=MIXED_DATES),
    ),
    Case(
        "add the spelling to data.missing_values, set data.columns.day.format, or its kind to "
        "categorical",
        ("data.columns.day={kind: datetime}",),
        does=("data.columns.day.kind=categorical",),
        rows=DAYS,
    ),
    Case(
        "add the spelling to data.missing_values, or set data.columns.x.kind to categorical",
        ("data.columns.x.kind=numeric",),
        rows=csv(x=["tall", *range(1, ROWS)]),
    ),
    Case(
        "data.reading.numbers: {x: decimal_comma} reads numbers written so",
        ("data.columns.x.kind=numeric", "data.reading.separator=;"),
        rows=SEMICOLONS,
    ),
    Case(
        "say whether 1,234 is 1.234, data.reading.numbers: {x: decimal_comma}, or 1234, "
        "thousands_comma",
        ("data.columns.x.kind=numeric",),
        does=(
            "data.reading.numbers={x: decimal_comma}",
            "data.reading.numbers={x: thousands_comma}",
        ),
        rows=csv(x=[f'"{at + 1},{at * 7 % 900 + 100}"' for at in range(ROWS)]),
    ),
    Case(
        "write all of them alike, or correct data.reading.numbers.x",
        ("data.reading.numbers={x: decimal_comma}",),
        does=("data.reading.numbers.x=thousands_comma",),
        rows=csv(x=[f'"{at + 1},{at * 7 % 900 + 100}.5"' for at in range(ROWS)]),
    ),
    Case(
        "leave it out of data.reading.numbers",
        ("data.path=rows.parquet", "data.reading.numbers={x: decimal_comma}"),
        does=("-data.reading.numbers.x",),
        files={"rows.parquet": parquet(csv())},
    ),
    Case(
        "replace them in the file, or list their spelling in data.missing_values",
        ("data.columns.x.kind=numeric",),
        does=('data.missing_values=["", inf]',),
        rows=csv(x=["inf", *range(1, ROWS)]),
    ),
    Case("set data.columns.y.kind to categorical or numeric", ("data.columns.y.kind=datetime",)),
    Case(
        "name another column in data.target, or check data.missing_values",
        (),
        does=("data.target=word", "data.missing_values=[]"),
        rows=csv(y=["NA"] * ROWS),
        leaves="same value",
    ),
    Case(
        "name another column in data.target, or add rows of other classes",
        (),
        does=("data.target=word",),
        rows=csv(y=["no"] * ROWS),
    ),
    Case(
        "add the columns, or list them in data.exclude",
        ("data={train_path: rows.csv, test_path: test.csv, target: y}",),
        does=("data.exclude=[z]",),
        files={"test.csv": csv().replace("z,", "q,", 1)},
    ),
    Case(
        'if they are other spellings, data.columns.y.values: {"yse": "yes"}',
        ("data={train_path: rows.csv, test_path: test.csv, target: y}",),
        files={"test.csv": csv(y=["yse", *LABELS[1:]])},
    ),
    Case(
        'if they are other spellings, data.columns.y.values: {"false": "0", "true": "1"}',
        ("data={train_path: rows.csv, test_path: test.csv, target: y, positive: '1'}",),
        rows=csv(y=["0", "1"] * (ROWS // 2)),
        files={"test.csv": csv(y=["false", "true"] * (ROWS // 2))},
    ),
    Case(
        "set data.columns.note.kind to categorical or ignored, or data.features.text.rows to 1",
        (
            "data.exclude=[x, z, word, day]",
            "data.columns={note: {kind: text}}",
            "data.features={text: {rows: 1000}}",
        ),
        does=("data.features.text.rows=1",),
        rows=csv(note=[("red", "green", "blue")[at * 5 % 3] for at in range(ROWS)]),
        leaves="no column is left to learn from",
    ),
    Case("did you mean 'word'?", ("data.exclude=[wrod]",)),
    Case("did you mean word?", ("slices=[{column: wrod}]",)),
    Case(
        "choose one of the columns", ("slices=[{column: quux}]",), does=("slices=[{column: word}]",)
    ),
    Case("name one of the columns", ("data.exclude=[quux]",), does=("data.exclude=[word]",)),
    Case(
        "change task to classification, or name another target",
        ("task=regression",),
        does=("data.target=x",),
    ),
    Case(
        "change task to regression, or data.columns.y.kind to categorical",
        ("task=classification",),
        rows=csv(y=NUMBERS),
        leaves="too few rows",
    ),
    Case("change it to f1_macro", ("metric.name=f1",), rows=csv(y=["a", "b", "c"] * 40)),
    Case("remove positive", ("data.positive=a",), rows=csv(y=["a", "b", "c"] * 40)),
    Case("did you mean yes?", ("data.positive=yess",)),
    Case("choose one of the two", ("data.positive=quux",), does=("data.positive=yes",)),
    Case(
        "set data.reading.nested to text, or to chat for lists of turns",
        (JSON,),
        files={"rows.jsonl": NESTED},
    ),
    Case(
        "set data.reading.nested to text, or write the class in a column of its own",
        ("data.path=rows.parquet",),
        files={"rows.parquet": listed_target()},
    ),
    Case(
        "repair the line, write one object on each line, or allow some to be skipped: "
        "data.reading.bad_records",
        (JSON,),
        files={"rows.jsonl": BROKEN},
    ),
    Case(
        "repair the turns, or set data.reading.nested to text",
        ("data.path=rows.parquet", "data.reading.nested=chat"),
        files={"rows.parquet": parquet(csv(), [[{"role": "user", "said": "yes"}]] * ROWS)},
    ),
    Case(
        "raise data.reading.most_gigabytes if the file is trusted",
        ("data.path=rows.csv.gz", "data.reading.most_gigabytes=0.000001"),
        does=("data.reading.most_gigabytes=1",),
        files={"rows.csv.gz": gzip.compress(csv().encode())},
    ),
    Case(
        "set the kind of a column in data.columns",
        ("data.exclude=[z, word, day]",),
        does=("data.columns.x.kind=categorical",),
        rows=csv(x=["same"] * ROWS),
    ),
    Case(
        "correct the format, and the file where it has hours alone, or set "
        "data.columns.day.kind to categorical and remove format",
        ('data.columns.day={kind: datetime, format: "%Y-%H-%d"}',),
        does=(
            ("data.columns.day.kind=categorical", "-data.columns.day.format"),
            'data.columns.day.format="%Y-%m-%d"',
        ),
    ),
    Case(
        'write data.columns.day.format: "%Y-%m-%d %H:%M:%S%.f"',
        ('data.columns.day={kind: datetime, format: "%Y-%m-%d %H:%M:%S.%f"}',),
        rows=csv(day=[f"2020-01-{at % 28 + 1:02d} 10:20:{at % 60:02d}.5" for at in range(ROWS)]),
    ),
    Case(
        'write data.columns.day.format: "%Y-%m-%d %H:%M:%S.%3f"',
        ('data.columns.day={kind: datetime, format: "%Y-%m-%d %H:%M:%S.%3"}',),
        rows=csv(day=[f"2020-01-{at % 28 + 1:02d} 10:20:{at % 60:02d}.500" for at in range(ROWS)]),
    ),
    Case(
        "drop the columns that are not needed, or set data.reading.most_columns to 5 if the file "
        "is trusted: every column takes time in each check",
        ("data.reading.most_columns=4",),
        rows=csv(x=[at * 11 % 97 for at in range(ROWS)]),
    ),
    Case("add for example: path: data.csv", ("-data.path",), leaves="no such file"),
)
