"""Model cards: everything that the record says, and nothing of the machine or of the markup."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from ruamel.yaml import YAML

from command import command, write_project
from run_folders import MARKUP, Wanted, build_run
from trainwright.core.errors import Mistake
from trainwright.report.format import show_value
from trainwright.report.markdown import code, plain, without_folders
from trainwright.report.model_card import make_card
from trainwright.tracking.run_folder import RunFolder

TEXTS = (
    MARKUP,
    "![x](x.png)",
    "[click](https://example.org)",
    "a|b",
    "a`b``c|d",
    "`",
    "<em>slanted</em>",
    "https://example.org www.example.org",
    "*bold* _it_ ~~gone~~ $x$ &lt; \\",
    "# head",
    "- item",
    "12. item",
    "> quote",
    "---",
    "--- | ---",
    "line\nbreak\r\n\r\n# head",
)
READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NEVER = {"html_inline", "html_block", "link_open", "image", "em_open", "s_open", "blockquote_open"}


def flat(text: str) -> list[Token]:
    tokens = []
    for token in READER.parse(text):
        tokens += [token, *(token.children or [])]
    return tokens


def head_and_body(card: str) -> tuple[dict[str, Any], str]:
    _, head, body = card.split("---\n", 2)
    return YAML(typ="safe").load(head), body


def cells(body: str, title: str) -> list[list[str]]:
    """Rows of the tables of a section as they are shown."""
    tokens = READER.parse(body)
    rows: list[list[str]] = []
    inside = False
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            inside = tokens[at + 1].content == title
        if inside and token.type == "tr_open":
            rows.append([])
        if inside and token.type in ("td_open", "th_open"):
            shown = tokens[at + 1].children or []
            rows[-1].append("".join(one.content for one in shown))
    return rows


@pytest.mark.parametrize("text", TEXTS)
def test_text_is_shown_as_it_was_written(text: str) -> None:
    expected = text.replace("\u2069", "\N{REPLACEMENT CHARACTER}")
    expected = re.sub(
        r"[\n\r]", lambda m: " " if m[0] == "\n" else "\N{REPLACEMENT CHARACTER}", expected
    )
    for made in (plain(text), code(text)):
        tokens = flat(f"- {made}\n\n| a | b |\n| --- | --- |\n| {made} | end |\n")
        kinds = [token.type for token in tokens]
        assert not NEVER & set(kinds)
        assert kinds.count("td_open") == 2
        assert kinds.count("bullet_list_open") == 1
        assert not {"ordered_list_open", "heading_open", "hr"} & set(kinds)
        inlines = READER.parse(f"| a | b |\n| --- | --- |\n| {made} | end |\n")
        shown = [one.children or [] for one in inlines if one.type == "inline"][2]
        assert "".join(one.content for one in shown).strip() == expected.strip()


def test_bare_links_are_no_links_where_those_are_read() -> None:
    for made in (plain(TEXTS[7]),):
        assert "://" not in made
        assert "www." not in made


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("path: /srv/jo/data/rows.csv", "path: rows.csv"),
        ("'/srv/Jo Smith/rows.csv' and ~/x.csv", "'rows.csv' and x.csv"),
        ("file:///srv/jo/rows.csv", "rows.csv"),
        (r"C:\Users\jo\rows.csv", "rows.csv"),
        ("training/validation and 1/2", "training/validation and 1/2"),
        ("data: parts/rows.csv", "data: parts/rows.csv"),
        ("s3://bucket/rows.csv", "s3://bucket/rows.csv"),
    ],
)
def test_of_a_path_the_name_remains(written: str, kept: str) -> None:
    assert without_folders(written) == kept


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    wanted = Wanted(
        (f"{MARKUP} A", "![x](x.png)"),
        slice_name=MARKUP,
        column=TEXTS[4],
        note=f"look at '{MARKUP}' \x07\x1b[1m in /srv/jo/secret/rows.csv token=abc123def456",
    )
    return build_run(tmp_path_factory.mktemp("card"), wanted)


def test_nothing_of_the_data_becomes_markup(marked: RunFolder) -> None:
    card = make_card(marked)
    head, body = head_and_body(card)
    assert not NEVER & {token.type for token in flat(body)}
    assert TEXTS[4] in [row[0] for row in cells(body, "Data")]
    assert len([one for one in flat(body) if one.type == "heading_open"]) >= 8
    assert head["model-index"][0]["name"] == "income-1"
    for secret in ("/srv", "jo/", "abc123def456", "\x1b", "\u2069"):
        assert secret not in card


@pytest.mark.extended
def test_a_card_says_what_the_record_says(tmp_path: Path) -> None:
    contract = write_project(tmp_path)
    assert command(
        "train", contract, "--runs", tmp_path / "runs", "--run", "one", "--set", "seed=3"
    ).code in (0, 3)
    run = tmp_path / "runs" / "one"
    output = tmp_path / "README.md"
    said = command("card", run, "-o", output)
    assert said.code == 0, said.err
    card = output.read_text(encoding="utf-8")
    assert command("card", run).out == card
    head, body = head_and_body(card)
    evaluation = json.loads((run / "evaluation.json").read_text())
    bundle = json.loads((run / "bundle" / "bundle.json").read_text())
    (result,) = head["model-index"][0]["results"]
    metrics = {one["type"]: one["value"] for one in result["metrics"]}
    assert metrics == {
        name: one["value"]
        for name, one in evaluation["evaluation"]["metrics"].items()
        if one["value"] is not None
    }
    assert result["dataset"]["revision"] == bundle["data_version"]
    (clause, *_) = cells(body, "Verdict")[1:]
    written = evaluation["verdict"]["clauses"][0]
    assert (clause[0], clause[-1]) == (written["name"], written["status"])
    files = {row[0]: row[2] for row in cells(body, "Files")[1:]}
    assert files == {name: one["sha256"] for name, one in bundle["files"].items()}
    assert "Probabilities and decision" not in body
    settings = {row[0]: row[1] for row in cells(body, "Training")[1:]}
    assert settings["model.max_trees"] == "5"
    assert "trainwright train contract.yaml --set seed=3" in body
    assert contract.read_text().strip() in body
    assert str(tmp_path) not in card
    assert "license" not in head


@pytest.mark.extended
def test_a_card_says_how_probabilities_were_calibrated(tmp_path: Path) -> None:
    contract = write_project(tmp_path)
    words = ["--set", "training.calibration=platt", "--set", "training.threshold=0.4"]
    words += ["--runs", str(tmp_path / "runs"), "--run", "one"]
    assert command("train", contract, *words).code in (0, 3)
    run = RunFolder(tmp_path / "runs" / "one")
    _, body = head_and_body(make_card(run))
    assert "Calibrated by platt on 45 validation rows" in body
    assert "A row is positive from a probability of 0.4 on" in body
    changes = json.loads(run.evaluation.read_text())["calibration"]["changes"]
    rows = cells(body, "Probabilities and decision")[1:]
    after = {name: show_value(one["after"]["value"]) for name, one in changes.items()}
    assert {row[0]: row[2] for row in rows} == after


def test_hugging_face_reads_the_head(marked: RunFolder) -> None:
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(make_card(marked)).data
    assert data.library_name == "trainwright"
    assert {one.metric_type for one in data.eval_results} == set(data.metrics)
    assert data.eval_results[0].task_type == "tabular-classification"


def test_an_accepted_finding_stands_with_its_reason(tmp_path: Path) -> None:
    run = build_run(tmp_path, Wanted())
    content = json.loads(run.evaluation.read_text())
    content["verdict"]["findings"] = [
        {
            "finding": "group_overlap",
            "columns": ["a|b"],
            "message": "rows of a person are on both sides",
            "method": "rows taken out",
            "metric": "roc_auc",
            "before": {"condition": "with them", "value": 0.9},
            "after": {"condition": "without", "value": 0.8},
            "difference": {"value": -0.1, "low": -0.2, "high": -0.05},
            "clauses": [],
            "outcome": "accepted",
            "write": "",
            "reason": "persons return",
        }
    ]
    run.evaluation.write_text(json.dumps(content))
    body = make_card(run)
    assert "accepted: persons return" in body
    assert r"a\|b" in body


def test_a_run_without_a_verdict_has_no_card(tmp_path: Path) -> None:
    run = build_run(tmp_path, Wanted())
    run.evaluation.unlink()
    output = tmp_path / "README.md"
    with pytest.raises(Mistake, match="no verdict yet"):
        make_card(run)
    assert command("card", run.path, "-o", output).code == 2
    assert not output.exists()
    assert command("card", run.path, "-o", tmp_path / "absent" / "README.md").code == 2
