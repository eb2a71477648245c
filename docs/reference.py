"""Pages that are made from the source at each build, so that none can be stale.

A hook of mkdocs: the contract reference comes from the JSON schema of the contract, the reference
of the verbs from the command itself, the changelog from the file beside the README.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.main import get_command

import trainwright
from trainwright.cli.main import app
from trainwright.contract.reading.schema import contract_schema
from trainwright.core import errors

ROOT = Path(__file__).resolve().parents[1]

Schema = Mapping[str, Any]

CONTRACT_HEAD = """# The contract, key by key

Every key, its values, its default and its meaning. A key that is not listed is an error, and so is
a value outside its range; all problems are reported at once. `auto` is decided before the run
starts, and the plan keeps the reason. `trainwright schema` prints the same as a JSON schema, for
the completion of an editor.
"""

PYTHON_HEAD = """# The names of the package

`import trainwright as tw` waits for nothing heavy: each name is imported when it is first used.
What is not here may change with any version.

| name | what it is |
| --- | --- |
"""

CLI_HEAD = """# The command, verb by verb

Results go to stdout, progress to stderr. `--json` prints the result as JSON.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that stand in this folder."""
    pages = {
        "reference/contract.md": contract_page(),
        "reference/cli.md": cli_page(),
        "reference/python.md": python_page(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def contract_page() -> str:
    schema = contract_schema()
    definitions = schema["$defs"]
    lines = [CONTRACT_HEAD, *_table("", schema, definitions)]
    written: set[str] = set()
    for name, value in schema["properties"].items():
        lines += _sections(name, value, definitions, 2, written)
    return "\n".join(lines) + "\n"


def _members(value: Schema) -> list[Schema]:
    """The alternatives of a value, of unions in a union too; one if it is no union."""
    members = value.get("oneOf") or value.get("anyOf")
    return [inner for member in members for inner in _members(member)] if members else [value]


def _nested(path: str, value: Schema, definitions: Schema) -> Iterator[tuple[str, Schema]]:
    """The sections directly below a value, each with the path under which it is written."""
    members = _members(value)
    references = [member["$ref"] for member in members if "$ref" in member]
    for member in members:
        if "$ref" in member:
            section = definitions[member["$ref"].rpartition("/")[2]]
            tag = _tag(section) if len(references) > 1 else ""
            yield (f"{path}: {tag}" if tag else path), section
        elif "$ref" in member.get("items", {}):
            yield from _nested(f"{path}[]", member["items"], definitions)
        elif isinstance(inner := member.get("additionalProperties"), dict):
            yield from _nested(f"{path}.<name>", inner, definitions)


def _tag(section: Schema) -> str:
    """`kind: mlp` of a member of a family, by the one field that has a single value."""
    fields = section["properties"].items()
    return next((f"{name} {value['const']}" for name, value in fields if "const" in value), "")


def _sections(
    path: str, value: Schema, definitions: Schema, depth: int, written: set[str]
) -> list[str]:
    """What stands below a value; what several members of a family share is written once."""
    lines: list[str] = []
    for title, section in _nested(path, value, definitions):
        if title in written:
            continue
        written.add(title)
        where, colon, tag = title.partition(":")
        heading = f"`{where}`{colon}{tag} {{ #{_anchor(title)} }}"
        lines += [f"{'#' * depth} {heading}", "", _text(section), ""]
        lines += _table(title, section, definitions)
        for name, inner in section["properties"].items():
            lines += _sections(f"{where}.{name}", inner, definitions, min(depth + 1, 4), written)
    return lines


def _table(title: str, section: Schema, definitions: Schema) -> list[str]:
    lines = ["| key | value | default | meaning |", "| --- | --- | --- | --- |"]
    below = title.partition(":")[0]
    for name, value in section["properties"].items():
        path = f"{below}.{name}" if below else name
        default = _default(value) if name not in section.get("required", ()) else "required"
        kinds = " or ".join(_kinds(path, value, definitions))
        lines.append(f"| `{name}` | {kinds} | {default} | {_meaning(value, definitions)} |")
    return [*lines, ""]


def _meaning(value: Schema, definitions: Schema) -> str:
    if "description" in value:
        return _text(value)
    if "$ref" in value:
        return _text(definitions[value["$ref"].rpartition("/")[2]])
    return ""


def _text(value: Schema) -> str:
    """A description on one line, fit for a cell of a table."""
    return " ".join(str(value.get("description", "")).split()).replace("|", "\\|")


def _default(value: Schema) -> str:
    default = value.get("default", "")
    if isinstance(default, dict):
        family = sum("$ref" in member for member in _members(value)) > 1
        chosen = [default[key] for key in ("kind", "name") if family and key in default]
        return f"`{chosen[0]}`" if chosen else "its own defaults" if default else "none"
    if isinstance(default, list):
        return ", ".join(f"`{json.dumps(item)}`" for item in default) or "none"
    if isinstance(default, str):
        return f"`{default}`" if default else "empty"
    return f"`{json.dumps(default)}`"


def _kinds(path: str, value: Schema, definitions: Schema) -> Iterator[str]:
    for title, _ in _nested(path, value, definitions):
        _, _, tag = title.rpartition(": ") if ": " in title else ("", "", "section")
        yield f"[{tag}](#{_anchor(title)})"
    for member in _members(value):
        if "const" in member:
            yield f"`{member['const']}`"
        elif "enum" in member:
            yield from (f"`{choice}`" for choice in member["enum"])
        elif "$ref" not in member and not list(_nested(path, member, definitions)):
            yield _type(member)


def _type(member: Schema) -> str:
    names = {"integer": "whole number", "number": "number", "string": "text"}
    names |= {"boolean": "`true` or `false`", "array": "list", "object": "mapping"}
    name = names[member["type"]]
    if member["type"] == "array" and "type" in member.get("items", {}):
        name = f"list of {_type(member['items'])}"
    if "prefixItems" in member:
        name = f"list of {len(member['prefixItems'])} numbers"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    ranges = [f"{sign} {member[key]}" for key, sign in signs.items() if key in member]
    return " ".join([name, ", ".join(ranges)]).strip()


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title).strip("-").lower()


def python_page() -> str:
    """The first sentence of each public name; of a name that needs torch too."""
    names = [name for name in trainwright.__all__ if name != "__version__"]
    return PYTHON_HEAD + "\n".join(f"| `tw.{name}` | {_sentence(name)} |" for name in names) + "\n"


def _sentence(name: str) -> str:
    text = " ".join(_documentation(name).partition("\n\n")[0].split())
    return _cell(re.split(r"(?<=[.:]) (?=[A-Z])", text)[0].rstrip(":"))


def _documentation(name: str) -> str:
    """What is written under a class, a function or a constant."""
    value = getattr(trainwright, name)
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.getdoc(value) or ""
    home = importlib.import_module(f"trainwright.{vars(trainwright)['_HOMES'][name]}")
    body = ast.parse(inspect.getsource(home)).body
    for one, after in pairwise(body):
        named = isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name
        if named and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            return str(after.value.value)
    return ""


def cli_page() -> str:
    root = get_command(app)
    verbs = _verbs(root, typer.Context(root, info_name="trainwright"), 2)
    return "\n".join([CLI_HEAD, *_exit_codes(), *verbs])


def _exit_codes() -> Iterator[str]:
    """The exit codes of the errors, from the errors themselves."""
    means = {
        errors.EXIT_DONE: "Done; the verdict, if there is one, is met.",
        errors.EXIT_VERDICT_NOT_MET: "Done; the verdict is missed or undecided.",
        errors.Mistake.exit_code: "A mistake in the contract, the data or the arguments.",
    }
    for error in errors.TrainwrightError.__subclasses__():
        means.setdefault(error.exit_code, (error.__doc__ or "").splitlines()[0])
    yield "| exit code | what it says |\n| --- | --- |"
    yield from (f"| {code} | {what} |" for code, what in sorted(means.items()))
    yield ""


def _verbs(command: Any, context: typer.Context, depth: int) -> Iterator[str]:
    """A command with its parameters, then the commands below it."""
    if depth > 2:
        yield f"{'#' * (depth - 1)} {context.command_path}\n"
    yield f"{(command.help or '').strip()}\n"
    yield f"```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    records = [
        record for p in command.get_params(context) if (record := p.get_help_record(context))
    ]
    if records:
        yield "| parameter | meaning |\n| --- | --- |"
        yield from (f"| `{name.strip()}` | {_cell(what)} |" for name, what in records)
        yield ""
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            inner = typer.Context(below, info_name=name, parent=context)
            yield from _verbs(below, inner, depth + 1)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
