"""Study files: rows, columns, seeds and values as a TOML file states them; what cannot be meant is refused by name."""

import tomllib
from pathlib import Path

import pytest

from engram.core.registry import METHODS
from engram.runs.defaults import default_setting
from engram.studies.catalog import find_study
from engram.studies.reading import read_study
from engram.studies.study import Spread, StudyError, Variant

MINE = """
title = "Do stored images help?"
seeds = 3
baseline = "adam"

[columns]
class = "split-mnist/class"
rotated = { scenario = "permuted-mnist/domain", permutations = 20, pad = 0, normalize = "none" }

[rows]
adam = {}
"rehearsal/200" = { capacity = 200, training.lr = 0.1, at.rotated = { capacity = 300 } }
"rehearsal+si" = { rehearsal = { capacity = 7 }, si.coef = 3, net.hidden = [5] }

[training]
epochs = 1
source = "a guess"

[net]
hidden = [100, 100]
"""


def read(text: str, **more: object):
    return read_study({**tomllib.loads(text), **more}, "mine")


def test_values_are_of_the_table_the_column_the_row_and_the_cell():
    study = read(MINE)
    plain = study.setting("adam", "class")
    assert plain == default_setting("split-mnist/class", "adam").with_values(
        {"training.epochs": 1, "net.hidden": (100, 100)}
    )
    assert plain.sources["training.epochs"] == "a guess"
    rotated = study.setting("adam", "rotated")
    assert [rotated.value(f"scenario.{name}") for name in ("permutations", "pad", "normalize")] == [20, 0, None]
    row = study.setting("rehearsal/200", "class")
    assert (row.method, row.value("method.capacity"), row.value("training.lr")) == ("rehearsal", 200, 0.1)
    assert study.setting("rehearsal/200", "rotated").value("method.capacity") == 300
    both = study.setting("rehearsal+si", "class")
    assert (both.value("method.rehearsal.capacity"), both.value("method.si.coef")) == (7, 3)
    assert both.value("net.hidden") == (5,)
    assert (study.seeds, study.title, study.is_published) == ((0, 1, 2), "Do stored images help?", False)


def test_epochs_of_a_study_beat_the_steps_of_a_default():
    study = read(MINE.replace("adam = {}", "adam = {}\nlwf = {}"))
    setting = study.setting("lwf", "class")
    assert (setting.value("training.epochs"), setting.value("training.steps")) == (1, 0)


@pytest.mark.parametrize(("seeds", "found"), [(2, (0, 1)), ([5, 7], (5, 7)), ([0], (0,))])
def test_seeds_are_a_number_or_a_list(seeds, found):
    assert read(MINE, seeds=seeds).seeds == found


@pytest.mark.parametrize("seeds", [0, -1, [], "3", 2.0, True, [1000], [-1], ["a"], 10**9, 10**400])
def test_seeds_that_are_none_are_refused(seeds):
    with pytest.raises(StudyError, match=r"mine: seeds .*: give a number of seeds, or a list"):
        read(MINE, seeds=seeds)


