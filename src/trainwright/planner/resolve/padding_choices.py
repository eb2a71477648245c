"""Length bucketing of padded documents for `auto`."""

from __future__ import annotations

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenFeeding
from trainwright.contract.sections.section import settled
from trainwright.core.formatting import many
from trainwright.data.read_table import DataFacts
from trainwright.data.text.documents import cut_documents
from trainwright.data.text.padding import choose_buckets, padded_shapes
from trainwright.planner.resolve.training_choices import Choice, Choosing

_PATH = "data.padding.buckets"


def decide_padding(
    contract: Contract, data: TokenFeeding, facts: DataFacts, choosing: Choosing
) -> TokenFeeding:
    """The section with its buckets resolved, given resolved batch sizes. Unchanged if no document
    is padded."""
    if data.padding.buckets != "auto":
        return data
    choice = Choice(_PATH, 1, "")
    if data.windows == "padded":
        choice = _choose(contract, data, facts)
        choosing.made.append(choice)
    padding = data.padding.model_copy(update={"buckets": choice.value})
    return data.model_copy(update={"padding": padding})


def _choose(contract: Contract, data: TokenFeeding, facts: DataFacts) -> Choice:
    if not data.shuffle:
        return Choice(_PATH, 1, "documents are visited as they lie")
    if isinstance(data.sampling, Mixture):
        return Choice(_PATH, 1, "documents are drawn by their source")
    (lengths,) = facts.documents.values()
    pieces = cut_documents(lengths, contract.model.context_length, data.long_documents)
    group = settled(contract.training.effective_batch_size)
    shapes = padded_shapes(data, contract.model.context_length)
    chosen = choose_buckets(pieces.lengths, group, shapes, contract.seed)
    lost = pieces.lost / max(1, sum(lengths))
    reason = f"padding is {chosen.padding:.1%} of the places of steps of {many(group, 'document')}"
    reason += f", {chosen.without:.1%} without buckets"
    if pieces.cut:
        cut = many(pieces.cut, "document is cut and loses", "documents are cut and lose")
        reason += f"; {cut} {lost:.1%} of all tokens"
    numbers = {"padding": chosen.padding, "without_buckets": chosen.without, "tokens_lost": lost}
    return Choice(_PATH, chosen.buckets, reason, numbers)
