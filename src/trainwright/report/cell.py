"""Short summary of a run, for the prompt and for notebook cells."""

from __future__ import annotations

from markupsafe import Markup

from trainwright.core.formatting import show_number
from trainwright.evaluation.clause import Clause
from trainwright.run.run_context import Result

_MOST_CLAUSES = 6
_MOST_WARNINGS = 3
_COLOURS = {"met": "#1a7f37", "missed": "#cf222e", "undecided": "#9a6700"}
_OTHER_COLOUR = "#cf222e"


def summarise_result(result: Result) -> str:
    """Verdict, clauses with intervals, baselines and report path."""
    verdict = result.verdict
    lines = [f"run {result.name}: {verdict.status.upper()}"]
    lines += [f"  {line}" for line in _decisive(result)]
    lines += [f"  {_clause(clause)}: {clause.status}" for clause in verdict.clauses[:_MOST_CLAUSES]]
    lines += _more(len(verdict.clauses) - _MOST_CLAUSES, "clause")
    if baselines := _baselines(result):
        lines.append(f"  baselines: {' · '.join(baselines)}")
    warnings = result.evaluation.warnings
    lines += [f"  warning: {warning}" for warning in warnings[:_MOST_WARNINGS]]
    lines += _more(len(warnings) - _MOST_WARNINGS, "warning")
    lines.append(f"  report: {result.folder.report}")
    return "\n".join(lines)


def draw_cell(result: Result) -> str:
    """The summary as HTML, with all text escaped."""
    verdict, clauses = result.verdict, result.verdict.clauses[:_MOST_CLAUSES]
    rows = Markup("").join(_row(clause) for clause in clauses)
    notes = [
        *_decisive(result),
        *_more(len(verdict.clauses) - _MOST_CLAUSES, "clause"),
        *([f"baselines: {' · '.join(_baselines(result))}"] if _baselines(result) else []),
        *(f"warning: {one}" for one in result.evaluation.warnings[:_MOST_WARNINGS]),
        *_more(len(result.evaluation.warnings) - _MOST_WARNINGS, "warning"),
        f"report: {result.folder.report}",
    ]
    lines = Markup("").join(Markup("<div>{}</div>").format(note.strip()) for note in notes)
    head = Markup("<b>{}</b> {}").format(result.name, _badge(verdict.status))
    columns = Markup("").join(
        Markup("<th style='text-align:left'>{}</th>").format(name)
        for name in ("clause", "value", f"{result.evaluation.confidence:.0%} interval", "status")
    )
    table = Markup("<table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>")
    return str(Markup("<div>{}{}{}</div>").format(head, table.format(columns, rows), lines))


def _decisive(result: Result) -> list[str]:
    """Why the verdict is invalid, and the contract line that resolves it."""
    return [f"invalid: {one.name}: {one.numbers}. {one.write}" for one in result.verdict.decisive]


def _row(clause: Clause) -> Markup:
    cells = (clause.name, show_number(clause.interval.value), clause.interval.bounds)
    shown = Markup("").join(Markup("<td>{}</td>").format(cell) for cell in cells)
    return Markup("<tr>{}<td>{}</td></tr>").format(shown, _badge(clause.status))


def _badge(status: str) -> Markup:
    colour = _COLOURS.get(status, _OTHER_COLOUR)
    return Markup("<span style='color:{};font-weight:600'>{}</span>").format(colour, status)


def _clause(clause: Clause) -> str:
    return f"{clause.name} · {show_number(clause.interval.value)} ({clause.interval.bounds})"


def _baselines(result: Result) -> list[str]:
    """The contract's metric for each baseline."""
    return result.evaluation.show_baselines(result.verdict.clauses[0].metric)


def _more(count: int, what: str) -> list[str]:
    plural = "" if count == 1 else "s"
    return [f"  and {count} {what}{plural} more, in the report"] if count > 0 else []