def test_a_published_table_has_numbers_spreads_and_variants():
    study = read_study(
        {
            "columns": {"class": "split-mnist/class", "task": "split-mnist/task"},
            "rows": {
                "adam": {"published": {"class": [19.7, 0.1], "task": 93.5}},
                "small": {"method": "rehearsal", "capacity": 10, "published": {"class": [80.0]},
                          "spread": {"kind": "sem", "runs": 5}, "title": "Small", "source": "their code"},
            },
            "variants": {"small/larger": {"capacity": 20, "columns": ["class"], "why": "To see."}},
            "spread": {"kind": "std", "runs": 3},
        },
        "a/b",
    )  # fmt: skip
    assert study.rows["adam"].published == {"class": (19.7, 0.1), "task": (93.5, None)}
    assert study.rows["small"].published == {"class": (80.0, None)}
    assert (study.spread, study.rows["small"].spread) == (Spread("std", 3), Spread("sem", 5))
    assert study.is_published
    assert (study.short_name, study.row_title("small"), study.row_title("adam")) == ("b", "Small", "Adam")
    assert study.setting("small", "task").sources["method.capacity"] == "their code"
    assert study.variants["small/larger"] == Variant(
        "small/larger", "small", ("class",), "To see.", "", {"method.capacity": 20}, {}
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sedes": 3}, "mine: key 'sedes' is unknown; did you mean seeds"),
        ({"rows": {}}, r"mine: a study needs \[rows\]"),
        ({"columns": {}}, r"mine: a study needs \[columns\]"),
        ({"baseline": "adm"}, "mine: baseline 'adm' is unknown; did you mean adam"),
        ({"columns": {"class": {"pad": 2}}}, "column class: name its scenario"),
        ({"rows": {"adam": 3}}, "mine: rows.adam: give a table, not 3"),
        ({"title": 5}, "mine: title: give text, not 5"),
        ({"columns": {"class": 5}}, "mine: columns.class: give text or a table, not 5"),
        ({"rows": {"adam": {"published": "x"}}}, "mine: rows.adam.published: give a table, not 'x'"),
        ({"rows": {"adam": {"published": {"class": "x"}}}}, "published.class: give a number or a list, not 'x'"),
        ({"rows": {"adam": {"published": {"class": ["x"]}}}}, "published.class.0: give a number, not 'x'"),
        ({"rows": {"adam": {"published": {"class": [float("nan")]}}}}, "published.class.0: give a number, not nan"),
        ({"rows": {"adam": {"published": {"class": []}}}}, "row adam: published.class is empty"),
        ({"notes": [1, 2]}, "mine: notes.0: give a table, not 1"),
        ({"notes": [{"rows": ["adam"]}]}, "mine: a note needs text"),
        ({"training": 3}, "mine: training: give a table, not 3"),
        ({"variants": {"adam/x": {"grid": {"lr": 3}}}}, "mine: variants.adam/x.grid.lr: give a table, not 3"),
        ({"band": True}, "mine: band: give a number, not True"),
        ({"rows": {"adam": {"published": {"clas": 3.0}}}}, "row adam: column 'clas' is unknown; did you mean class"),
        ({"rows": {"adam": {"at": {"task": {"lr": 3.0}}}}}, "row adam: column 'task' is unknown"),
        ({"variants": {"adm/x": {}}}, "variant adm/x: row 'adm' is unknown; did you mean adam"),
        ({"file": "none.py"}, r"mine: file none\.py does not exist"),
        ({"search": {"trails": 8}}, "mine: key of search 'trails' is unknown; did you mean trials"),
        ({"search": {"trials": 0}}, "mine: trials 0 of search: give a whole number above 0"),
        ({"search": {"select_on": "tset"}}, "mine: select_on 'tset' is unknown; did you mean test"),
        ({"spread": {"kind": "sd"}}, "mine: kind of spread 'sd' is unknown; .*choose from std, sem"),
        ({"spread": {"run": 3}}, "mine: key of spread 'run' is unknown; did you mean runs"),
        ({"spread": {"runs": 0}}, "mine: runs 0 of spread: give a whole number above 0"),
        ({"rows": {"adam": {"spread": {"kind": "sd"}}}}, "row adam: kind of spread 'sd' is unknown"),
        ({"baseline": "class"}, "mine: baseline 'class' is unknown"),  # a column, and no number is published
        ({"groups": {"All": ["adam", "adm"]}}, "mine, groups: row 'adm' is unknown; did you mean adam"),
        ({"groups": {"All": ["adam"], "More": ["adam"]}}, "mine, groups: row adam is in two groups"),
        ({"memory_rows": ["adm"]}, "mine, memory_rows: row 'adm' is unknown"),
        ({"row_titles": {"adm": "Adam"}}, "mine, row_titles: row 'adm' is unknown"),
        ({"notes": [{"text": "x", "rows": ["adm"]}]}, "mine, rows of notes: row 'adm' is unknown"),
        ({"notes": [{"text": "x", "columns": ["clas"]}]}, "mine, columns of notes: column 'clas' is unknown"),
        ({"defaults": "none"}, "mine: defaults 'none' is unknown; .*choose from named, plain"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(change, words):
    with pytest.raises(StudyError, match=words):
        read(MINE, **change)


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ('adam = {}\nsi = { coeff = 3 }', "si", "row si, column class: field of method 'coeff' is .* mean coef"),
        ('adam = {}\nsi = { training.epoch = 3 }', "si", "field of training 'epoch' is unknown; did you mean epochs"),
        ('adam = {}\nsi = { net.hiden = [3] }', "si", "field of net 'hiden' is unknown; did you mean hidden"),
        ('adam = {}\n"si+l2" = { coef = 3 }', "si+l2", "field of method 'coef' is unknown"),
        ('adam = {}\nsi = { net.name = "mpl", net.hidden = [3] }', "si", "net 'mpl' is unknown; did you mean mlp"),
    ],
)  # fmt: skip
def test_a_misspelt_field_is_refused_with_the_nearest(text, row, words):
    study = read(f'[columns]\nclass = "split-mnist/class"\n[rows]\n{text}\n')
    with pytest.raises(StudyError, match=words.replace("+", r"\+")):
        study.setting(row, "class")


