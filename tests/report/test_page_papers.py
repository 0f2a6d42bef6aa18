"""The page with several papers and studies of one's own: the switch, names, cells that do not exist, comparisons."""

import pytest
from page_helpers import record
from record_helpers import records_of

from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.studies.catalog import built_in_study, find_study

MINE = """
title = "Does rehearsal help?"
baseline = "adam"
columns = { class = "split-mnist/class", task = "split-mnist/task" }
rows = { adam = {}, rehearsal = {}, der = {} }
"""


def records_of_papers():
    """Runs of one paper's Table 2 and of two rows of another's, 20 seeds long: adam at 19, 20, 21, … 28 for seeds 0 to 9."""
    given = [record("adam", seed, 19.0 + seed, published=True) for seed in range(10)]
    given += [record("rehearsal", seed, 85.0 + seed**1.5 / 7, published=True) for seed in range(8)]
    other = built_in_study("vandeven2022/table2")
    for row, start in (("adam", 19.0), ("er", 80.0)):
        values = [start + (7 * k % 10) / 3 for k in range(9)]
        given += records_of(other.setting(row, "class"), *values, start=2)
    return given


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    """All of the package, and two files of one name."""
    places = [tmp_path_factory.mktemp("one") / "table2.toml", tmp_path_factory.mktemp("other") / "table2.toml"]
    for place in places:
        place.write_text(MINE)
    return [
        *map(built_in_study, ("table2", "buzzega2020/table2", "vandeven2022/table2")),
        *map(find_study, map(str, places)),
    ]


@pytest.fixture(scope="module")
def data(studies):
    return assemble(records_of_papers(), studies=studies)


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("papers") / "report.html"
    path.write_text(html({**data, "sources": ""}), encoding="utf-8")
    return path


def test_papers_and_own_studies_have_names_of_their_own(data, studies):
    tables = {table["name"]: table for table in data["tables"]}
    assert list(tables) == ["table2", "vandeven2022/table2", "table2-2", "table2-3"]  # buzzega2020 has no runs
    assert [table["paper"] for table in tables.values()] == ["hsu2018", "vandeven2022", "own", "own"]
    assert tables["table2-2"]["command"] == f"engram study {studies[-2].path}"
    assert [(paper["name"], len(paper["missing"])) for paper in data["papers"]] == [
        ("hsu2018", 0), ("buzzega2020", 1), ("vandeven2022", 0), ("own", 0),
    ]  # fmt: skip


def test_a_study_of_one_s_own_is_shown_before_it_has_runs(studies):
    data = assemble([record("adam", scenario="split-own/class")], studies=[studies[0], studies[-1]])
    (table,) = data["tables"]
    assert (table["paper"], table["rows"][0]["cells"][0]["n"]) == ("own", 0)
    assert data["papers"][1]["missing"] == [{"title": table["title"], "command": table["command"]}]


def test_values_are_exact_and_by_seed(data):
    """What tests are made of is not rounded; the seeds 2 to 10 are named, 0 to 7 need not be."""
    values = [setting["values"] for setting in data["settings"].values()]
    assert {"of": [85.0 + seed**1.5 / 7 for seed in range(8)]} in values
    assert any(one.get("seeds") == list(range(2, 11)) for one in values)


def test_the_switch_shows_one_paper_at_a_time_by_mouse_and_keyboard(page, file):
    from selenium.webdriver.common.keys import Keys

    page.open(file)
    assert [text.split("\n")[0] for text in page.texts("[role=tab]")] == ["hsu2018", "vandeven2022", "Own studies"]
    assert page.texts("#tables caption b, #tables .grid caption")[0].startswith("Table 2: Split MNIST")
    assert "Papers without runs here: buzzega2020." in page.find("#panel").text
    page.find("[data-focus='paper hsu2018']").send_keys(Keys.ARROW_RIGHT)
    assert page.js("return document.activeElement.dataset.focus") == "paper vandeven2022"
    assert page.find("#panel").get_attribute("aria-labelledby") == "tab-vandeven2022"
    selected = "[...document.querySelectorAll('[role=tab]')].map(t => [t.getAttribute('aria-selected'), t.tabIndex])"
    assert page.js(f"return {selected}") == [["false", -1], ["true", 0], ["false", -1]]
    assert "Three types of incremental learning" in page.find("#panel").text
    assert page.texts("#claims caption") == ["What vandeven2022 concludes"]
    xdg = "[data-focus='vandeven2022/table2 xdg {}']"
    assert page.find(xdg.format(1)).get_attribute("aria-label") == "XdG, domain: no such cell"
    assert page.find(xdg.format(0)).text == "no runs"
    page.press(Keys.END)
    assert page.js("return document.querySelectorAll('#panel .grid').length") == 2
    assert page.js("return document.querySelectorAll('#claims, .tile').length") == 0
    page.open(f"{file.as_uri()}#cell/vandeven2022%2Ftable2/er/class")
    assert page.find("#details-title").text == "ER"
    assert page.js("return document.querySelector('[aria-selected=true]').id") == "tab-vandeven2022"
    assert page.driver.get_log("browser") == []
