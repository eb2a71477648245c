"""A stage sees its own section of the contract, never the whole."""

from __future__ import annotations

import grimp

DOCUMENT = "trainwright.contract.document"

SEE_THE_WHOLE = {"planner", "doctor", "run", "tune", "report", "cli"}
"""The stages that may."""

FACADE = {"", "api", "estimators", "tuned_study"}
"""The package itself and the modules behind its public names: what they re-export is no stage's."""


def stage_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def test_only_these_stages_import_what_holds_the_whole_contract() -> None:
    graph = grimp.build_graph("trainwright", cache_dir=None)
    contract = graph.find_descendants("trainwright.contract")
    whole = {DOCUMENT} | (graph.find_downstream_modules(DOCUMENT) & contract)
    found = {
        f"{importer} imports {module}"
        for module in whole
        for importer in graph.find_modules_that_directly_import(module)
        if stage_of(importer) not in SEE_THE_WHOLE | {"contract", *FACADE}
    }
    assert len(whole) > 1
    assert not found
