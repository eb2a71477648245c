"""The rows of the fault matrix in words, as the page on reliability shows them."""

from __future__ import annotations

INTRODUCTION = """\
# Reliability: the fault matrix

Every row is a fault that is really made: processes are killed by SIGKILL, files are changed bit by
bit, disks are full. `make faults` does it again and writes this page from the results of the tests;
the small version of each row runs in `make test`. What is killed are whole runs of the command,
from the contract to the verdict, over three workloads: a table (MLP with dropout, a mean of the
weights and early stopping), a text (GPT in bf16, three micro-batches a step, an uneven last one)
and images (ResNet with batch norm and random augmentation). Six oracles check a run:

1. each component of the final state has the bits of the run that was left alone: weights,
   optimizer, averages, random generators, patience, guard, bundle, verdict, signals;
2. a step that is made twice is made of the same rows and gives the same loss, gradient norm and
   learning rate to the last bit, and no step is skipped;
3. no more steps are lost than lie between two checkpoints, and none at a signal;
4. `trainwright runs verify`, which shares no code with the store, finds nothing broken;
5. no process, lock or temporary file is left;
6. every wait has a deadline, and passing it is a failure.
"""

ROWS: dict[str, tuple[str, str]] = {
    "F-01": ("SIGKILL at each named point of a run", "the next start ends with the same bits"),
    "F-02": ("SIGKILL at random times, again and again", "the same bits; no checkpoint lost"),
    "F-03": (
        "SIGKILL inside a write of a checkpoint, at random bytes",
        "the torn one is never chosen",
    ),
    "F-04": (
        "power cuts: the image of a mounted ext4 is copied at random moments",
        "each copy holds a valid checkpoint, not older than the last one acknowledged",
    ),
    "F-05": ("SIGKILL while a run resumes, many in one epoch", "the same bits"),
    "F-06": ("the same step dies three times", "the supervisor stops and names step and rows"),
    "F-07": ("SIGTERM in every phase", "exit code 75 with nothing lost, or the run ends"),
    "F-08": ("SIGINT once and twice, SIGTERM and SIGKILL", "an orderly end; an end at once"),
    "F-10": ("SIGSTOP for a while, then SIGCONT", "the same bits"),
    "F-11": ("a cut after every step of a run", "the same bits"),
    "F-12": ("a finished run is resumed; a longer run goes on", "nothing is done; the same bits"),
    "F-13": ("one component of the state is disturbed", "the tests of resume see each"),
    "F-14": (
        "the machine or the contract differs at a resume",
        "each field is the same, recorded or refused",
    ),
    "F-16": ("a full disk", "a typed error, nothing leaked, the older checkpoints stay"),
    "F-17": ("a full disk for signals and events", "the training goes on and counts what it lost"),
    "F-18": ("a read-only folder", "refused before training; else as a full disk"),
    "F-19": ("the run folder is removed or renamed", "exit code 13, nothing written elsewhere"),
    "F-20": ("single bits of a checkpoint are flipped", "found, named, survived"),
    "F-21": ("truncated, zeroed, swapped and foreign files", "refused, and the older one is used"),
    "F-22": ("missing files, ledger, pointers; a torn line", "rebuilt, or the older one is used"),
    "F-23": ("every checkpoint is damaged", "exit code 12, never a new beginning"),
    "F-24": ("random histories of saves and crashes", "newest, best, pinned and resumed-from stay"),
    "F-25": ("slow storage", "one save at a time, the wait is bounded and told"),
    "F-26": ("the clock jumps a day, backwards, or stands", "the same order, no negative duration"),
    "F-27": ("a loss that is no number", "it never reaches weights, averages or checkpoints"),
    "F-28": ("gradients that overflow fp16", "the step is not made, the scale halves"),
    "F-29": ("a resume after a dropped step", "the same bits"),
    "F-32": ("no memory: an exception, and a kill by the kernel", "a crash like any other"),
    "F-33": ("a data file changes between two starts", "exit code 11, the file is named"),
    "F-34": ("records that cannot be read", "refused with file and line"),
    "F-35": (
        "data workers are killed, stopped, hang, fail; their parent is killed",
        "named at once with their rows, started again, the same bits; no process is left",
    ),
    "F-36": (
        "one of two ranks is killed in a step, a save, a validation, at a named point",
        "the other ends with exit code 16, and the run goes on with the same bits",
    ),
    "F-37": (
        "a rank is stopped, or stands still",
        "it is named with its line, the stacks of all ranks are written, and the group ends; slow "
        "saves, validations and data are waited for",
    ),
    "F-38": (
        "the link between two hosts breaks without a word",
        "both sides end, and the run goes on with the same bits",
    ),
    "F-39": (
        "one rank fails in a save",
        "all end, nothing is announced that is not there, and the run goes on with the same bits",
    ),
    "F-40": (
        "the port is taken, a rank is late, their number is another one",
        "said, waited for, refused",
    ),
    "F-41": ("two runs in one folder, stale and foreign locks", "exactly one runs, others exit 15"),
    "F-45": (
        "other content with hashes that fit, foreign weights that are no tensors, packed files and "
        "model texts beyond a lowered limit",
        "refused before anything is run, unpacked further or given to a library",
    ),
    "F-46": (
        "contracts with tags, aliases and nesting beyond a lowered limit",
        "refused with the line, nothing is imported",
    ),
    "F-47": ("names that lead out of the folder", "refused, nothing is written"),
    "F-48": ("planted secrets", "in no byte of a run folder"),
    "F-58": (
        "checkpoints, bundle, baselines, plan and evaluation of another run",
        "refused by name with exit code 12 or 13, also by `runs verify`",
    ),
    "F-59": (
        "`checkpoints/` is deleted or emptied in a run with history",
        "exit code 12 names what is missing; nothing starts over",
    ),
    "F-60": (
        "the machine is lost, and only the copies in a bucket are left",
        "`resume URL` brings the run back, verifies it and goes on with the same bits",
    ),
    "F-61": (
        "a script whose state has a gap, a second process, other settings at resume, signals, an "
        "observer that raises",
        "refused, locked, named, saved and counted, as for a contract",
    ),
    "F-62": (
        "a checkout that names programs: filters, hooks, remotes, pagers, ssh, includes",
        "git starts none of them, the commit is recorded",
    ),
    "F-63": (
        "a small file at a lowered limit in every reader; sizes and patterns of a contract or "
        "bundle; silent servers, pipes",
        "refused by a documented limit, before memory or time is taken, and read at the usual one",
    ),
    "F-64": (
        "every key of the schema with wrong types; files of a run damaged, a pipe, a link outside",
        "an exit code of the tree, never a traceback, a hang or a write outside",
    ),
    "F-65": (
        "a leak or repeated rows without which a clause that is met would not be",
        "status invalid and exit code 3, until split otherwise or accepted by name; never on "
        "honest tables",
    ),
}
"""Row to what is injected and what must follow."""

