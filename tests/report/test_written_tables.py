"""Tables in every format: layout, numbers, and what stands below them."""

import csv
import io
import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from record_helpers import records_of
from setting_records import run

from engram.core.messages import duration, size
from engram.core.registry import METHODS
from engram.report.footer import lines_below, notes_of_cells
from engram.report.latex import escape_latex
from engram.report.layout import make_document
from engram.report.markdown import escape_markdown
from engram.report.written import write_table
from engram.studies.catalog import built_in_study, results_of
from engram.studies.reading import read_study
from engram.studies.study import Study
from engram.studies.table import NO_RUNS, Results, make_cells, make_variant_cells


def two(row: str, mean: float, column: str = "class") -> list:
    """Two runs around a mean, one point from it."""
    return [run(row, column, seed, mean + d) for seed, d in enumerate((-1.0, 1.0))]


RECORDS = [
    *two("adam", 19.7),
    *two("rehearsal", 90.0),
    *two("rehearsal-c", 95.0),
    *two("offline", 99.9),
    *two("dgr", 91.0),
    *two("gem", 92.0),
    run("gem/one-slot", "class", 0, 91.5),
    run("gem/one-slot", "class", 1, 93.5),
    run("gem/one-slot", "class", 2, 80.0),  # the row has no such seed
]
OWN = {
    "title": "Do *stored* logits help_us? 5 % | #1",
    "seeds": 10,
    "baseline": "adam",
    "columns": {"class": "split-mnist/class", "domain": "split-mnist/domain"},
    "rows": {"adam": {}, "rehearsal": {}, "si": {}},
}


def cells_of(table, records, rows=(), columns=()):
    return make_cells(results_of(built_in_study(table), records), rows, columns)


def variants_of(table, records, rows=(), columns=()):
    study = built_in_study(table)
    chosen = [v for v in study.variants.values() if not rows or v.row in rows]
    return make_variant_cells(results_of(study, records), chosen, columns)


def written(form: str, table: str = "table2", with_variants: bool = False, records=RECORDS) -> str:
    variants = variants_of(table, records) if with_variants else []
    return write_table(form, built_in_study(table), cells_of(table, records), variants)


def document(table: str, records=()):
    return make_document(built_in_study(table), cells_of(table, records))


def own_study(**changes) -> Study:
    return read_study({**OWN, **changes}, "mine")


def own_records() -> list:
    """Rehearsal is better in all 10 seeds, SI in half of them, and in domain learning SI has 3 seeds."""
    found = [run("adam", column, s, 20 + s % 3) for column in ("class", "domain") for s in range(10)]
    kept = {"kept": {"buffer": 4_500_000}}
    found += [
        run("rehearsal", c, s, 90.0 + s % 3, memory=kept, seconds=s) for c in ("class", "domain") for s in range(10)
    ]
    found += [run("si", "class", s, 20 + s % 3 + (-1) ** s) for s in range(10)]
    return [*found, *(run("si", "domain", s, 25.0 + s) for s in range(3)), run("si", "domain", 3, None)]


def test_groups_and_rules_are_the_paper_s():
    found = document("table2").sections
    assert [(s.title, [row.name for row in s.rows]) for s in found] == [
        ("Baselines", ["adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c"]),
        ("Continual learning methods", ["ewc", "online-ewc", "si", "mas", "lwf", "gem", "dgr", "rtf"]),
        ("", ["offline"]),
    ]
    assert [r.name for s in found for r in s.rows if r.remembers] == ["rehearsal", "rehearsal-c", "gem", "dgr", "rtf"]
    assert [s.title for s in document("table4").sections] == ["Baselines", "Continual learning methods"]
    assert document("table4").headings == (("Split MNIST", ("No", "Yes")), ("Permuted MNIST", ("No", "Yes")))


def test_bold_is_the_best_row_with_a_memory_in_each_group():
    bold = {(row.name, entry.value) for row in document("table2", RECORDS).rows for entry in row.entries if entry.bold}
    assert bold == {("rehearsal-c", "95.00 ± 1.00"), ("gem", "92.00 ± 1.00")}  # not adam, not offline
    assert not any(entry.bold for row in document("table4", RECORDS).rows for entry in row.entries)


