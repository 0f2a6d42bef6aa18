"""What README and docs show works as typed: blocks are run in order, on small images under the names of real sets."""

import contextlib
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from engram.cli import COMMANDS, main
from engram.core.registry import METHODS, REGISTRIES
from engram.studies.catalog import built_in_study

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
RESULTS = ROOT / "results" / "hsu2018"
HEAVY = {"reproduce", "check", "search", "bench", "serve", "verify", "report", "data", "diff"}
"""Commands that are long, fetch or serve: their flags are looked up in their help instead."""
BUILTIN = frozenset(METHODS)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of the fenced blocks."""
    for found in re.finditer(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", page.read_text(), re.MULTILINE | re.DOTALL):
        yield found[2], found[3]


def commands(text: str) -> Iterator[list[str]]:
    """The lines of a block that call engram, without their comments; descriptions of a syntax are none."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip().startswith("engram ") and not re.search(r"…|\[-|\||\b[A-Z]{3,}\b", line.split("#")[0]):
            yield shlex.split(line, comments=True)[1:]


def small_images(path: Path, size: int = 28) -> None:
    """Ten classes, 36 training and four test images each; others for another name."""
    rng = np.random.default_rng(zlib.crc32(path.stem.encode()))

    def part(each: int):
        y = np.arange(10 * each) % 10
        x = rng.integers(0, 100, (len(y), size, size))
        x[np.arange(len(y)), y] += 150  # a bright row
        return x.astype(np.uint8), y

    (x_train, y_train), (x_test, y_test) = part(36), part(4)
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with examples and records, and small sets under the names that the docs use."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("mnist", "fashion-mnist", "cifar10"):
        small_images(data / f"{name}.npz")
    folder = tmp_path / "work"
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copytree(ROOT / "results", folder / "results")
    (folder / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks/scaling.json", folder / "benchmarks")
    small_images(folder / "my.npz", 10)
    monkeypatch.setenv("ENGRAM_DATA", str(data))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    return folder


def forget_own_methods() -> None:
    """As in a new process."""
    for registry in REGISTRIES:
        registry.added.clear()


def answer(arguments: list[str]) -> tuple[int, str]:
    """Exit status and all that was printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), pytest.raises(SystemExit) as end:
        main(arguments)
    forget_own_methods()
    return int(end.value.code or 0), said.getvalue()


def cheaply(arguments: list[str]) -> list[str]:
    """What a run gets besides: one seed, and none where the images do not say how long it takes, or trackers do."""
    words = set(re.split(r"[ +]", " ".join(arguments)))
    return [
        *(["--dry-run"] if words & {"lwf", "dgr", "rtf", "--track"} else []),
        *(["--seeds", "1"] if "--seeds" in words else []),
        *(["--warmup", "1"] if "--warmup" in words else []),  # a task has few steps here
    ]


SHOWN_ALREADY: set[tuple[str, ...]] = set()
"""Commands on built-in scenarios and committed records that another page has shown: they give the same again."""


def check_command(arguments: list[str]) -> None:
    name = arguments[0]
    if (
        name in ("figure", "describe", "compare")
        and not {"--results", "--file"} & {*arguments}
        and "npz" not in str(arguments)
    ):
        if tuple(arguments) in SHOWN_ALREADY:
            return
        SHOWN_ALREADY.add(tuple(arguments))
    if name.startswith("--"):
        assert answer(arguments)[0] == 0
        return
    assert name in COMMANDS
    if name in HEAVY:
        known = answer([name, "--help"])[1]
        for word in arguments[1:]:
            assert not word.startswith("--") or word.partition("=")[0] in known, (word, known)
        return
    if name == "run":
        arguments = [*arguments, *cheaply(arguments)]
    status, said = answer(arguments)
    assert status == 0, (arguments, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(blocks(page))], ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_a_page_shows_works_as_typed(page, work, capfd):
    names: dict[str, object] = {"__name__": "page"}
    for language, text in blocks(page):
        if language == "python":
            sys.modules.setdefault("page", type(sys)("page"))  # dataclasses look their module up
            exec(compile(text, f"{page.name}", "exec", dont_inherit=True), names)
        else:
            for arguments in commands(text):
                check_command(arguments)


def test_the_walk_finds_blocks_and_commands(tmp_path):
    page = tmp_path / "x.md"
    page.write_text(
        "```python\na = 1\n```\n\n1. x\n\n    ```\n    engram ls methods  # all\n    engram run SCENARIO\n    ```\n"
    )
    assert [language for language, _ in blocks(page)] == ["python", ""]
    assert list(commands(list(blocks(page))[1][1])) == [["ls", "methods"]]
    assert sum(1 for page in PAGES for _, text in blocks(page) for _ in commands(text)) > 30
    assert sum(language == "python" for page in PAGES for language, _ in blocks(page)) > 8


def test_every_method_has_a_page_and_every_page_is_in_the_menu():
    pages = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert pages == {*BUILTIN, "index"}
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in menu


def test_the_methods_that_boundaries_at_intervals_do_not_help_are_named():
    from engram.learning.unbounded import check_member

    page = (ROOT / "docs" / "own-stream.md").read_text()
    chooses, identity = (
        re.search(f"- those that {words}.*?[;.]\\n", page, re.DOTALL)[0] for words in ("choose", "need")
    )
    methods = {name: METHODS[name]() for name in METHODS}
    refused = set()
    for name, method in methods.items():
        try:
            check_member(method, "class", 100)
        except ValueError:
            refused.add(name)
    assert set(re.findall(r"`([\w-]+)`", chooses)) == refused
    assert set(re.findall(r"`([\w-]+)`", identity)) == {n for n, m in methods.items() if "task identity" in m.needs}


def test_no_formula_of_a_method_is_plain_text():
    for page in (ROOT / "docs" / "methods").glob("*.md"):
        prose = re.sub(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$", "", page.read_text(), flags=re.DOTALL)
        assert not re.search(r"^>|Σ_|\b\w_\w\b", prose, re.MULTILINE), page.name


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("engram_docs_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_runs_along_the_queue_stand_above_the_published_ones(hooks):
    """Against the records themselves, read by hand."""
    lines = (RESULTS / "long-queue.jsonl").read_text().splitlines()
    runs = [run for run in map(json.loads, lines) if run["spec"]["method"][0].get("coef") == 1000]
    (after_11,) = [sum(run["accuracy"][10]) / 11 for run in runs]
    head, _, weighty, printed = hooks.along("table5", "online-ewc/best", "coef=1000").splitlines()
    assert head.startswith("| Online EWC, seed 0 | after 1 | after 11 |")
    assert weighty.startswith("| coef 1000 | ")
    assert weighty.split(" | ")[2] == f"{after_11:.2f}"
    assert printed.startswith("| published, best | 99.95 | 98.69 |")
    with pytest.raises(ValueError, match="no record of si on the long queue"):
        hooks.along("table5", "si/best", "coef=7")


def test_gem_with_a_sample_of_its_memory_stands_above_gem_with_all_of_it(hooks):
    """Against the records themselves, read by hand; those with all of it on Split MNIST are Table 2's."""
    files = [RESULTS / name for name in ("table2.jsonl", "gem-sampled.jsonl")]
    runs = [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def mean(scenario, images):
        values = [
            run["average_accuracy"]
            for run in runs
            if (run["scenario"], run["method"], run["seed"] < 2) == (scenario, "gem", True)
            and run["spec"]["method"][0]["slots_per_task"] == 2
            and run["spec"]["method"][0]["capacity"] in (1100, 4000)
            and run["spec"]["method"][0]["memory_batch"] == images
        ]
        return f"{sum(values) / len(values):.2f}"

    head, _, some, all_of_them = hooks.sampled("split").splitlines()
    assert head == "| GEM uses | task | domain | class |"
    kinds = ("task", "domain", "class")
    assert some == f"| 112 images per step | {' | '.join(mean(f'split-mnist/{kind}', 112) for kind in kinds)} |"
    assert all_of_them == f"| all images | {' | '.join(mean(f'split-mnist/{kind}', 0) for kind in kinds)} |"
    permuted = hooks.sampled("permuted").splitlines()
    sizes = {"256 images per step": 256, "1024 images per step": 1024, "all images": 0}
    assert permuted[2:] == [f"| {words} | {mean('permuted-mnist/domain', images)} |" for words, images in sizes.items()]


def test_both_optimisers_of_the_queue_stand_beside_the_published_ones(hooks):
    """Against the records themselves, read by hand."""
    files = [RESULTS / name for name in ("table5.jsonl", "long-queue.jsonl")]
    runs = [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def after(n, **wanted):
        made = [
            run
            for run in runs
            if run["spec"]["net"] == {"name": "mlp", "hidden": [256, 256], "heads": "random"}
            and wanted.items() <= (run["spec"]["training"] | run["spec"]["method"][0] | {"seed": run["seed"]}).items()
        ]
        assert len(made) == (1 if "seed" in wanted else 3)
        return f"{sum(sum(run['accuracy'][n - 1]) / n for run in made) / len(made):.2f}"

    lines = hooks.along("table5", "adam", "reset_optimizer=False", "reset_optimizer=True").splitlines()
    head, _, one, new, _ = lines
    assert head.startswith("| Adam, seeds 0, 1, 2 | ")
    assert one.startswith("| one optimiser for all tasks | ")
    assert one.split(" | ")[2] == after(11, name="adam", reset_optimizer=False)
    assert new.startswith("| a new optimiser for each task | ")
    assert new.split(" | ")[2] == after(11, name="adam", reset_optimizer=True)
    lines = hooks.along("table6", "si/best", "coef=50,reset_optimizer=True").splitlines()
    assert lines[0].startswith("| SI, seed 0 | ")
    assert lines[-1].startswith("| published, best | 100.00 | 91.46 | ")

    text = hooks.optimisers("table5")
    rows = dict(line.removeprefix("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| "))
    for words, reset, coef in (("a new optimiser for each task", True, 50), ("one optimiser for all tasks", False, 10)):
        best = rows[f"SI, best: {words}"].split(" | ")[1].split(" ")[0]
        assert best == after(11, name="si", coef=coef, reset_optimizer=reset)
    every = hooks.coefficients("table5", "si").splitlines()
    assert every[0].startswith("| SI | after 1 | after 11 |")
    assert [line.split(" | ")[0] for line in every[2:]] == [
        *(
            f"| coefficient {value}, {words}"
            for words in ("a new optimiser for each task", "one optimiser for all tasks")
            for value in ("0.01", "0.1", "1", "10", "50", "100")
        ),
        "| published, best",
        "| published, worst",
    ]
    assert every[6].split(" | ")[2] == after(11, name="si", coef=50, reset_optimizer=True)
    zero = hooks.coefficients("table6", "si", "zero").splitlines()
    assert zero[2].startswith("| coefficient 0.01, a new optimiser for each task | 99.62 | 60.53 | 56.78 |")
    assert rows["Online EWC, worst: published"].startswith("99.81 | 92.29 | ")
    assert re.search(
        r"Within 5 points of the published numbers: "
        r"\d+ of 36 cells with a new optimiser for each task, \d+ of 36 with one",
        text,
    )


def test_times_are_medians_of_the_runs_of_cells(hooks):
    """Against the records themselves, read by hand; like times stand together, variants do not count."""
    runs = [json.loads(line) for line in (RESULTS / "table2.jsonl").read_text().splitlines()]
    lwf = [run["seconds"] for run in runs if run["method"] == "lwf" and run["spec"]["training"]["steps"]]
    shown = hooks.times("table2").split("; ")
    assert f"`lwf` {median(lwf):.0f} s" in shown
    assert sorted(re.findall(r"`([\w-]+)`", " ".join(shown))) == sorted(built_in_study("table2").rows)
    assert len(shown) < 6


def test_the_numbers_of_the_readme_are_those_of_the_records(hooks):
    """Of as many runs as it says: a row whose table has got more runs since is not compared."""
    text = (ROOT / "README.md").read_text()
    assert f"<!-- study -->\n\n{hooks.study_output('logits')}\n<!-- end -->" in text
    shown = re.search(r"<!-- papers -->\n\n(.*?)\n<!-- end -->", text, re.DOTALL)[1]
    now = hooks.papers("docs/").splitlines()
    assert shown.splitlines()[:2] == now[:2]
    assert len(shown.splitlines()) == len(now)
    for line, today in zip(shown.splitlines()[2:], now[2:], strict=True):
        *stated, runs = re.findall(r"\d+", line.partition(") |")[2])
        *_, runs_now = re.findall(r"\d+", today)
        assert line.partition(") |")[0] == today.partition(") |")[0]
        assert len(stated) == 4
        assert line == today if runs == runs_now else int(runs) < int(runs_now)


def test_the_table_of_papers_counts_cells(hooks):
    """Hsu et al.'s Table 2 against the comparison that the command prints."""
    cells = json.loads(answer(["compare", "table2", "--json", "--results", str(ROOT / "results")])[1])
    agree = sum(cell["verdict"] == "agrees" for cell in cells)
    runs = sum(cell["n"] for cell in cells)
    assert hooks.paper_counts()["hsu2018/table2"] == (45, 45, agree, 45 - agree, runs)
    published = [cell["paper"] for cell in json.loads(answer(["compare", "vandeven2022/table2", "--json"])[1])]
    assert hooks.paper_counts()["vandeven2022/table2"][0] == sum(number is not None for number in published) == 24


def test_formulas_become_mathml(hooks):
    html = hooks.on_page_content('<p><span class="arithmatex">\\(a &lt; b^2\\)</span> and</p>')
    assert html == (
        '<p><math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>a</mi><mo>&#x0003C;</mo>'
        "<msup><mi>b</mi><mn>2</mn></msup></mrow></math> and</p>"
    )
    block = hooks.on_page_content('<div class="arithmatex">\\[\nx\n\\]</div>')
    assert 'display="block"><mrow><mi>x</mi></mrow>' in block


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    page = (tmp_path / "site" / "methods" / "adam.html").read_text()
    assert "engram:" not in page  # what pages ask for was filled in
    assert "<code>split-mnist/task</code>" in page
    pages = list((tmp_path / "site").rglob("*.html"))
    assert not [page.name for page in pages if re.search(r'"arithmatex"|\\\\\(', page.read_text())]  # all are typeset
    assert "<math" in (tmp_path / "site" / "methods" / "ewc.html").read_text()
    elsewhere = r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//'
    assert not [page.name for page in pages if re.search(elsewhere, page.read_text())]  # nothing is fetched
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()  # search from a folder
    json.loads((tmp_path / "site" / "schemas" / "study.schema.json").read_text())


def test_pages_about_papers_say_what_the_records_say(hooks):
    """Against the records themselves, read by hand."""
    runs = [json.loads(line) for line in (RESULTS / "table2.jsonl").read_text().splitlines()]
    adam = [run for run in runs if (run["scenario"], run["method"]) == ("split-mnist/task", "adam")]
    mean = sum(run["average_accuracy"] for run in adam) / len(adam)
    shown = hooks.ANSWERS["paper-table"]("hsu2018/table2")
    line = next(line for line in shown.splitlines() if line.startswith("| Adam |"))
    assert line.startswith(f"| Adam | {mean:.2f} ± ")
    assert f", n {len(adam)}<br>(93.46 ± 2.01) ✓ |" in line
    rows = hooks.measured("adam").splitlines()
    assert f"| `split-mnist/task` | hsu2018/table2 task | Adam | {mean:.2f} ±" in rows[2]
    assert "No published table has this row" in hooks.measured("mir")
    assert "buzzega2020/table2 rotated | DER/200 |" in hooks.measured("der")


def test_a_study_without_runs_is_said_to_have_none(hooks, monkeypatch):
    pages = sys.modules["paper_pages"]
    monkeypatch.setattr(pages, "every_group", dict)
    for kept in (pages.cells_of, pages.every_place):
        kept.cache_clear()
    try:
        assert pages.state("vandeven2022/table2") == "No runs are recorded yet.\n"
        assert pages.short_state("buzzega2020/table2") == "no runs yet"
        assert "| – | – | – |" in pages.crossing("adam")
    finally:
        for kept in (pages.cells_of, pages.every_place):
            kept.cache_clear()
