"""Worker processes that live on from pass to pass, and draw random numbers that no resume repeats.

What a worker draws goes on from where its last pass ended; a new process begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
)

from trainwright.core.errors import Problem
from trainwright.engine.job import Job
from trainwright.engine.loader_feed import LoaderFeed, digest_of
from trainwright.run.script.check_tensors import find_within

_MOST_ROWS = 16
_BY_NUMBER = (RandomSampler, SequentialSampler, WeightedRandomSampler, DistributedSampler)


def persistent_workers(job: Job) -> Iterator[Problem]:
    """Loaders whose workers live on and give another batch of the same rows each time."""
    for feed in find_within(job.feed, LoaderFeed):
        loader = feed.batches
        if isinstance(loader, DataLoader) and loader.persistent_workers and _draws(loader):
            yield Problem(
                "a resume could not repeat the random numbers of these workers behind the first "
                "pass: they live on, and a worker of another process begins anew",
                path="tw.LoaderFeed",
                found="DataLoader(persistent_workers=True), and rows that differ each time they "
                "are read",
                fix="persistent_workers=False",
            )


def _draws(loader: DataLoader[object]) -> bool:
    """Whether a worker gives other values for the same rows the second time. Asked of a worker:
    a dataset may open its files in the process that reads it first. Where the rows have no numbers
    nothing is asked, and a resume finds out."""
    rows: object = loader.dataset
    if isinstance(loader.dataset, IterableDataset) or not isinstance(rows, Sized):
        return False
    if loader.batch_size is None or type(loader.sampler) not in _BY_NUMBER:
        return False
    numbers = list(range(min(_MOST_ROWS, loader.batch_size, len(rows))))
    with torch.random.fork_rng(devices=[]):
        twice: DataLoader[object] = DataLoader(
            loader.dataset,
            batch_sampler=[numbers, numbers],
            num_workers=1,
            collate_fn=loader.collate_fn,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
        )
        first, second = map(digest_of, twice)
    return first != second
