"""A new text for a fitted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trainwright.contract.sections.data.sampling import Mixture, Uniform
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Part
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.formats.file_format import known_format
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.text.documents import END, SourceSize, find_documents
from trainwright.data.text.prepare_text import text_part


def new_text(
    data: str, vocabulary: TextVocabulary, section: TokenData, reading: Reading
) -> tuple[Part, tuple[FileVersion, ...]]:
    """A text, a folder of texts, or the contract's column of a table as a part for evaluation, and
    its source files. If the training mixed sources, the text is treated as one source.

    Raises:
        DataMistake: it cannot be read, or is a single token.
    """
    # A plain text has no columns, whatever the source of the training texts.
    column = section.text if Path(data).is_dir() or known_format(data) else ""
    told = section.model_copy(update={"path": data, "text": column, "reading": reading})
    alone: tuple[SourceSize, ...] = ()
    if isinstance(section.sampling, Mixture) and not (column or Path(data).is_dir()):
        told = told.model_copy(update={"sampling": Uniform()})
        alone = (SourceSize(Path(data).name, 1),)
    try:
        documents = find_documents(told, Path())
        text = "".join(documents.blocks())
    except DataMistake as mistake:
        raise DataMistake([_on_data(problem) for problem in mistake.problems]) from mistake
    if documents.several:
        told = told.model_copy(update={"separator": END})
    return text_part(text, vocabulary, told, documents.sources or alone), documents.files


def _on_data(problem: Problem) -> Problem:
    return replace(problem, path="DATA") if problem.path == "data.path" else problem
