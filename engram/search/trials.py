"""Search at equal budgets: every method gets the same number of trials, on data held out of the training set.

A method is searched over the fields that declare a range or choices (`Log`, `Each`); if it declares no range, over the
learning rate, and if it does not train the network, in one trial. Trials form a grid. Their seed is used by no reported
run; the values of the best trial are then run on all training data with the reported seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from engram.core.ranges import Each, Log
from engram.core.registry import METHODS
from engram.engines.driver import Job
from engram.learning.combine import combine
from engram.runs.records import Record, read_records, record_files
from engram.runs.spec import Spec
from engram.search.ledger import best

HELD_OUT = 0.1
"""Share of the training images that is held out to score trials."""
TRIAL_SEED = 1000
"""Seed of all trials; reported seeds stay below it."""

SelectOn = Literal["holdout", "test"]
Runner = Callable[[list[Job]], Iterable[tuple[Job, Record]]]


@dataclass(frozen=True)
class SearchAxis:
    """A field that is searched."""

    name: str
    """`coef`, or `si.coef` if several methods are combined."""
    member: int | None
    """The index of the combined method that has the field; None: it is a field of the training."""
    field: str
    where: Log | tuple[Any, ...]
    """A range, or the choices."""
    whole: bool = False

    def levels(self, count: int) -> list[Any]:
        """`count` values: log-spaced from end to end, or the middle if it is one; of choices, the first ones."""
        if not isinstance(self.where, Log):
            return list(self.where[:count])
        low, high = self.where
        shares = [0.5] if count == 1 else [i / (count - 1) for i in range(count)]
        values = [float(f"{low ** (1 - share) * high**share:.3g}") for share in shares]
        if self.whole:
            values = [round(value) for value in values]
        if len(set(values)) < count:
            raise ValueError(f"{self.name} has fewer than {count} values from {low:g} to {high:g}; give fewer trials")
        return values


def axes(spec: Spec) -> list[SearchAxis]:
    """The fields of a spec that are searched: choices first, then ranges; the learning rate if there is no range."""
    members = spec.method.members()
    searched = [
        axis
        for i, member in enumerate(members)
        for axis in declared_axes(member, i, f"{METHODS.name_of(member)}." if len(members) > 1 else "")
    ]
    choices = [axis for axis in searched if not isinstance(axis.where, Log)]
    ranges = [axis for axis in searched if isinstance(axis.where, Log)]
    rate = [axis for axis in declared_axes(spec.training, None, "") if axis.field == "lr"]
    return choices + (ranges or (rate if spec.method.gradient_steps else []))


def declared_axes(instance: Any, member: int | None, prefix: str) -> list[SearchAxis]:
    """The fields of a dataclass whose annotations declare a range or choices."""
    hints = get_type_hints(type(instance), include_extras=True)
    searched = []
    for f in fields(instance):
        if get_origin(hints[f.name]) is not Annotated:
            continue
        kind, *notes = get_args(hints[f.name])
        for note in notes:
            if isinstance(note, Each):
                searched.append(SearchAxis(prefix + f.name, member, f.name, get_args(kind)))
            elif isinstance(note, Log):
                searched.append(SearchAxis(prefix + f.name, member, f.name, note, kind is int))
    return searched


def grid(over: Sequence[SearchAxis], trials: int) -> list[dict[str, Any]]:
    """Exactly `trials` different points.

    The trials are divided as evenly as possible among the values of the first axis; each value combines its share with
    the other axes. So the number of points is right even if it is not a product.
    """
    if not over:  # nothing to search: one trial, as it is
        return [{}]
    first, *rest = over
    alone = not rest or not isinstance(first.where, Log)  # all choices are tried; ranges divide the trials
    levels = first.levels(trials if alone else round(trials ** (1 / len(over))))
    each, over_all = divmod(trials, len(levels))
    points = []
    for i, level in enumerate(levels):
        share = each + (i < over_all)
        points += [{first.name: level, **point} for point in (grid(rest, share) if rest else [{}])]
    return points


def apply_point(spec: Spec, over: Sequence[SearchAxis], point: dict[str, Any]) -> Spec:
    """The spec with the values of a point of the grid."""
    members = list(spec.method.members())
    training = spec.training
    for axis in over:
        value = {axis.field: point[axis.name]}
        if axis.member is None:
            training = replace(training, **value)
        else:
            members[axis.member] = replace(members[axis.member], **value)
    return replace(spec, method=combine(members), training=training)


def trial_jobs(base: Spec, trials: int, select_on: SelectOn) -> list[Job]:
    """The trials of one method."""
    over = axes(base)
    points = grid(over, trials)
    scenario = base.scenario.holdout(HELD_OUT) if select_on == "holdout" else base.scenario
    return [
        Job(
            replace(apply_point(base, over, point), scenario=scenario, seed=TRIAL_SEED),
            search={"stage": "trial", "selected_on": select_on, "point": point},
        )
        for point in points
    ]


def final_jobs(base: Spec, tried: Sequence[Record], seeds: Sequence[int], select_on: SelectOn) -> list[Job]:
    """The runs of the best trial's values on all training data; none if no trial finished."""
    winner = best(tried)
    if winner is None:
        return []
    point = winner.search["point"]
    spec = apply_point(base, axes(base), point)
    note = {"stage": "final", "selected_on": select_on, "point": point, "trials": len(tried)}
    return [Job(replace(spec, seed=seed), search=note) for seed in seeds]