def test_latex_is_in_the_paper_s_layout():
    text = written("latex")
    assert r"\begin{tabular}{lcccc}" in text
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if r" \\" in line]
    assert {line.count("&") for line in rows if r"\multicolumn" not in line} == {4}
    assert len(rows) == 2 + 2 + 2 * 15  # two lines of headings, two group titles, two lines per method
    assert body.count(r"\midrule") == 3
    assert body.count(r"\checkmark") == 5
    assert body.count(r"\specialrule{0.3pt}") == 2
    lines = body.splitlines()
    for above, below in (("L2", "Naive rehearsal "), ("LwF", "GEM")):
        at = next(i for i, line in enumerate(lines) if r"\specialrule" in line and lines[i + 1].startswith(below))
        assert lines[at - 2].startswith(above)
    assert r"$\mathbf{95.00 \pm 1.00}$" in body
    assert r"$\mathbf{92.00 \pm 1.00}$" in body
    assert r"$90.00 \pm 1.00$" in body
    assert r"{\tiny $19.71 \pm 0.08$ (2) $=$}" in body
    assert body.count("(0) --") == 45 - 6
    assert " agree $=$, " in text  # the signs of the cells, not the mark of Memory
    assert "39 missing --;" in text


@pytest.mark.parametrize("table", ["table2", "table3", "table4"])
def test_latex_is_balanced_and_asks_for_no_package_but_booktabs(table):
    text = written("latex", table, with_variants=True)
    assert text.isascii()
    bare = re.sub(r"\\[{}%#&$_]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert re.findall(r"\\begin{(\w+)}", text) == ["table", "tabular"] * 2
    assert re.findall(r"\\end{(\w+)}", text) == ["tabular", "table"] * 2
    commands = set(re.findall(r"\\([a-z]+)", text))
    assert commands >= {"toprule", "midrule", "bottomrule"}
    assert not commands & {"multirow", "color", "rowcolor", "makecell", "resizebox"}


def test_table_4_in_latex_has_two_lines_of_headings():
    text = written("latex", "table4")
    assert r"Method & \multicolumn{2}{c}{Split MNIST} & \multicolumn{2}{c}{Permuted MNIST} \\" in text
    assert r"\cmidrule(lr){2-3}\cmidrule(lr){4-5}" in text
    assert r"Known total \#class? & No & Yes & No & Yes \\" in text
    assert r"\checkmark" not in text[text.index(r"\toprule") :]


def test_the_long_queue_s_tables_have_tasks_as_rows_and_no_spread():
    text = written("latex", "table5")
    assert r"After task & \multicolumn{1}{c}{Adam} & \multicolumn{2}{c}{SI} & \multicolumn{2}{c}{Online EWC}" in text
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-6}" in text
    assert r"{\tiny $58.05$ (0) --}" in text
    page = written("markdown", "table6")
    assert (
        "| After task | Adam | SI<br>best | SI<br>worst | Online EWC<br>best | Online EWC<br>worst | Adagrad |" in page
    )
    assert "published 54.61 · missing" in page
    assert "the paper has one run" in page


def test_special_characters():
    assert escape_latex("5 % & #1_a ± ½ <x>") == r"5 \% \& \#1\_a $\pm$ $\frac12$ $<$x$>$"
    assert (
        escape_latex("~^ Müller [1] --seeds λ|*")
        == r"\textasciitilde{}\textasciicircum{} M\"{u}ller {[}1{]} -{}-seeds $\lambda$$|${*}"
    )
    assert escape_latex("学 – “x”") == "(U+5B66) -- ``x''"
    assert escape_markdown("a_b|<b>*c* & d") == r"a\_b\|&lt;b&gt;\*c\* &amp; d"


def test_table_4_in_markdown_asks_the_question_that_no_and_yes_answer():
    found = written("markdown", "table4", records=[])
    assert "| Method<br>Known total #class? | Split MNIST<br>No | Split MNIST<br>Yes |" in found


def test_notes_on_coefficients_and_inputs_are_true_of_each_table():
    of = {table: written("markdown", table, records=[]) for table in ("table2", "table4")}
    assert "ours are the published ones.\n" in of["table2"]
    assert "ours are those of the columns with unknown classes.\n" in of["table4"]
    assert ["without normalisation" in text for text in of.values()] == [True, False]  # only the copied rows


