"""Limits on what is read, and on how long a server is waited for.

A size is a ratio or a share of the machine's memory wherever an honest file may be large. What is
absolute here no honest file has. The table in docs/guide/limits.md names every one of them.
"""

from __future__ import annotations

from typing import Final

MOST_EXPANSION: Final = 200.0
"""How many times its size a file may unpack to, packed as a whole or inside: text packs 3 to 20
times, a bomb a thousand times. The default of `data.reading.most_unpacked_ratio`."""

EXPANSION_SHARE: Final = 64
EXPANSION_BYTES: Final = 64 * 2**20
"""Whatever the ratio, up to 1/64 of the machine's memory and at least 64 MiB may come of a file: a
constant column of a million rows packs into a kilobyte."""

MOST_GIGABYTES: Final = 200.0
"""The default of `data.reading.most_gigabytes`."""

MOST_COLUMNS: Final = 20_000
"""Columns of a table, and features of a TFRecord. The default of `data.reading.most_columns`."""

CELL_BYTES: Final = 8
"""What a value of a table takes at least once it is unpacked."""

MOST_LINE_LETTERS: Final = 64 * 2**20
"""Letters of a line of CSV, TSV or JSON."""

MOST_FIELD_LETTERS: Final = 16 * 2**20
"""Letters of a field of CSV or TSV; a longer one is a quote that does not end."""

QUERY_MEMORY_SHARE: Final = 2
"""The answer to a query may take half of the machine's memory, in which it is kept; one of SQLite
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
"""What a tar file may say of one member beside its bytes."""

MOST_TOKENIZER_BYTES: Final = 32 * 2**20
"""Bytes of a `tokenizer.json`; those of 65,536 tokens, which 16 bits tell apart, have 10 MB."""

MOST_TOKENIZER_GROWTH: Final = 64
"""How many times longer the rules of a tokenizer may make a text."""

TOKENIZER_SECONDS: Final = 20.0
TOKENIZER_LETTERS_PER_SECOND: Final = 10_000
"""A tokenizer has so long for a piece of text, and a second more for so many letters of it; usual
ones do a million a second."""

MOST_JSON_BYTES: Final = 2**30
"""Bytes of a JSON file of a run or bundle."""

MOST_CHECKPOINT_JSON_BYTES: Final = 256 * 2**20
MOST_SAFETENSORS_HEADER_BYTES: Final = 64 * 2**20
"""Of a checkpoint: its JSON, and the header of a file of weights."""

MOST_LAYERS: Final = 1_000
MOST_WIDTH: Final = 10_000_000
"""Sizes of networks that no machine has, whether a contract or a bundle names them."""

MOST_EPOCHS: Final = 1_000_000
MOST_BATCH: Final = 2**31
MOST_TREES: Final = 1_000_000
"""Counts of a contract that no machine comes to the end of; a batch in rows or micro-batches."""

HTTP_CONNECT_SECONDS: Final = 15
HTTP_ANSWER_SECONDS: Final = 30
"""How long a web server has to accept a connection, and to say what it will send."""

HTTP_SILENT_SECONDS: Final = 20
"""How long a web server may send nothing in the middle of a file."""

HTTP_LEAST_BYTES_PER_SECOND: Final = 1024
HTTP_RATE_SECONDS: Final = 20
"""A web server that sends less than this over so long is not waited for."""
