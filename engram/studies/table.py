"""Tables: the cells of a study from records, with verdicts and paired tests. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from engram.analysis.statistics import Paired, correct_tests, paired_test
from engram.core.messages import select
from engram.core.registry import METRICS
from engram.runs.defaults import Protocol
from engram.runs.records import Record
from engram.runs.setting import Setting, SettingRuns, group_by_setting
from engram.studies.study import Study, Variant
from engram.studies.verdict import Verdict, band_around, judge

NO_RUNS = "no runs are recorded"
COMPARED = (
    "row", "column", "ours", "std", "n", "paper", "paper_std", "verdict", "telling", "failed", "note",
)  # fmt: skip
"""What `compare --json` says of a cell."""


@dataclass(frozen=True)
class CellRuns:
    """The runs behind a cell."""

    values: Mapping[int, float] = field(default_factory=dict)
    """seed → the metric."""
    records: tuple[Record, ...] = ()
    """All of them, failed ones included."""
    setting: Setting | None = None
    notes: tuple[str, ...] = ()
    """What there is to say of these runs: what stands in for what, say."""
    tried: tuple[Record, ...] = ()
    """Runs of other settings that were tried for the cell."""
    complete: bool = True
    """Whether everything was tried that the cell is chosen from."""

    @property
    def failed(self) -> int:
        return sum(record.status != "done" for record in (*self.records, *self.tried))


@dataclass(frozen=True)
class Cell:
    """One place of a table: our runs, the published number if there is one, and the test against the baseline."""

    row: str
    column: str
    ours: float | None = None
    """Mean over the finished runs."""
    std: float | None = None
    """Standard deviation over the runs (the population's, as in papers)."""
    n: int = 0
    paper: float | None = None
    paper_std: float | None = None
    verdict: Verdict | None = None
    telling: bool = False
    """The published number differs from the baseline's by more than the band: the cell can show that a method works."""
    failed: int = 0
    notes: tuple[str, ...] = ()
    band: float | None = None
    """Points that ours and the published number may differ by to agree; None if too little is known."""
    test: Paired | None = None
    """The test of the row against the baseline row, over common seeds; corrected over the table."""
    memory: int | None = None
    """Bytes that the method keeps across a boundary."""
    seconds: float = 0.0
    """Median time of the runs."""
    setting: Setting | None = None
    runs: CellRuns = field(default_factory=CellRuns, repr=False, compare=False)

    @property
    def note(self) -> str:
        return "; ".join(self.notes)

    def to_json(self) -> dict[str, Any]:
        """As `compare --json` prints it."""
        return {name: getattr(self, name) for name in COMPARED}

    def to_study_json(self) -> dict[str, Any]:
        """As `study --format json` prints it."""
        published = {} if self.paper is None else {"paper": self.paper, "paper_std": self.paper_std}
        return {
            "row": self.row,
            "column": self.column,
            "mean": self.ours,
            "std": self.std,
            "n": self.n,
            "p": shown_p(self.test),
            "difference": self.test.difference if self.test and self.test.n else None,
            "pairs": self.test.n if self.test else 0,
            "memory": self.memory,
            "seconds": self.seconds,
            "failed": self.failed,
            "note": self.note,
            **published,
            **({"verdict": self.verdict} if self.paper is not None else {}),
        }


def shown_p(test: Paired | None) -> float | None:
    """The p-value to show: corrected if the test is one of several, none if it can show nothing."""
    if test is None or not test.can_show:
        return None
    return test.p if test.adjusted is None else test.adjusted


Groups = Mapping[Setting, SettingRuns]
"""Records by setting: whoever makes several tables of the same records groups them once."""


class Results:
    """Where the runs behind the cells of a study come from: here, records by their settings."""

    def __init__(self, study: Study, records: Iterable[Record] | Groups, metric: str = "") -> None:
        self.study = study
        self.metric = METRICS.find(metric or study.metric)()
        self.groups = records if isinstance(records, Mapping) else group_by_setting(records, preferred=self.is_measured)

    def is_measured(self, record: Record) -> bool:
        """Whether the metric was measured in a run: not all runs of a setting were asked for it, perhaps."""
        return self.metric.is_measured and bool(self.metric.measured(record))

    def values_of(self, runs: SettingRuns | None) -> dict[int, float]:
        """The metric of the finished runs, by seed."""
        done = runs.done if runs else {}
        found = {seed: self.metric.of(record) for seed, record in sorted(done.items())}
        return {seed: value for seed, value in found.items() if value is not None}

    def left_out(self, runs: SettingRuns) -> list[str]:
        """What there is to say of runs that do not count."""
        found = []
        measured = self.metric.is_measured
        lacking = [record for record in runs.done.values() if not self.metric.measured(record)] if measured else []
        if lacking:
            name = METRICS.name_of(self.metric)
            found.append(f"{len(lacking)} of {len(runs.done)} runs were not measured by {name} as it is defined here")
        if runs.other_data:
            found.append(f"{runs.other_data} runs on datasets of another content are left out")
        return found

    def check_measured(self, records: Iterable[Record]) -> None:
        """Refuses a table of a metric on logits that none of these runs was asked for."""
        name = METRICS.name_of(self.metric)
        if self.metric.is_measured and not any(self.metric.measured(record) for record in records):
            raise ValueError(
                f"none of these runs has metric {name} as it is defined here; it is measured while a run goes on: "
                f"engram run … --metric {name}"
            )

    def group_of(self, setting: Setting) -> SettingRuns | None:
        """The records of one setting, whatever they measured besides."""
        return self.groups.get(setting.counted())

    def runs_of(self, setting: Setting, notes: tuple[str, ...] = ()) -> CellRuns:
        """The runs of one setting."""
        setting = setting.counted()
        runs = self.group_of(setting)
        if runs is None:
            return CellRuns(setting=setting)
        return CellRuns(self.values_of(runs), tuple(runs.records), setting, (*notes, *self.left_out(runs)))

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        """The runs that fill a cell: as published if there are such runs, else what stands in for them."""
        setting = self.study.setting(row, column, protocol)
        what = self.study.rows[row]
        if what.as_published:
            exact = self.runs_of(setting.with_values(what.as_published))
            if exact.values or self.group_of(setting) is None:
                return exact
        return self.runs_of(setting, (what.stand_in,) if what.stand_in and self.group_of(setting) else ())

    def has_own_protocol(self, row: str, column: str) -> bool:
        """Whether the published row was not trained as all others."""
        return self.study.setting(row, column) != self.study.setting(row, column, "common")

    def settings_to_run(
        self, rows: Sequence[str], columns: Sequence[str], protocol: Protocol, variants: Sequence[Variant] = ()
    ) -> list[Setting]:
        """What has to be run for these rows, columns and variants."""
        cells = [(row, column) for row in rows for column in columns if self.study.has_cell(row, column)]
        found = [self.study.setting(row, column, protocol) for row, column in cells]
        for variant in variants:
            for column in (column for column in variant.columns if column in columns):
                found += self.study.variant_settings(variant, column).values()
        return list(dict.fromkeys(found))


class GivenResults(Results):
    """Values that were made elsewhere, or records that belong to no study: the runs of each cell as they are."""

    def __init__(self, study: Study, given: Mapping[tuple[str, str], CellRuns]) -> None:
        self.study, self.groups, self.given = study, {}, given  # the numbers need no metric

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        return self.given.get((row, column), CellRuns())

    def has_own_protocol(self, row: str, column: str) -> bool:
        return False


def make_cells(
    results: Results,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    protocol: Protocol = "own",
    *,
    tests: bool = True,
) -> list[Cell]:
    """The cells of a study, row by row; with tests against the baseline row, unless nobody is going to read them."""
    study = results.study
    found = [
        make_cell(results, row, column, protocol)
        for row in select("row", rows, study.rows)
        for column in select("column", columns, study.columns)
        if study.has_cell(row, column)
    ]
    return with_tests(results, found, protocol) if tests else found


def make_cell(results: Results, row: str, column: str, protocol: Protocol) -> Cell:
    study = results.study
    runs = results.cell_runs(row, column, protocol)
    paper, paper_std = study.rows[row].published.get(column, (None, None))
    baseline = published_baseline(study, row, column)
    values = list(runs.values.values())
    band = band_around(values, paper_std, study.rows[row].spread or study.spread, study.band)
    ours = statistics.fmean(values) if values else None
    other_protocol = protocol == "common" and results.has_own_protocol(row, column)
    done = [record for record in runs.records if record.status == "done"]
    return Cell(
        row=row,
        column=column,
        ours=ours,
        std=statistics.pstdev(values) if values else None,
        n=len(values),
        paper=paper,
        paper_std=paper_std,
        verdict=judge(ours, paper, band),
        telling=paper is not None and baseline is not None and band is not None and abs(paper - baseline) > band,
        failed=runs.failed,
        notes=(
            *([] if runs.records or runs.values else [NO_RUNS]),
            *study.notes_of(row, column),
            *runs.notes,
            *(["common protocol, while the published row has its own"] if other_protocol and paper is not None else []),
        ),
        band=band if paper is not None else None,
        memory=max((sum(r.memory.get("kept", {}).values()) for r in done), default=None),
        seconds=statistics.median(r.seconds for r in done) if done else 0.0,
        setting=runs.setting,
        runs=runs,
    )


def published_baseline(study: Study, row: str, column: str) -> float | None:
    """The published number that a cell has to differ from to tell anything: the baseline row's, or its column's."""
    if study.baseline in study.rows:
        return study.rows[study.baseline].published.get(column, (None, None))[0]
    return study.rows[row].published.get(study.baseline, (None, None))[0]


def with_tests(results: Results, cells: Sequence[Cell], protocol: Protocol) -> list[Cell]:
    """Adds the paired tests against the baseline row, with Holm's correction over all cells that are shown."""
    study = results.study
    if study.baseline not in study.rows:
        return list(cells)
    against = {
        column: results.cell_runs(study.baseline, column, protocol).values
        for column in dict.fromkeys(cell.column for cell in cells)
        if study.has_cell(study.baseline, column)
    }
    tested = [cell for cell in cells if cell.row != study.baseline]
    tests = correct_tests([compare_values(against.get(cell.column, {}), cell.runs.values) for cell in tested])
    by_place = {(cell.row, cell.column): test for cell, test in zip(tested, tests, strict=True)}
    return [replace(cell, test=by_place.get((cell.row, cell.column))) for cell in cells]


def compare_values(a: Mapping[int, float], b: Mapping[int, float]) -> Paired:
    """The paired test of b − a over common seeds."""
    seeds = sorted(a.keys() & b.keys())
    return paired_test([a[s] for s in seeds], [b[s] for s in seeds])


def records_behind(cells: Iterable[Cell]) -> list[Record]:
    """The runs that cells are made of, and those that were tried for them, each once."""
    found = {r.key: r for cell in cells for r in (*cell.runs.records, *cell.runs.tried)}
    return list(found.values())


@dataclass(frozen=True)
class VariantCell(Cell):
    """A variant in one column; `row` is `gem/one-slot`, and the published number is its row's."""

    of_row: float | None = None
    """Our mean of the row that it is a variant of."""
    difference: float | None = None
    """Variant less row, the mean over common seeds."""
    pairs: int = 0
    p: float | None = None
    """Of the paired permutation test, after Holm's correction over the variants that are shown."""
    total_seconds: float = 0.0
    """Of all its runs, those with other values of a grid included."""

    def to_json(self) -> dict[str, Any]:
        more = {name: getattr(self, name) for name in ("of_row", "difference", "pairs", "p")}
        return {**super().to_json(), **more, "seconds": self.total_seconds}

    def difference_text(self) -> str:
        """`+0.41 (3 common seeds, p 0.25)`"""
        if self.difference is None:
            return "–"
        seeds = f"{self.pairs} common seed{'s' if self.pairs > 1 else ''}"
        difference = f"{self.difference:+.2f}".replace("-", "−")
        return f"{difference} ({seeds}" + (")" if self.p is None else f", p {self.p:.2g})")


def make_variant_cells(results: Results, variants: Sequence[Variant], columns: Iterable[str] = ()) -> list[VariantCell]:
    """Some variants of a study in these columns."""
    asked = select("column", tuple(columns), results.study.columns)
    found = [
        (variant, column, *best_runs(results, variant, column))
        for variant in variants
        for column in variant.columns
        if column in asked
    ]
    rows = [results.cell_runs(variant.row, column).values for variant, column, _, _ in found]
    tests = correct_tests([compare_values(row, runs.values) for row, (_, _, runs, _) in zip(rows, found, strict=True)])
    made = []
    for (variant, column, runs, chosen), row, test in zip(found, rows, tests, strict=True):
        base = make_cell(FixedResults(results, runs), variant.row, column, "own")
        shared = {f.name: getattr(base, f.name) for f in fields(Cell)}
        tried = results.study.variant_settings(variant, column).values()
        made.append(
            VariantCell(
                **shared | {"row": variant.name, "notes": (f"{variant.why} {chosen}".strip(),)},
                of_row=statistics.fmean(row.values()) if row else None,
                difference=test.difference if test.n else None,
                pairs=test.n,
                p=test.adjusted if test.can_show else None,
                total_seconds=sum(record.seconds for s in tried for record in results.runs_of(s).records),
            )
        )
    return made


class FixedResults(Results):
    """Runs of a variant in the place of its row's."""

    def __init__(self, results: Results, runs: CellRuns) -> None:
        self.study, self.metric, self.groups, self.runs = results.study, results.metric, results.groups, runs

    def cell_runs(self, row: str, column: str, protocol: Protocol = "own") -> CellRuns:
        return self.runs


def best_runs(results: Results, variant: Variant, column: str) -> tuple[CellRuns, str]:
    """The runs of a variant; of a grid those of its best value by mean accuracy, and which that is.

    Values are compared over the seeds that all of them have.
    """
    settings = results.study.variant_settings(variant, column)
    if not variant.grid:
        return results.runs_of(settings[""]), ""
    tried = {value: results.runs_of(setting) for value, setting in settings.items()}
    with_runs = {value: runs for value, runs in tried.items() if runs.values}
    if not with_runs:
        return CellRuns(), ""
    own = results.cell_runs(variant.row, column)  # the row's own value is one of the grid's
    candidates = {**with_runs, **({"the row's own": own} if own.values else {})}
    common = set.intersection(*(set(runs.values) for runs in candidates.values()))
    common = common or set().union(*(runs.values for runs in candidates.values()))

    def mean(value: str) -> float:
        return statistics.fmean(v for seed, v in candidates[value].values.items() if seed in common)

    best = max(candidates, key=mean)
    return candidates[best], f"Best coefficient: {best}, of {len(with_runs)} of {len(settings)} others run."
