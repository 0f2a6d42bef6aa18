"""Tables as Markdown and LaTeX: layout, numbers, and what stands below them."""

import json
import re

import pytest

from engram.methods import methods
from engram.report.footer import duration, footer, notes, size
from engram.report.latex import escaped
from engram.report.layout import NEEDS, headings, sections
from engram.report.written import written
from engram.runs.records import Record
from engram.studies.hsu2018.cells import cells, preset_name, published
from engram.studies.hsu2018.notes import MISSING, NOTES
from engram.studies.hsu2018.twin_cells import twin_cells
from engram.studies.hsu2018.twins import twins_of


def run(label: str, seed: int, value: float | None, **more) -> Record:
    status = "done" if value is not None else "failed"
    return Record(f"{label} {seed}", "", "", seed, {}, status, average_accuracy=value, preset=label, **more)


def two(table: str, row: str, column: str, mean: float) -> list[Record]:
    """Two runs around a mean, one point from it."""
    return [run(preset_name(table, row, column), seed, mean + d) for seed, d in enumerate((-1.0, 1.0))]


RECORDS = [
    *two("table2", "adam", "class", 19.7),
    *two("table2", "rehearsal", "class", 90.0),
    *two("table2", "rehearsal-c", "class", 95.0),
    *two("table2", "offline", "class", 99.9),
    *two("table2", "dgr", "class", 91.0),
    *two("table2", "gem", "class", 92.0),
    run("split-mnist/class gem one-slot", 0, 91.5),
    run("split-mnist/class gem one-slot", 1, 93.5),
    run("split-mnist/class gem one-slot", 2, 80.0),  # the row has no such seed
]


def document(form: str, table: str = "table2", with_twins: bool = False) -> str:
    found = cells(table, RECORDS)
    twins = twin_cells(table, RECORDS, twins_of(table), [c.column for c in found]) if with_twins else []
    return written(form, table, found, twins, RECORDS)


def test_groups_and_rules_are_print_s():
    found = sections("table2", cells("table2", []))
    assert [(s.title, [row.name for row in s.rows]) for s in found] == [
        ("Baselines", ["adam", "sgd", "adagrad", "l2", "rehearsal", "rehearsal-c"]),
        ("Continual learning methods", ["ewc", "online-ewc", "si", "mas", "lwf", "gem", "dgr", "rtf"]),
        ("", ["offline"]),
    ]
    assert [r.name for s in found for r in s.rows if r.memory] == ["rehearsal", "rehearsal-c", "gem", "dgr", "rtf"]
    assert [s.title for s in sections("table4", cells("table4", []))] == ["Baselines", "Continual learning methods"]
    assert headings(cells("table4", [])) == [("Split MNIST", ["No", "Yes"]), ("Permuted MNIST", ["No", "Yes"])]


def test_bold_is_the_best_row_with_a_memory_in_each_group():
    bold = {(row.name, c) for s in sections("table2", cells("table2", RECORDS)) for row in s.rows for c in row.bold}
    assert bold == {("rehearsal-c", "class"), ("gem", "class")}  # not adam, not offline
    assert not any(row.bold for s in sections("table4", cells("table4", RECORDS)) for row in s.rows)


def test_latex_is_in_print_s_layout():
    text = document("latex")
    assert r"\begin{tabular}{lcccc}" in text
    body = text[text.index(r"\toprule") : text.index(r"\bottomrule")]
    rows = [line for line in body.splitlines() if r" \\" in line]
    assert {line.count("&") for line in rows if r"\multicolumn" not in line} == {4}
    assert len(rows) == 2 + 2 + 2 * 15  # two lines of headings, two group titles, two lines a method
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
    text = document("latex", table, with_twins=True)
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
    text = document("latex", "table4")
    assert r"Method & \multicolumn{2}{c}{Split MNIST} & \multicolumn{2}{c}{Permuted MNIST} \\" in text
    assert r"\cmidrule(lr){2-3}\cmidrule(lr){4-5}" in text
    assert r"Known total \#class? & No & Yes & No & Yes \\" in text
    assert r"\checkmark" not in text[text.index(r"\toprule") :]