def test_an_unknown_method_or_scenario_is_refused():
    study = read('[columns]\nclass = "split-mnist/clas"\n[rows]\nadam = {}\n')
    with pytest.raises(ValueError, match="did you mean split-mnist/class"):
        study.setting("adam", "class")
    study = read('[columns]\nclass = "split-mnist/class"\n[rows]\nadm = {}\n')
    with pytest.raises(ValueError, match="method 'adm' is unknown; did you mean adam"):
        study.setting("adm", "class")


def test_a_file_of_a_row_is_loaded_from_beside_the_study(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(METHODS, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    text = (
        "from dataclasses import dataclass\nimport engram as eg\n\n\n@dataclass\nclass A(eg.Method):\n    k: int = 1\n"
    )
    (tmp_path / "own_one.py").write_text(text)
    (tmp_path / "mine.toml").write_text(
        '[columns]\nclass = "split-mnist/class"\n[rows]\nown-one = { file = "own_one.py", k = 3 }\n'
        'again = { method = "own-one" }\n'
    )
    study = find_study(str(tmp_path / "mine.toml"))
    first, again = (study.setting(row, "class") for row in ("own-one", "again"))
    assert (study.name, first.value("method.k"), again.value("method.k")) == ("mine", 3, 1)
    (tmp_path / "own_one.py").write_text(text + "\n# edited\n")
    edited = find_study(str(tmp_path / "mine.toml")).setting("own-one", "class")
    assert edited != first  # own code is part of a setting
    assert edited.value("method.k") == 3


def test_rows_with_two_files_that_define_one_name_are_refused(tmp_path: Path, monkeypatch):
    """Both rows would run the same one."""
    monkeypatch.setattr(METHODS, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        text = f"import engram as eg\n\n\nclass Mine(eg.Method):\n    title = {version!r}\n"
        (tmp_path / version / "mine.py").write_text(text)
    head = '[columns]\nclass = "split-mnist/class"\n[rows]\n'
    rows = [f'{row} = {{ method = "mine", file = "{row[:2]}/mine.py" }}\n' for row in ("v1", "v1b", "v2")]
    (tmp_path / "both.toml").write_text(head + rows[0] + rows[2])
    with pytest.raises(
        StudyError, match=r"both: file .*v2/mine\.py: it defines the method mine, and so does .*v1/mine"
    ):
        find_study(str(tmp_path / "both.toml"))
    for version, own in (("v1", rows[:2]), ("v2", rows[2:])):  # each in a study of its own
        (tmp_path / "mine.toml").write_text(head + "".join(own))
        find_study(str(tmp_path / "mine.toml"))
        assert METHODS["mine"].title == version


def test_a_file_that_is_no_study_is_refused(tmp_path: Path, monkeypatch):
    file = tmp_path / "mine.toml"
    with pytest.raises(StudyError, match=r"mine\.toml does not exist"):
        find_study(str(file))
    file.write_text("title = \n")
    with pytest.raises(StudyError, match=r"mine\.toml is not TOML: .*line 1"):
        find_study(str(file))
    for number in ("[" * 3000, "9" * 5000):
        file.write_text(f"title = {number}\n")
        with pytest.raises(StudyError, match=r"mine\.toml is not TOML: "):
            find_study(str(file))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError, match=r"study mine is unknown; did you mean mine\.toml"):
        find_study("mine")
    with pytest.raises(StudyError, match="table 'tabel3' is unknown; did you mean table3"):
        find_study("tabel3")


def test_a_byte_order_mark_is_no_harm(tmp_path: Path):
    """Some editors write one."""
    file = tmp_path / "mine.toml"
    file.write_text("\ufeff" + MINE)
    assert list(find_study(str(file)).rows) == list(read(MINE).rows)


def test_a_search_is_stated_by_the_study():
    study = read(MINE, search={"trials": 8})
    assert study.search == {"trials": 8}
    assert not read(MINE).search