def run_search(
    bases: Sequence[Spec],
    run: Runner,
    *,
    trials: int = 12,
    seeds: Sequence[int] = range(10),
    select_on: SelectOn = "holdout",
) -> Iterator[tuple[Job, Record]]:
    """Run all trials of all methods, then the winners, and yield each run with its record when it ends.

    `bases` are the specs of the methods to compare, with the values that are not searched. `run` is `run_jobs` with a
    folder; runs that have a record there are not repeated.
    """
    if any(seed >= TRIAL_SEED for seed in seeds):
        raise ValueError(f"seeds {max(seeds) + 1}: reported seeds must be below {TRIAL_SEED}, the seed of the trials")
    jobs = [trial_jobs(base, trials, select_on) for base in bases]
    tried: dict[str, Record] = {}
    for job, record in run([job for one in jobs for job in one]):
        tried[record.key] = record
        yield job, record
    finals = [
        final
        for base, one in zip(bases, jobs, strict=True)
        for final in final_jobs(base, [tried[job.spec.key] for job in one], seeds, select_on)
    ]
    # by seed, so that an interrupted search has equally many runs of each method
    yield from run(sorted(finals, key=lambda job: job.spec.seed))


def check_folder(out: Path, bases: Sequence[Spec], trials: int, select_on: SelectOn) -> None:
    """Raise if a folder has other runs of these methods, because its ledger would mix them with this search."""
    names = {(base.scenario_name, base.method_name) for base in bases}
    keys = {job.spec.key for base in bases for job in trial_jobs(base, trials, select_on)}
    for file in record_files(out):
        for record in read_records(file):
            if (record.scenario, record.method) not in names:
                if record.key in keys:
                    raise ValueError(
                        f"{file} has this search of {record.method} under another name of the same dataset, "
                        f"{record.scenario}; use that name, or give another folder"
                    )
                continue
            stage, selected_on = record.search.get("stage"), record.search.get("selected_on")
            if selected_on != select_on or (stage == "trial" and record.key not in keys):
                what = f"runs selected on {selected_on}" if selected_on else "runs that belong to no search"
                if selected_on == select_on:
                    what = f"a trial of another grid or of other code ({record.search['point']})"
                raise ValueError(
                    f"{file} has {what} of {record.method}; give another folder, so that its ledger "
                    "has only this search"
                )