def test_the_long_queue_s_tables_have_tasks_as_rows_and_no_spread():
    text = document("latex", "table5")
    assert r"Tasks & \multicolumn{1}{c}{Adam} & \multicolumn{2}{c}{SI} & \multicolumn{2}{c}{Online EWC}" in text
    assert r"\cmidrule(lr){3-4}\cmidrule(lr){5-6}" in text
    assert r"{\tiny $58.05$ (0) --}" in text
    page = document("markdown", "table6")
    assert "| Tasks | Adam | SI<br>best | SI<br>worst | Online EWC<br>best | Online EWC<br>worst | Adagrad |" in page
    assert "print 54.61 · missing" in page
    assert "print has one run" in page


def test_special_characters():
    assert escaped("5 % & #1_a ± ½ <x>") == r"5 \% \& \#1\_a $\pm$ $\frac12$ $<$x$>$"


def test_table_4_in_markdown_asks_the_question_that_no_and_yes_answer():
    found = written("markdown", "table4", cells("table4", []), [], [])
    assert "| Method<br>Known total #class? | Split MNIST<br>No | Split MNIST<br>Yes |" in found


def test_notes_on_weights_and_inputs_are_true_of_each_table():
    of = {table: written("markdown", table, cells(table, []), [], []) for table in ("table2", "table4")}
    assert "ours are print's.\n" in of["table2"]
    assert "ours are print's of the columns with unknown classes.\n" in of["table4"]
    assert ["without normalisation" in text for text in of.values()] == [True, False]  # only the copied rows


def test_markdown_has_one_width_and_says_all_of_a_cell():
    text = document("markdown")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} == {6}
    assert len(rows) == 2 + 2 + 15
    assert "| Naive rehearsal-C | ✓ |" in text
    assert "**95.00 ± 1.00** (n = 2)<br>print 95.59 ± 0.49 ✓ agrees" in text
    assert "–<br>print 92.56 ± 0.21 · missing" in text


def test_twins_stand_under_the_table_with_the_paired_difference():
    """Seeds 0 and 1: 91.5 − 91 and 93.5 − 93 are half a point each; seed 2 has no partner."""
    found = {(t.row, t.column): t for t in twin_cells("table2", RECORDS, twins_of("table2"), ["class"])}
    twin = found["gem/one-slot", "class"]
    assert twin.difference == pytest.approx(0.5)
    assert (twin.pairs, twin.n, twin.of_row) == (2, 3, pytest.approx(92.0))
    assert twin.p is None  # two pairs can show nothing
    assert (twin.paper, twin.paper_std) == (92.20, 0.12)
    assert found["gem/4400", "class"].difference is None
    text = document("markdown", with_twins=True)
    assert "| gem/one-slot | class | 88.33 ± 5.95 (n = 3) | 92.00 | +0.50 (2 common seeds) |" in text
    assert "Run time of twins: " in text
    alone = document("markdown")
    assert "gem/one-slot" not in alone
    assert not any("Run time of twins" in document(form) for form in ("markdown", "latex", "text"))
    assert [len(page) - len(page.rstrip("\n")) for page in (text, alone)] == [1, 1]  # no empty line at the end


def test_a_difference_over_ten_seeds_has_a_p():
    label = "split-mnist/class rehearsal"
    given = [run(label, s, 90 + s % 3) for s in range(10)]
    given += [run(f"{label} half-and-half", s, 91 + s % 3) for s in range(10)]
    twins = twin_cells("table2", given, twins_of("table2", ["rehearsal"]), ["class"])
    assert [t.difference for t in twins] == [1.0]
    assert twins[0].p == pytest.approx(2 / 1024)  # all of one sign: 2 of 2¹⁰ patterns are as far


