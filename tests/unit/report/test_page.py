from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from faults.tiers import in_test
from run_folders import MARKUP, Wanted, add_training, build_run
from trainwright.report.page import write_report
from trainwright.tracking.run_folder import RunFolder

VOID = {"meta", "br", "hr", "img", "link", "input"}
LOADS = {"src", "href", "srcset", "action", "data", "poster", "background", "formaction"}
FORBIDDEN = {"script", "link", "iframe", "object", "embed", "base", "form", "img", "foreignobject"}


class Page(HTMLParser):
    """The page as a browser splits it: what is open, which headings, which texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.headings: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("h2", "h3"):
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data
        if self.open and self.open[-1] in ("h2", "h3"):
            self.headings[-1] += data


def written(folder: RunFolder) -> tuple[Page, str]:
    text = write_report(folder).read_text(encoding="utf-8")
    return Page(text), text


def check_alone(page: Page, text: str) -> None:
    """Nothing runs, nothing is loaded."""
    assert not page.tags & FORBIDDEN
    for name, value in page.attributes:
        assert not name.startswith("on"), name
        if name in LOADS or name.endswith(":href"):
            assert value.startswith(("#", "data:image/png;base64,")), (name, value[:80])
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("content", policy) in page.attributes
    assert len(page.ids) == len(set(page.ids))


def test_a_page_of_two_classes_has_its_sections_in_order(tmp_path: Path) -> None:
    folder = build_run(tmp_path, Wanted(("<=50K", ">50K")))
    folder.bundle.mkdir()
    curve = {"metric": "auc", "curve": [[1, 0.7, 0.68], [10, 0.8, 0.75], [20, 0.9, 0.74]]}
    (folder.bundle / "boosting.json").write_text(json.dumps(curve), encoding="utf-8")
    page, text = written(folder)
    check_alone(page, text)
    assert page.headings == [
        "Warnings",
        "What the model adds",
        "All metrics",
        "Slices",
        "Curves and calibration",
        "ROC",
        "Precision and recall",
        "Calibration",
        "Confusion",
        "Each class",
        "Training",
        "Boosting: auc",
        "Time by part",
        "Data",
        "How it was divided",
        "Notes",
        "Excluded",
        "Columns",
        "Plan",
        "What the contract left open",
        "Record",
    ]
    assert page.text.index("Verdict: ") < page.text.index("Warnings")
    for words in ("model minus linear", "sex=Female", "opened once", ">50K", "95% interval"):
        assert words in page.text
    assert "column empty" in page.text
    assert "missing in every training row" in page.text
    assert "scikit-learn" in page.text


def test_a_network_shows_its_curves_and_where_it_was_resumed(tmp_path: Path) -> None:
    folder = build_run(tmp_path, Wanted(("a", "b", "c"), model="{kind: mlp}", skill=2.0))
    add_training(folder)
    page, text = written(folder)
    check_alone(page, text)
    for title in (
        "Training loss",
        "Learning rate",
        "Gradient norm",
        "Validation: loss",
        "Validation: roc_auc",
    ):
        assert title in page.headings
    assert "resumed from step-0000000200; damaged and skipped: step-9999999999" in page.text
    assert "ended (finished): all epochs are done" in page.text
    assert "each class against the rest" in page.text


def test_numbers_have_residuals_and_no_confusion(tmp_path: Path) -> None:
    page, text = written(build_run(tmp_path, Wanted((), target=3.0)))
    check_alone(page, text)
    assert {"Predicted against true", "Residuals"} <= set(page.headings)
    assert not {"Confusion", "ROC", "Calibration"} & set(page.headings)
    assert "mean of target" in page.text


@pytest.mark.extended
def test_many_classes_are_a_heat_map_with_the_pairs_that_are_mixed_up(tmp_path: Path) -> None:
    labels = tuple(f"intent {number:02d}" for number in range(30))
    page, text = written(build_run(tmp_path, Wanted(labels, rows=2400, skill=3.0)))
    check_alone(page, text)
    assert {"Confusion of 30 classes", "Mixed up most"} <= set(page.headings)
    assert "ROC" not in page.headings
    assert text.count('href="data:image/png;base64,') == 1


def test_names_with_markup_are_shown_as_text_and_cut(tmp_path: Path) -> None:
    wanted = Wanted(
        (f"{MARKUP} A", "x" * 10_000),
        slice_name=MARKUP,
        column="</th><em>slanted</em>",
        note=f"look at '{MARKUP}' \x07\x1b[1m",
    )
    folder = build_run(tmp_path, wanted)
    for file in (folder.plan, folder.data / "manifest.json", folder.data / "split.json"):
        content = file.read_text(encoding="utf-8").replace("the target", '\\"><mark>x</mark>')
        file.write_text(content, encoding="utf-8")
    record = json.loads(folder.record.read_text(encoding="utf-8"))
    record["command"] = ["trainwright", "train", "\ud800", "<q>quoted</q>"]
    folder.record.write_text(json.dumps(record), encoding="utf-8")
    page, text = written(folder)
    check_alone(page, text)
    assert not page.tags & {"mark", "em", "q"}
    assert '<mark class="x">bold</mark>' in page.text
    assert "{{ 7*7 }}" in page.text
    assert "<em>slanted</em>" in page.text
    assert "<q>quoted</q>" in page.text
    assert not set("\u2069\x07\x1b\x00") & set(text)
    assert "x" * 500 not in text


@pytest.mark.extended
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = build_run(tmp_path, Wanted(("a", "b", "c"), model="{kind: mlp}"))
    add_training(folder)
    first = write_report(folder).read_bytes()
    assert write_report(folder).read_bytes() == first
    assert first.count(b"<svg") > 8


PARTS = (
    "contract.yaml",
    "plan.json",
    "record.json",
    "evaluation.json",
    "data/manifest.json",
    "data/split.json",
    "signals.jsonl",
    "events.jsonl",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return build_run(tmp_path_factory.mktemp("built"), Wanted(rows=300))


@pytest.fixture
def run(built: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(built.path, tmp_path / "income-1")))


@pytest.mark.parametrize("part", in_test(2, PARTS, start=1))
def test_what_is_missing_is_left_out(run: RunFolder, part: str) -> None:
    if part.endswith(".jsonl"):
        add_training(run, 30)
    (run.path / part).unlink()
    page, text = written(run)
    check_alone(page, text)
    assert ("No verdict" in page.text) == (part == "evaluation.json")
    assert "could not be read" not in page.text


@pytest.mark.parametrize("part", [part for part in PARTS if part not in ("contract.yaml",)])
@pytest.mark.parametrize(
    "content", in_test(2, ['{"step": 1, "torn', "[1, 2]", '{"format": 9}', "\x00\xff"])
)
def test_what_is_damaged_is_named_or_left_out(run: RunFolder, part: str, content: str) -> None:
    (run.path / part).write_text(content, encoding="latin-1")
    page, text = written(run)
    check_alone(page, text)
    torn = not content.startswith('{"format') and not part.endswith("jsonl")
    assert ("could not be read" in page.text and part in page.text) or not torn


@pytest.mark.extended
@pytest.mark.parametrize("value", [7, "x", [1], {"a": 1}, [{"name": 3}]])
@pytest.mark.parametrize(
    "part", ["plan.json", "record.json", "data/manifest.json", "data/split.json"]
)
def test_a_file_of_another_shape_does_not_stop_the_page(
    run: RunFolder, part: str, value: object
) -> None:
    path = run.path / part
    content = dict.fromkeys(json.loads(path.read_text(encoding="utf-8")), value)
    path.write_text(json.dumps(content), encoding="utf-8")
    page, text = written(run)
    check_alone(page, text)
    assert "Verdict: " in page.text


@pytest.mark.extended
@pytest.mark.parametrize("content", ["7", '{"a": 1}', '[{"kind": "leak"}]', '["leak"]', "[null]"])
def test_findings_of_another_form_cost_no_section(run: RunFolder, content: str) -> None:
    run.preflight.write_text(content, encoding="utf-8")
    page, text = written(run)
    check_alone(page, text)
    assert "<code>preflight.json</code>" in text
    assert "<code>data/manifest.json</code>" not in text
    assert "<h2>Data</h2>" in text


def test_an_empty_folder_has_a_page(tmp_path: Path) -> None:
    page, text = written(RunFolder.create(tmp_path, "fresh"))
    check_alone(page, text)
    assert "No verdict" in page.text


def test_secrets_of_the_contract_are_not_shown(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "fresh")
    folder.contract.write_text("data: {path: https://me:hunter2@host/rows.csv}\n", encoding="utf-8")
    page, _ = written(folder)
    assert "host/rows.csv" in page.text
    assert "hunter2" not in page.text


def test_many_looks_at_the_test_rows_are_told(run: RunFolder) -> None:
    content = json.loads(run.evaluation.read_text(encoding="utf-8"))
    content["opened"] = [{"time": "2026-01-02T03:04:05Z", "why": f"look {n}"} for n in range(3)]
    run.evaluation.write_text(json.dumps(content), encoding="utf-8")
    page, _ = written(run)
    assert (
        "were opened 3 times, and each look after the first makes the verdict weaker" in page.text
    )


@pytest.mark.extended
def test_an_explanation_has_its_table_and_figures(tmp_path: Path) -> None:
    folder = build_run(tmp_path, Wanted(("a", "b")))
    loss = {"value": 0.1, "low": 0.05, "high": 0.15}
    none = {"value": 0.01, "low": -0.01, "high": 0.02}
    importance = [
        {"column": MARKUP, **loss, "mean_contribution": 0.4},
        {"column": "plain", **none, "mean_contribution": None},
    ]
    dependence = [
        {"column": MARKUP, "values": [MARKUP, "b"], "numbers": [], "outputs": [MARKUP],
         "means": [[0.2], [0.6]]},
        {"column": "age", "values": ["1.0", "2.0"], "numbers": [1.0, 2.0], "outputs": ["a"],
         "means": [[0.2], [0.6]]},
    ]  # fmt: skip
    found = {
        "format": 1, "part": "validation", "rows": 90, "of": 100, "units": 30, "repeats": 5,
        "metric": "roc_auc", "value": 0.8, "confidence": 0.95, "seconds": 1.0,
        "importance": importance, "partial_dependence": dependence, "notes": [MARKUP],
    }  # fmt: skip
    folder.explanation.write_text(json.dumps(found), encoding="utf-8")
    page, text = written(folder)
    check_alone(page, text)
    assert "What the model reads" in page.headings
    assert "Partial dependence" in page.headings
    assert "age" in page.headings
    assert "90 rows of the validation part, 30 independent units" in page.text
    assert page.text.count("not distinguishable from 0") == 1
    folder.explanation.write_text(json.dumps({**found, "format": 9}), encoding="utf-8")
    page, _ = written(folder)
    assert "What the model reads" not in page.headings
    assert "explanation of format 9" in page.text