def test_markdown_has_one_width_and_says_all_of_a_cell():
    text = written("markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {6}
    assert len(rows) == 2 + 2 + 15
    assert "| Naive rehearsal-C | ✓ |" in text
    assert "**95.00 ± 1.00** (n = 2)<br>published 95.59 ± 0.49 ✓ agrees" in text
    assert "–<br>published 92.56 ± 0.21 · missing" in text


def test_variants_stand_under_the_table_with_the_paired_difference():
    """Seeds 0 and 1: 91.5 − 91 and 93.5 − 93 are half a point each; seed 2 has no partner."""
    found = {(t.row, t.column): t for t in variants_of("table2", RECORDS, columns=["class"])}
    variant = found["gem/one-slot", "class"]
    assert variant.difference == pytest.approx(0.5)
    assert (variant.pairs, variant.n, variant.of_row) == (2, 3, pytest.approx(92.0))
    assert variant.p is None  # two pairs can show nothing
    assert (variant.paper, variant.paper_std) == (92.20, 0.12)
    assert found["gem/4400", "class"].difference is None
    text = written("markdown", with_variants=True)
    assert "| gem/one-slot | class | 88.33 ± 5.95 (n = 3) | 92.00 | +0.50 (2 common seeds) |" in text
    assert "Run time of variants: " in text
    alone = written("markdown")
    assert "gem/one-slot" not in alone
    assert not any("Run time of variants" in written(form) for form in ("markdown", "latex", "text"))
    assert [len(page) - len(page.rstrip("\n")) for page in (text, alone)] == [1, 1]  # no empty line at the end


def test_a_difference_over_ten_seeds_has_a_p():
    given = [run("rehearsal", "class", s, 90 + s % 3) for s in range(10)]
    given += [run("rehearsal/half-and-half", "class", s, 91 + s % 3) for s in range(10)]
    variants = variants_of("table2", given, ["rehearsal"], ["class"])
    assert [t.difference for t in variants] == [1.0]
    assert variants[0].p == pytest.approx(2 / 1024)  # all of one sign: 2 of 2¹⁰ patterns are as far


def test_a_grid_s_variant_is_its_best_coefficient():
    def ewc(row, seed, value):
        return run(row, "permuted/known", seed, value, "table4")

    given = [ewc("ewc", 0, 60.0), ewc("ewc/searched 100", 0, 90.0), ewc("ewc/searched 1000", 0, 85.0)]
    (variant,) = variants_of("table4", given, ["ewc"], ["permuted/known"])
    assert (variant.ours, variant.of_row, variant.difference) == (90.0, 60.0, 30.0)
    assert variant.note.endswith("Best coefficient: 100, of 2 of 3 others run.")
    (variant,) = variants_of("table4", [*given, ewc("ewc", 1, 130.0)], ["ewc"], ["permuted/known"])
    assert variant.difference == 30.0  # a seed that the others do not have does not make the row's own the best
    given[0] = ewc("ewc", 0, 95.0)
    (variant,) = variants_of("table4", [*given, ewc("ewc", 1, 97.0)], ["ewc"], ["permuted/known"])
    assert (variant.ours, variant.difference) == (96.0, 0.0)
    assert "Best coefficient: the row's own" in variant.note
    given[0] = ewc("ewc", 0, 60.0)
    (variant,) = variants_of("table4", given[:1], ["ewc"], ["permuted/known"])
    assert variant.ours is None  # no other coefficient has been run


def test_json_is_the_cells_and_then_the_variants():
    found = json.loads(written("json"))
    assert len(found) == 45
    both = json.loads(written("json", with_variants=True))
    assert both[:45] == found
    assert len(both) == 45 + 5 * 3
    assert all("/" in variant["row"] and "difference" in variant for variant in both[45:])


def test_what_stands_below():
    here, there = ({"cpu": cpu, "cores": 1, "torch": "2.13"} for cpu in ("Z80", "6502"))
    kept = {"kept": {"a": 3, "b": 4_000_000}}
    given = [
        run("l2", "class", 0, 22.0, seconds=100.0, memory=kept, environment=here),
        run("l2", "task", 0, 98.0, seconds=150.0, memory={"kept": {"a": 2_000_000}}, environment=here),
        run("si", "class", 3, None, seconds=50.0, environment=there),
    ]
    lines = lines_below(built_in_study("table2"), cells_of("table2", given))
    assert "Run time: 5 min in 3 runs." in lines
    assert "Machine: Z80, 1 cores, torch 2.13 (2 runs); 6502, 1 cores, torch 2.13 (1 run)." in lines
    assert any(line.endswith("optimiser: L2 4.0 MB.") for line in lines)
    assert "Failed runs: SI in class: seed 3 (failed)." in lines
    assert any("standard error" in line for line in lines)
    assert not any("standard error" in line for line in lines_below(built_in_study("table4"), cells_of("table4", [])))
    assert (duration(0.4), duration(90), duration(119)) == ("0 s", "90 s", "119 s")
    assert (duration(120), duration(600), duration(7800)) == ("2 min", "10 min", "2 h 10 min")
    assert (size(4_500), size(4_508_800)) == ("4.5 kB", "4.5 MB")


def test_the_tables_say_what_each_method_needs_as_it_declares_it():
    for row in built_in_study("table2").rows:
        assert METHODS.facts(row).literals.get("needs", frozenset()) == METHODS[row].needs, row
    below = lines_below(built_in_study("table2"), cells_of("table2", [], ["adagrad", "ewc", "rehearsal"]))
    assert "Needs task boundaries: Naive rehearsal, EWC; past data: Naive rehearsal; neither: Adagrad." in below


def test_a_method_that_is_set_to_do_without_boundaries_is_not_said_to_need_them():
    rows = {"plain": {"method": "a-gem"}, "free": {"method": "a-gem", "memory": "reservoir"}}
    study = read_study({"title": "x", "columns": {"class": "split-mnist/class"}, "rows": rows}, "x")
    below = lines_below(study, make_cells(Results(study, [])))
    assert "Needs task boundaries: plain; past data: plain, free; neither: none." in below


def test_the_verdicts_of_a_few_cells_are_explained():
    """EWC in class learning is published as 19.80 ± 0.05 over 10 runs; the least band is 0.3 points."""
    study = built_in_study("table2")
    cells = make_cells(Results(study, records_of(study.setting("ewc", "class"), 19.0)), ["ewc"], ["class"])
    assert "EWC in class: −0.80 from the published number; up to 0.30 agree." in lines_below(study, cells)
    study = built_in_study("buzzega2020/table2")  # which has no spread of this cell
    cells = make_cells(Results(study, records_of(study.setting("er/200", "permuted"), 70.0)), ["er/200"], ["permuted"])
    (line,) = [line for line in lines_below(study, cells) if line.startswith("ER/200 in permuted: ")]
    assert line.endswith("no verdict: its spread is not known, and ours takes 3 runs.")


def test_departures_of_the_authors_code_are_in_the_cells_notes():
    found = {(c.row, c.column): c.note for c in cells_of("table3", [])}
    assert "mini-batches" in found["ewc", "domain"]
    assert "mini-batches" not in found["ewc", "class"]
    assert "0.001" in found["sgd", "task"]
    assert found["sgd", "class"] == found["adagrad", "task"] == "no runs are recorded"
    assert "slices of one layer" in found["adam", "task"]
    assert "plain Adam" in found["l2", "class"]
    assert "copied" in found["lwf", "task"]
    assert not any("sub-sampled" in cell.note for cell in cells_of("table2", []))


def test_a_note_below_a_table_names_the_columns_of_each_row_that_has_it():
    study = built_in_study("table2")
    found = cells_of("table2", RECORDS, ["adam", "sgd", "gem", "rehearsal"])
    assert "Adam, Naive rehearsal, GEM in task, domain; SGD: no runs are recorded." in notes_of_cells(study, found)
    assert "All: no runs are recorded." in notes_of_cells(study, cells_of("table2", []))
    some = cells_of("table2", RECORDS, ["gem"], ["class"])
    assert not any(NO_RUNS in line for line in notes_of_cells(study, some))


# Studies without published numbers


def own_table(form: str, study: Study | None = None, **options) -> str:
    study = study or own_study()
    return write_table(form, study, make_cells(results_of(study, own_records())), **options)


def test_a_study_of_one_s_own_has_n_p_memory_and_time():
    """Rehearsal: all 10 differences of one sign, p = 2/1024, times 3 tests: 0.0059. SI in class: p = 1."""
    text = own_table("markdown")
    assert "| Method | class | domain | Memory | Time |" in text
    assert "| Adam | 20.90 ± 0.83 (n = 10) | 20.90 ± 0.83 (n = 10) | none | 0 s |" in text
    both = "90.90 ± 0.83\\* (n = 10, p 0.0059)"
    assert f"| Naive rehearsal | {both} | {both} | 4.5 MB | 4 s |" in text
    assert "| SI | 20.90 ± 1.37 (n = 10, p 1) | 26.00 ± 0.82 (n = 3) | none | 0 s |" in text
    assert text.startswith("**Do \\*stored\\* logits help\\_us? 5 % \\| #1.** Average accuracy in percent.\n")


def test_below_it_stands_what_the_star_means():
    lines = lines_below(own_study(), make_cells(results_of(own_study(), own_records())))
    assert lines[0] == "± is the population standard deviation over n runs."
    assert lines[1].startswith("* differs from Adam, the baseline: p below 0.05 in a two-sided paired permutation test")
    assert lines[1].endswith("after Holm's correction over 3 tests.")
    assert lines[2].startswith("1 cell without p: a test can show something only with 6")
    assert "Failed runs: SI in domain: seed 3 (failed)." in lines


def test_without_a_baseline_there_are_no_tests():
    study = own_study(baseline="")
    text = own_table("text", study)
    assert "p 0" not in text
    assert "baseline" not in text


def test_csv_has_a_line_per_cell_and_numbers_in_full():
    rows = list(csv.DictReader(io.StringIO(own_table("csv"))))
    assert list(rows[0]) == [
        "row", "column", "mean", "std", "n", "p", "difference", "pairs", "memory", "seconds", "failed",
    ]  # fmt: skip
    assert len(rows) == 6
    rehearsal = next(r for r in rows if (r["row"], r["column"]) == ("rehearsal", "class"))
    assert (float(rehearsal["mean"]), float(rehearsal["p"])) == (pytest.approx(90.9), 3 * 2 / 1024)
    assert (rehearsal["difference"], rehearsal["pairs"], rehearsal["memory"]) == ("70.0", "10", "4500000")
    si = rows[-1]
    assert (si["p"], si["n"], si["failed"]) == ("", "3", "1")
    published = csv.DictReader(io.StringIO(written("csv", with_variants=True)))
    last = {(r["row"], r["column"]): r for r in published}
    assert (last["adam", "class"]["paper"], last["adam", "class"]["verdict"]) == ("19.71", "agrees")
    assert (last["gem/one-slot", "class"]["difference"], last["gem/one-slot", "class"]["pairs"]) == ("0.5", "2")


def test_pandas_reads_the_csv():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(io.StringIO(own_table("csv")))
    assert frame["n"].tolist() == [10, 10, 10, 10, 10, 3]


def test_json_has_the_keys_of_the_command():
    compare, study = (json.loads(own_table("json", json_form=form)) for form in ("compare", "study"))
    assert (compare[0]["ours"], compare[0]["paper"], compare[0]["verdict"]) == (pytest.approx(20.9), None, None)
    assert study[0].keys() >= {"row", "column", "mean", "std", "n", "p", "memory"}
    assert study[2]["p"] == 3 * 2 / 1024


def test_hostile_names_are_text_in_every_format():
    bad = r"\input{x} & $1_2$ [red]x[/] <b>|*` :smile: \x1b[31m" + "\n# h"
    study = own_study(title=bad, notes=[{"text": bad}], columns={"a&b_c": "split-mnist/class"})
    study = replace(study, rows={name: replace(row, title=bad) for name, row in study.rows.items()})
    found = make_cells(results_of(study, own_records()))
    latex = write_table("latex", study, found)
    assert r"\input" not in latex
    assert latex.isascii()
    bare = re.sub(r"\\[{}%#&$_]", "", latex)
    assert bare.count("{") == bare.count("}")
    assert {line.count("&") for line in bare.splitlines() if line.endswith((r"\\", "pt]"))} == {3}
    markdown = write_table("markdown", study, found)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {5}
    assert "<b>" not in markdown.replace(r"\<b\>", "")
    text = write_table("text", study, found)
    assert "[red]x[/]" in text
    assert ":smile:" in text
    assert "\x1b" not in text


def test_a_column_of_another_paper_without_a_published_number_has_no_verdict():
    rows = {"adam": {"published": {"class": [19.7, 0.1]}}, "si": {}}
    study = own_study(rows=rows, columns={"class": "split-mnist/class"})
    text = write_table("markdown", study, make_cells(results_of(study, own_records())))
    assert "| SI | 20.90 ± 1.37 (n = 10) |" in text
    assert "<br>published 19.70 ± 0.10" in text
    assert "in the paper a standard deviation over 10 runs" in text


@pytest.mark.parametrize(
    "module",
    ["analysis.differences", "report.written", "report.claims", "report.selection", "report.page.assemble",
     "report.page.server"],
)  # fmt: skip
def test_tables_and_page_work_without_torch(module):
    code = f"import sys, engram.{module}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
