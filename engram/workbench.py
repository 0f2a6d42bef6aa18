"""What the command line and `import engram as eg` share: studies are run, tables are made, records are read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from engram.core.messages import unknown
from engram.core.registry import METRICS, load_file
from engram.runs.defaults import Protocol
from engram.runs.records import Record, read_records, results_folder
from engram.runs.setting import OWN_CODE, Setting, show
from engram.runs.soundness import is_bounded
from engram.studies.catalog import find_study, results_of, study_names
from engram.studies.made import Made, as_asked
from engram.studies.reading import read_study
from engram.studies.searched import SearchedResults
from engram.studies.study import Column, Row, Study, StudyError, Variant, method_title
from engram.studies.table import Cell, CellRuns, GivenResults, Results, VariantCell, make_cells, make_variant_cells

if TYPE_CHECKING:
    from engram.engines.driver import Job
    from engram.report.written import Format
    from engram.runs.spec import Spec
    from engram.search.ledger import Tuned

SHOWN_ROWS, SHOWN_COLUMNS = ("method", "row"), ("scenario", "column")
VALUES = ("average_accuracy", "value", "accuracy", "mean")
"""What columns of somebody else's results may be called."""


@dataclass(frozen=True)
class StudyTable:
    """A study with its cells: what `engram study` prints."""

    study: Study
    cells: list[Cell]
    variants: list[VariantCell]

    def __str__(self) -> str:
        return self.text("text")

    def _repr_markdown_(self) -> str:
        """What a notebook shows."""
        return self.text("markdown")

    def text(self, form: Format) -> str:
        """As text, Markdown, LaTeX, CSV or JSON."""
        from engram.report.written import write_table

        return write_table(form, self.study, self.cells, self.variants, "study")

    def to_latex(self) -> str:
        return self.text("latex")

    def to_frame(self) -> Any:
        """A pandas frame with one line per cell."""
        import pandas

        return pandas.DataFrame([cell.to_study_json() for cell in self.cells])


def read(*places: str | Path) -> list[Record]:
    """The records of folders and files."""
    paths = [Path(place) for place in places] or [Path("runs")]
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path} does not exist; name a folder or a file with records (*.jsonl)")
    return read_records(*paths)


def records_of_study(study: Study, results: Path) -> Path:
    """The file into which the runs of a study are recorded."""
    paper, slash, table = study.name.partition("/")
    precision = study.values.get("training.precision", "fp32")
    table += "" if precision == "fp32" else f"-{precision}"
    return results / paper / f"{table}.jsonl" if slash else results / study.name / "records.jsonl"


def make_table(
    study: Study,
    records: Iterable[Record],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    variants: Sequence[Variant] = (),
    protocol: Protocol = "own",
    metric: str = "",
    tests: bool = True,
    made: Made | None = None,
) -> StudyTable:
    """The table of a study from records, or of the runs that it just `made`; runs nothing."""
    study = study.with_metric(metric)
    records = made.after(records) if made else records
    results = SearchedResults(study, records, metric, made) if study.search else results_of(study, records, metric)
    shown = tuple(columns) or tuple(study.columns)
    cells = make_cells(results, rows, columns, protocol, tests=tests) if rows or not variants else []
    return StudyTable(study, cells, make_variant_cells(results, variants, shown))


