"""Another plan for data that is prepared already."""

from __future__ import annotations

from dataclasses import replace

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import placed
from trainwright.contract.rules.all_rules import problems_of_rules
from trainwright.core.errors import ContractMistake
from trainwright.model.input_shape import longest_sample, shape_of
from trainwright.planner.plan import Plan, plan
from trainwright.run.prepare.contract_target import watch_defined
from trainwright.run.prepare.prepare_run import Ready


def replan(ready: Ready, contract: Contract) -> Plan:
    """Plan of a contract that prepares the data in the same way. Nothing is measured.

    Raises:
        ContractMistake: the contract does not allow what it says.
    """
    document, prepared = ready.document, ready.prepared
    if problems := problems_of_rules(contract, document.written):
        raise ContractMistake(placed(problems, document.source))
    decided = plan(replace(document, contract=contract), ready.raw.facts, ready.device)
    decided = replace(decided, contract=watch_defined(decided.contract, prepared)[0])
    return decided.with_shape(shape_of(prepared), ready.device, longest_sample(prepared))
