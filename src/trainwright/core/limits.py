"""Limits on input sizes and server timeouts.

A size is a ratio or a share of the machine's memory wherever a legitimate file may be large;
absolute limits are beyond any legitimate file. The table in docs/guide/limits.md lists every one of
them.
"""

from __future__ import annotations

from typing import Final

MOST_EXPANSION: Final = 200.0
"""Largest ratio of unpacked to packed size, of a file as a whole or inside: text packs 3 to 20
times, a bomb a thousand times. The default of `data.reading.most_unpacked_ratio`."""

EXPANSION_SHARE: Final = 64
EXPANSION_BYTES: Final = 64 * 2**20
"""Regardless of the ratio, a file may unpack to 1/64 of the machine's memory, and to at least 64
MiB: a constant column of a million rows packs into a kilobyte."""

MOST_GIGABYTES: Final = 200.0
"""The default of `data.reading.most_gigabytes`."""

MOST_COLUMNS: Final = 20_000
"""Columns of a table. The default of `data.reading.most_columns`."""

CELL_BYTES: Final = 8
"""Minimum bytes of an unpacked value of a table."""

MOST_LINE_LETTERS: Final = 64 * 2**20
"""Characters of a line of CSV, TSV or JSON."""

MOST_FIELD_LETTERS: Final = 16 * 2**20
"""Characters of a field of CSV or TSV; a longer one is an unterminated quote."""

QUERY_MEMORY_SHARE: Final = 2
"""The result of a query may take half of the machine's memory, where it is kept; a query of SQLite
no more than any other file of its size."""

MOST_QUERY_SECONDS: Final = 3600.0
"""The default of `data.reading.most_seconds`."""

MOST_PATTERN_ENTRIES: Final = 1_000_000
"""Files and folders that a pattern of paths is compared with."""

MOST_IMAGE_BYTES: Final = 256 * 2**20
"""Bytes of an image file, of a member of a tar shard and of a record; and of all members that share
a key."""

MOST_IMAGE_PIXELS: Final = 178_956_970
"""The largest `data.decoding.most_pixels`: above it Pillow itself warns of a bomb."""

USUAL_IMAGE_PIXELS: Final = 50_000_000
"""The default of `data.decoding.most_pixels`, and the most pixels of `data.decoding.size`."""

MOST_JPEG_SCANS: Final = 200
"""Scans of a JPEG: each passes over all pixels, and a progressive one has about ten."""

MOST_TAR_HEADER_BYTES: Final = 2**20
"""Metadata of a tar member."""

MOST_TOKENIZER_BYTES: Final = 2**27
"""Bytes of a `tokenizer.json`; one of 65,536 tokens has 10 MB, one of 262,144 about 35 MB."""

MOST_TOKENIZER_GROWTH: Final = 64
"""Largest expansion of a text by the rules of a tokenizer."""

TOKENIZER_SECONDS: Final = 20.0
TOKENIZER_LETTERS_PER_SECOND: Final = 10_000
"""Time limit of a tokenizer for a piece of text: a constant, and a second per this many characters;
usual ones do a million a second."""

MOST_JSON_BYTES: Final = 2**30
"""Bytes of a JSON file of a run or bundle."""

MOST_CHECKPOINT_JSON_BYTES: Final = 256 * 2**20
MOST_SAFETENSORS_HEADER_BYTES: Final = 64 * 2**20
"""JSON of a checkpoint, and header of a weights file."""

MOST_LAYERS: Final = 1_000
MOST_WIDTH: Final = 10_000_000
"""Network sizes beyond any machine, in a contract or a bundle."""

MOST_EPOCHS: Final = 1_000_000
MOST_BATCH: Final = 2**31
MOST_TREES: Final = 1_000_000
"""Counts beyond any run, in a contract; a batch in rows or micro-batches."""

HTTP_CONNECT_SECONDS: Final = 15
HTTP_ANSWER_SECONDS: Final = 30
"""Time limit of a web server for accepting a connection and responding."""

HTTP_SILENT_SECONDS: Final = 20
"""Time limit of a pause in the middle of a download."""

HTTP_LEAST_BYTES_PER_SECOND: Final = 1024
HTTP_RATE_SECONDS: Final = 20
"""A web server slower than this for this long is abandoned."""