def run_study(
    study: Study,
    results: Path,
    sweep: Callable[[Sequence[Any], Path, str], list[tuple[Any, Record]]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    variants: Sequence[Variant] = (),
    seeds: Sequence[int] = (),
    protocol: Protocol = "own",
    **options: Any,
) -> Made:
    """Runs what is missing, one seed of every cell before the next seed, so that a stopped table is even.

    `sweep` takes jobs, a folder and the name of a file in it, and gives each job with its record.
    """
    wanted_rows, wanted_columns = list(rows or study.rows), list(columns or study.columns)
    file = str(records_of_study(study, results).relative_to(results))
    used = list(seeds or study.seeds)
    if study.search:
        return search_study(study, results, sweep, wanted_rows, wanted_columns, used)
    jobs = jobs_of_study(study, wanted_rows, wanted_columns, used, variants, protocol, **options)
    done = list(sweep(jobs, results, file))
    return Made(
        [as_asked(record, job.spec.scenario_name) for job, record in done],
        reused=sum(record.reused for _, record in done),
        asked=len(done),
    )


def jobs_of_study(
    study: Study,
    rows: Sequence[str],
    columns: Sequence[str],
    seeds: Sequence[int],
    variants: Sequence[Variant] = (),
    protocol: Protocol = "own",
    **options: Any,
) -> list[Job]:
    """The runs of a study whose rows are not tuned."""
    from engram.engines.driver import Job
    from engram.runs.spec import spec_of_setting

    settings = results_of(study).settings_to_run(rows, columns, protocol, variants, **options)
    metrics = metrics_to_measure(study)
    return [Job(replace(spec_of_setting(setting, seed), metrics=metrics)) for seed in seeds for setting in settings]


def metrics_to_measure(study: Study) -> tuple[Any, ...]:
    """The metric of a study if runs have to be asked for it: then what was run without it is run again."""
    metric = METRICS.find(study.metric)()
    return (metric,) if metric.is_measured else ()


def search_study(
    study: Study,
    results: Path,
    sweep: Callable[[Sequence[Any], Path, str], list[tuple[Any, Record]]],
    rows: Sequence[str],
    columns: Sequence[str],
    seeds: Sequence[int],
) -> Made:
    """Tunes every row with the same number of trials on held-out data, then runs the winners."""
    from engram.search.trials import final_jobs, run_search, trial_jobs

    file = str(records_of_study(study, results).relative_to(results))
    trials, select_on = trials_of_study(study), study.search.get("select_on", "holdout")
    tried: dict[tuple[str, str], list[Record]] = {}
    shown: dict[tuple[str, str], list[Record]] = {}
    reused = asked = 0
    for column in columns:
        bases = bases_of_study(study, rows, column)
        runs = run_search(
            list(bases.values()),
            lambda jobs: sweep(jobs, results, file),
            trials=trials,
            seeds=seeds,
            select_on=select_on,
        )
        found = {}
        for job, record in runs:
            found[job.key] = record
            reused, asked = reused + record.reused, asked + 1
        for row, base in bases.items():  # rows may share runs, and each has its own search
            jobs = trial_jobs(base, trials, select_on)
            tried[row, column] = [as_asked(found[job.key], job.spec.scenario_name, job.search) for job in jobs]
            finals = final_jobs(base, tried[row, column], seeds, select_on)
            shown[row, column] = [as_asked(found[job.key], job.spec.scenario_name, job.search) for job in finals]
    return Made([record for runs in shown.values() for record in runs], tried, shown, reused, asked)


def bases_of_study(study: Study, rows: Sequence[str], column: str) -> dict[str, Spec]:
    """What the search of each row begins with."""
    from engram.runs.spec import spec_of_setting

    metrics = metrics_to_measure(study)
    return {
        row: replace(spec_of_setting(study.setting(row, column)), metrics=metrics)
        for row in rows
        if study.has_cell(row, column)
    }


def keys_of_cell(study: Study, row: str, column: str, seeds: Sequence[int], recorded: Iterable[Record]) -> list[str]:
    """The keys of all runs that a cell takes; of those that nobody can know before the trials have ended, nothing."""
    from engram.search.trials import final_jobs, trial_jobs

    if not study.search:
        return [job.key for job in jobs_of_study(study, [row], [column], seeds)]
    base = bases_of_study(study, [row], column)[row]
    select_on = study.search.get("select_on", "holdout")
    trials = trial_jobs(base, trials_of_study(study), select_on)
    known = {record.key: record for record in recorded}
    tried = [as_asked(known[job.key], job.spec.scenario_name, job.search) for job in trials if job.key in known]
    finals = final_jobs(base, tried, seeds, select_on) if len(tried) == len(trials) else []
    return [*(job.key for job in trials), *(job.key for job in finals), *[""] * (len(seeds) - len(finals))]


def trials_of_study(study: Study) -> int:
    return int(study.search.get("trials", 12))


def as_study(source: Any) -> Study:
    """A study from a name, a TOML file, or a dictionary with the same keys and, in place of the file's, a `name`."""
    if isinstance(source, Study):
        return source
    if isinstance(source, Mapping):
        stated = {key: value for key, value in source.items() if key != "name"}
        return read_study(stated, str(source.get("name", "study")))
    if isinstance(source, str | Path):
        return find_study(str(source))
    raise StudyError(
        f"study {source!r:.60} is not one; give a TOML file, a name such as {study_names()[0]}, a dictionary or a frame"
    )


def study(
    source: Any,
    *,
    out: str | Path = "runs",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    seeds: int | Sequence[int] | None = None,
    workers: int | None = None,
    metric: str = "",
    run: bool = True,
    **frame: str,
) -> StudyTable:
    """Runs what is missing of a study and returns its table.

    Args:
        source: A TOML file, the name of a published table, a dictionary with the same keys, or a pandas frame (or the
            path of a CSV file) of results that engram did not produce: one line per run with a row, a column, a seed
            and a value. For a frame, `rows`, `columns`, `value` and `baseline` name its columns and the baseline.
        out: Folder for the records; runs that are recorded there are not repeated.
        run: False: make the table from what is recorded already.
    """
    if hasattr(source, "to_dict") or str(source).endswith(".csv"):
        lines = source.to_dict("records") if hasattr(source, "to_dict") else read_csv(Path(source))
        return table_of_lines(lines, **frame)
    if frame:
        raise TypeError(f"{', '.join(frame)} only go with a frame of results")
    wanted = as_study(source).with_metric(metric)
    used = wanted.first_seeds(seeds) if isinstance(seeds, int) else tuple(seeds or wanted.seeds)
    folder = Path(out)
    made = None
    if run:
        from engram.engines.driver import run_jobs
        from engram.engines.local import Local

        with closing(Local(workers)) as engine:
            made = run_study(
                wanted,
                folder,
                lambda jobs, place, file: list(run_jobs(jobs, place, file=file, engine=engine)),
                rows=rows,
                columns=columns,
                seeds=used,
            )
    records = [record for record in read_records(folder) if record.seed in used]
    return make_table(wanted, records, rows=rows, columns=columns, made=made)


def compare(table: str, results: str | Path = "results", **options: Any) -> StudyTable:
    """A published table against the records of a folder: `eg.compare("table2").cells`; runs nothing."""
    return make_table(as_study(table), read(results_folder(Path(results))), **options)


def table(
    records: str | Path | Sequence[Record],
    *,
    rows: str = "method",
    columns: str = "scenario",
    baseline: str = "",
    metric: str = "average-accuracy",
) -> StudyTable:
    """A table of records that belong to no study, from a folder or a list of them."""
    found = read(records) if isinstance(records, str | Path) else records
    return table_of_records(found, rows=rows, columns=columns, baseline=baseline, metric=metric)


def search(
    scenario: str,
    methods: Sequence[str],
    *,
    trials: int = 12,
    seeds: int = 10,
    select_on: Literal["holdout", "test"] = "holdout",
    out: str | Path = "runs/search",
    workers: int | None = None,
) -> list[Tuned]:
    """Tunes every method with the same number of trials on held-out training data, then runs each with its best
    values; the ledger of what was found and spent."""
    from engram.engines.driver import run_jobs
    from engram.engines.local import Local
    from engram.runs.spec import default_spec
    from engram.search.ledger import tuned
    from engram.search.trials import check_folder, run_search

    folder = Path(out)
    bases = [default_spec(scenario, method) for method in methods]
    check_folder(folder, bases, trials, select_on)
    with closing(Local(workers)) as engine:
        done = run_search(
            bases,
            lambda jobs: list(run_jobs(jobs, folder, engine=engine)),
            trials=trials,
            seeds=range(seeds),
            select_on=select_on,
        )
        records = [record for _, record in done]
    return tuned(records)


def load(what: str | Path, out: str | Path = "runs") -> Any:
    """A finished run by its key, with what it left: `eg.load(key).net`. Or, of a Python file, the names of the methods,
    networks, scenarios and metrics that it defines, which are added.

    Args:
        what: The key of a record, or a file that ends in .py.
        out: The folder of the record.
    """
    if Path(what).suffix or Path(what).exists():
        return [loaded.name for loaded in load_file(Path(what))]
    from engram.runs.left import find_record

    return find_record(str(what), Path(out))


def read_csv(path: Path) -> list[dict[str, Any]]:
    """The lines of a CSV file by the names in its first line."""
    if not path.is_file():
        raise ValueError(f"{path} does not exist")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not CSV in UTF-8: {error}") from error


def table_of_lines(
    lines: Sequence[Mapping[str, Any]],
    *,
    rows: str = "",
    columns: str = "",
    seed: str = "seed",
    value: str = "",
    baseline: str = "",
    title: str = "results",
) -> StudyTable:
    """A table, with the same tests, of results that were made elsewhere: one line per run."""
    if not lines:
        raise ValueError("there are no results: give one line per run")
    names = list(lines[0])
    row = pick_name("rows", rows, SHOWN_ROWS, names)
    column = pick_name("columns", columns, SHOWN_COLUMNS, names)
    number = pick_name("value", value, VALUES, names)
    runs: dict[tuple[str, str], dict[int, float]] = {}
    for i, line in enumerate(lines, 1):
        try:
            place, at, result = (str(line[row]), str(line[column])), int(float(line.get(seed, i))), float(line[number])
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise ValueError(f"line {i} of the results cannot be read: {error}") from error
        if seed in line and at != float(line[seed]):
            raise ValueError(f"line {i}: seed {line[seed]} is not a whole number")
        if not is_bounded(result):
            raise ValueError(f"line {i}: {number} is {result:g}; leave out runs without a result")
        if at in runs.setdefault(place, {}):
            raise ValueError(f"line {i}: {place[0]}, {place[1]} has seed {at} twice")
        runs[place][at] = result
    given = {place: CellRuns(values) for place, values in runs.items()}
    return given_table(given, baseline, title, metric=number, first=row)


def pick_name(what: str, asked: str, usual: Sequence[str], names: Sequence[str]) -> str:
    """The column of a frame that is meant: the one asked for, else the first that has a usual name."""
    if asked and asked not in names:
        raise ValueError(unknown(what, asked, names))
    found = asked or next((name for name in usual if name in names), "")
    if not found:
        raise ValueError(f"{what}: none of the columns {', '.join(names)} is called {' or '.join(usual)}; name it")
    return found


def given_table(
    given: Mapping[tuple[str, str], CellRuns],
    baseline: str,
    title: str,
    *,
    metric: str,
    first: str,
    known_rows: Mapping[str, Row] | None = None,
) -> StudyTable:
    """A table of runs that are sorted into rows and columns already."""
    rows = {row: (known_rows or {}).get(row, Row(row, row)) for row, _ in given}
    columns = {column: Column(column, column) for _, column in given}
    if baseline and baseline not in rows:
        raise ValueError(unknown("baseline", baseline, rows))
    results = GivenResults(Study(title, title, rows, columns, baseline=baseline, metric=metric, first=first), given)
    return StudyTable(results.study, make_cells(results), [])


def table_of_records(
    records: Sequence[Record],
    *,
    rows: str = "method",
    columns: str = "scenario",
    baseline: str = "",
    metric: str = "average-accuracy",
    title: str = "records",
) -> StudyTable:
    """A table of records that belong to no study, by two of their parts: `method`, `scenario`, `net.name`,
    `training.lr`, `method.coef`, …. Settings that neither part tells apart get rows of their own."""
    results = Results(Study(title, title, {}, {}), records, metric)
    groups = results.groups
    if not groups:
        raise ValueError("there are no records to make a table of")
    part_of = {s: (part(s, rows), part(s, columns)) for s in groups}
    told = {row: tell_apart([s for s, place in part_of.items() if place[0] == row], rows, columns, part_of)
            for row in dict.fromkeys(row for row, _ in part_of.values())}  # fmt: skip
    suffixes = {s: in_words(s, told[place[0]]) for s, place in part_of.items()}
    names = {s: place[0] + suffixes[s] for s, place in part_of.items()}
    results.check_measured(records)
    given = {
        (names[s], place[1]): CellRuns(
            results.values_of(groups[s]), tuple(groups[s].records), s, tuple(results.left_out(groups[s]))
        )
        for s, place in part_of.items()
    }
    known = {names[s]: Row(names[s], s.method, method_title(s.method) + suffixes[s]) for s in groups}
    return given_table(
        given, baseline, title, metric=metric, first=rows, known_rows=known if rows == "method" else None
    )


def part(setting: Setting, name: str) -> str:
    """One part of a setting, in words."""
    if name in ("method", "scenario"):
        return str(getattr(setting, name))
    value = setting.value(name if "." in name else f"method.{name}")
    if value is None and name not in setting.defaults():
        known = ["method", "scenario", *setting.defaults()]
        raise ValueError(unknown("part of a setting", name, known))
    return str(value)


def tell_apart(
    settings: Sequence[Setting], rows: str, columns: str, place_of: Mapping[Setting, tuple[str, str]]
) -> list[str]:
    """The parts that tell settings of one row apart if two of them have the same place; the same for all of the row."""
    told: dict[str, None] = {}
    for place in dict.fromkeys(place_of[s] for s in settings):
        others = [s for s in settings if place_of[s] == place]
        names = dict.fromkeys(["method", "scenario", *(name for other in others for name in other.values)])
        for name in names:
            if name not in (rows, columns) and len({str(whole_value(other, name)) for other in others}) > 1:
                told[name] = None
    plain = [name for name in told if not name.endswith(OWN_CODE)]  # a hash is shown only if nothing else differs
    places = [(place_of[s], in_words(s, plain)) for s in settings]
    return plain if len(set(places)) == len(settings) else list(told)


def whole_value(setting: Setting, name: str) -> Any:
    return getattr(setting, name) if name in ("method", "scenario") else setting.value(name)


def in_words(setting: Setting, names: Sequence[str]) -> str:
    """` (lr 0.01)`; nothing if there is nothing to tell."""
    words = []
    for name in names:
        value = whole_value(setting, name)
        if name in ("method", "scenario"):
            words.append(str(value))
        elif value is not None:  # None: another network or method has this field
            words.append(f"{'net' if name == 'net.name' else name.rpartition('.')[2]} {show(value)}")
    return f" ({', '.join(words)})" if words else ""