GOALS: dict[str, tuple[str, ...]] = {
    "200 random SIGKILLs over three workloads, also inside writes: not one bit differs": (
        "F-02",
        "F-03",
    ),
    "every cut of a run, and every named point: not one bit differs": ("F-01", "F-05", "F-11"),
    "tests of resume that bite: every disturbed component is seen": ("F-13",),
    "SIGTERM and SIGINT lose no step in any phase, exit code 75": ("F-07", "F-08"),
    "1,000 bit flips, all truncated, missing and swapped files: found, named, survived": (
        "F-20",
        "F-21",
        "F-22",
        "F-23",
    ),
    "50 power cuts: each leaves a valid checkpoint, not older than the last acknowledged": (
        "F-04",
    ),
    "no part of another run is taken, and no lost checkpoint is a silent new start": (
        "F-58",
        "F-59",
    ),
    "a lost machine: the copies alone bring the run back, with the same bits": ("F-60",),
    "a full disk: a typed error, nothing leaked, no good checkpoint lost": ("F-16", "F-17"),
    "10,000 random histories of checkpoints: no violation": ("F-24",),
    "no file, name, setting or address is believed: nothing runs and nothing leaks": (
        "F-45",
        "F-46",
        "F-47",
        "F-48",
        "F-62",
    ),
}
"""What is promised, and the rows that measure it."""