def test_a_grid_s_twin_is_its_best_weight():
    row = "permuted-mnist/class-known ewc"
    given = [run(row, 0, 60.0), run(f"{row} searched=100", 0, 90.0), run(f"{row} searched=1000", 0, 85.0)]
    (twin,) = twin_cells("table4", given, twins_of("table4", ["ewc"]), ["permuted/known"])
    assert (twin.ours, twin.of_row, twin.difference) == (90.0, 60.0, 30.0)
    assert twin.note.endswith("Best weight: 100, of 2 of 3 others run.")
    (twin,) = twin_cells("table4", [*given, run(row, 1, 130.0)], twins_of("table4", ["ewc"]), ["permuted/known"])
    assert twin.difference == 30.0  # a seed that the others do not have does not make the row's own the best
    given[0] = run(row, 0, 95.0)
    (twin,) = twin_cells("table4", [*given, run(row, 1, 97.0)], twins_of("table4", ["ewc"]), ["permuted/known"])
    assert (twin.ours, twin.difference) == (96.0, 0.0)
    assert "Best weight: the row's own" in twin.note
    given[0] = run(row, 0, 60.0)
    (twin,) = twin_cells("table4", given[:1], twins_of("table4", ["ewc"]), ["permuted/known"])
    assert twin.ours is None  # no other weight has been run


def test_json_is_the_cells_and_then_the_twins():
    found = json.loads(document("json"))
    assert len(found) == 45
    both = json.loads(document("json", with_twins=True))
    assert both[:45] == found
    assert len(both) == 45 + 5 * 3
    assert all("/" in twin["row"] and "difference" in twin for twin in both[45:])


def test_what_stands_below():
    here, there = ({"cpu": cpu, "cores": 1, "torch": "2.13"} for cpu in ("Z80", "6502"))
    kept = {"kept": {"a": 3, "b": 4_000_000}}
    given = [
        run("split-mnist/class l2", 0, 22.0, seconds=100.0, memory=kept, environment=here),
        run("split-mnist/task l2", 0, 98.0, seconds=150.0, memory={"kept": {"a": 2_000_000}}, environment=here),
        run("split-mnist/class si", 3, None, seconds=50.0, environment=there),
    ]
    lines = footer("table2", cells("table2", given), given)
    assert "Run time: 5 min in 3 runs." in lines
    assert "Machine: Z80, 1 cores, torch 2.13 (2 runs); 6502, 1 cores, torch 2.13 (1 runs)." in lines
    assert any(line.endswith("optimiser: L2 4.0 MB.") for line in lines)
    assert "Failed runs: split-mnist/class si seed 3 (failed)." in lines
    assert any("standard error" in line for line in lines)
    assert not any("standard error" in line for line in footer("table4", cells("table4", []), []))
    assert (duration(0.4), duration(90), duration(119)) == ("0 s", "90 s", "119 s")
    assert (duration(120), duration(600), duration(7800)) == ("2 min", "10 min", "2 h 10 min")
    assert (size(4_500), size(4_508_800)) == ("4.5 kB", "4.5 MB")


def test_the_tables_say_what_each_method_needs_as_it_declares_it():
    for row in published()["table2"]:
        assert {what for what, rows in NEEDS.items() if row in rows} == methods()[row].needs, row
    below = footer("table2", cells("table2", [], ["adagrad", "ewc", "rehearsal"]), [])
    assert "Needs task boundaries: Naive rehearsal, EWC; past data: Naive rehearsal; neither: Adagrad." in below


def test_departures_of_the_authors_code_are_in_the_cells_notes():
    found = {(c.row, c.column): c.note for c in cells("table3", [])}
    assert "mini-batches" in found["ewc", "domain"]
    assert "mini-batches" not in found["ewc", "class"]
    assert "0.001" in found["sgd", "task"]
    assert found["sgd", "class"] == found["adagrad", "task"] == "no runs are recorded"
    assert "slices of one layer" in found["adam", "task"]
    assert "plain Adam" in found["l2", "class"]
    assert "copied" in found["lwf", "task"]
    assert not any("sub-sampled" in cell.note for cell in cells("table2", []))
    assert not any("; " in note.text for note in NOTES if note.rows)  # what separates notes is in none


def test_a_note_below_a_table_names_the_columns_of_each_row_that_has_it():
    found = cells("table2", RECORDS, ["adam", "sgd", "gem", "rehearsal"])
    assert "Adam, Naive rehearsal, GEM in task, domain; SGD: no runs are recorded." in notes(found)
    assert "All: no runs are recorded." in notes(cells("table2", []))
    assert not any(MISSING in line for line in notes(cells("table2", RECORDS, ["gem"], ["class"])))
