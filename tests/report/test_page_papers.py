"""The page with several papers and studies of one's own: the switch, names, cells that do not exist, comparisons."""

import random

import pytest
from page_helpers import record
from record_helpers import records_of

from engram.analysis.statistics import correct_tests, paired_interval, paired_test
from engram.report.page.assemble import assemble
from engram.report.page.html import asset, html
from engram.studies.catalog import built_in_study, find_study

MINE = """
title = "Does rehearsal help?"
baseline = "adam"
columns = { class = "split-mnist/class", task = "split-mnist/task" }
rows = { adam = {}, rehearsal = {}, der = {} }
"""


def records_of_papers():
    """Two rows of one paper with 10 and 8 seeds from 0 on, and two of another with 9 seeds from 2 on."""
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


def test_the_page_s_statistics_are_those_of_the_package(page):
    """Exact up to 20 pairs, with ties, zeros and equal sums; beyond, drawn by another generator."""
    rng = random.Random(0)
    pairs = [([50.0] * n, [50.0 + rng.choice((-0.02, 0.0, 0.01, 0.02, 0.37)) for _ in range(n)]) for n in range(1, 15)]
    pairs += [([rng.gauss(60, 3) for _ in range(n)], [rng.gauss(61, 2) for _ in range(n)]) for n in (2, 5, 6, 9, 20)]
    pairs += [([1.0, 2.0], [1.0, 2.0])]
    page.driver.get("about:blank")
    code = (
        asset("paired.js")
        + """
        const tests = arguments[0].map(([a, b]) => pairedDifferences({ of: a }, { of: b }).differences)
            .map(d => ({ ...pairedTest(d), interval: pairedInterval(d) }));
        return correctTests(tests).map(t => [t.difference, t.n, t.p, t.adjusted ?? null, t.interval, pairedWord(t)]);"""
    )
    found = page.js(code, pairs)
    for (difference, n, p, adjusted, interval, word), test, (a, b) in zip(
        found, correct_tests([paired_test(a, b) for a, b in pairs]), pairs, strict=True
    ):
        assert (n, p) == (test.n, test.p)  # shares of counts
        assert adjusted == (None if test.adjusted is None else pytest.approx(test.adjusted, rel=1e-12))
        assert difference == pytest.approx(test.difference, abs=1e-9)
        assert interval == (None if (known := paired_interval(a, b)) is None else pytest.approx(known, abs=1e-9))
        assert word == test.word or (word, test.word[:13]) == ("too few pairs to tell", "too few pairs")
    many = [rng.gauss(60, 3) for _ in range(50)], [rng.gauss(61, 3) for _ in range(50)]
    ((difference, n, p, _, interval, _),) = page.js(code, [many])
    test = paired_test(*many)
    assert (n, p) == (50, pytest.approx(test.p, abs=0.006))  # four standard errors of 100,000 patterns
    assert interval == pytest.approx(paired_interval(*many), abs=0.05)


def test_any_two_rows_are_compared_over_common_seeds(page, file):
    """Rehearsal minus Adam over seeds 0 to 7; across papers over the seeds 2 to 9, which both have."""
    page.open(f"{file.as_uri()}#compare/table2/adam/table2/rehearsal")
    a, b = [19.0 + seed for seed in range(10)], [85.0 + seed**1.5 / 7 for seed in range(8)]
    test, (low, high) = paired_test(a[:8], b), paired_interval(a[:8], b)
    assert page.texts("#compare tbody tr:first-child > *")[:6] == [
        "class", f"+{test.difference:.2f}", f"+{low:.2f} to +{high:.2f}", "8", "0.0078", "higher",
    ]  # fmt: skip
    assert page.texts("#compare caption") == ["Naive rehearsal minus Adam"]
    page.wait("document.querySelectorAll('#compare .canvas circle').length === 9")  # 8 pairs and their mean
    assert f"mean +{test.difference:.2f} of 8 pairs" in page.find("#compare .canvas svg").get_attribute("aria-label")
    page.find("#compare [data-focus='swap rows']").click()
    assert page.texts("#compare tbody tr:first-child > *")[5] == "lower"
    assert page.js("return location.hash") == "#compare/table2/rehearsal/table2/adam"
    choose = "const s = arguments[0]; s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
    page.js(choose, page.find("#compare [data-focus='pick other']"), '["vandeven2022/table2","er"]')
    assert page.texts("#compare tbody tr:first-child > *")[3] == "6"  # seeds 2 to 7
    assert "split-mnist/class | split-mnist/class-known" in page.find("#compare").text
    assert page.driver.get_log("browser") == []


def test_a_table_shows_any_metric_of_its_runs(page, file):
    """90 on the first task when it is learned, 19 to 28 at the end: forgetting is 90 − 23.5 on average."""
    page.open(f"{file.as_uri()}#paper/own")
    choose = "const s = arguments[0]; s.value = arguments[1]; s.dispatchEvent(new Event('change'))"
    assert page.find("[data-focus='table2-2 der 0']").text == "no runs"
    page.js(choose, page.find("[data-focus='pick measure']"), "forgetting")
    adam = page.find("[data-focus='table2-2 adam 0']")
    assert adam.get_attribute("aria-label") == "Adam, class: forgetting 66.5 ± 2.872, 10 runs"
    assert page.texts("#grid-table2-2 caption") == ["Table 2: Does rehearsal help? forgetting"]
    page.js(choose, page.find("[data-focus='pick measure']"), "")
    assert page.find("[data-focus='table2-2 rehearsal 0']").text.endswith("n = 8, p 0.0078")


def test_a_phone_shows_papers_own_studies_and_comparisons_without_scrolling_sideways(page, file):
    wide = "document.documentElement.scrollWidth"
    for place in ("#paper/own", "#paper/vandeven2022", "#compare/table2/adam/table2-2/rehearsal"):
        page.open(f"{file.as_uri()}{place}", width=390, height=800)
        page.wait("document.querySelectorAll('#compare .canvas svg').length === 1")
        assert page.js(f"return {wide}") == 390
        ends = "[...document.querySelectorAll('[role=tab], .rows select')].map(e => e.getBoundingClientRect().right)"
        assert max(page.js(f"return {ends}")) <= 390
    page.open(f"{file.as_uri()}#cell/table2-3/rehearsal/class", width=390, height=800)
    page.wait("document.querySelectorAll('#details .canvas svg').length")
    assert page.js("const d = document.getElementById('details'); return d.scrollWidth") == 390
    assert page.driver.get_log("browser") == []


def test_the_switch_takes_one_line_on_a_desktop(page, studies, tmp_path):
    bridge = find_study("bridge")
    given = [*records_of_papers(), *records_of(bridge.setting("adam/hsu2018", "task"), 90.0, 91.0)]
    path = tmp_path / "report.html"
    path.write_text(html({**assemble(given, studies=[*studies, bridge]), "sources": ""}), encoding="utf-8")
    page.open(path, width=900)
    tops = page.js("return [...document.querySelectorAll('[role=tab]')].map(e => e.getBoundingClientRect().top)")
    assert (len(tops), len(set(tops))) == (4, 1)


def test_a_comparison_on_a_phone_shows_p_without_scrolling(page, file):
    page.open(f"{file.as_uri()}#compare/table2/adam/table2/rehearsal", width=390, height=800)
    page.wait("document.querySelectorAll('#compare .canvas svg').length === 1")
    ends = "[...document.querySelectorAll('#compare table.plain thead th')].map(e => e.getBoundingClientRect().right)"
    assert page.js(f"return {ends}")[4] <= 390  # column, difference, interval, pairs, p


def test_the_tab_key_reaches_every_part(page, file):
    """From the top to the comparison: switch, filters, a table's one stop, rows to compare; focus is always visible."""
    from selenium.webdriver.common.keys import Keys

    page.open(file)
    reached, seen = (
        [],
        "[document.activeElement.dataset.focus ?? '', getComputedStyle(document.activeElement).outlineStyle]",
    )
    for _ in range(60):
        page.press(Keys.TAB)
        name, outline = page.js(f"return {seen}")
        reached.append(name)
        assert outline == "solid" or page.js("return document.activeElement.id") in ("main", ""), name
        if name == "swap rows":
            break
    wanted = ["paper hsu2018", "search studies", "verdict agrees", "telling", "pick against", "pick measure",
              "table2 sort 0", "table2 adam 0", "pick one", "pick other", "swap rows"]  # fmt: skip
    assert [name for name in reached if name in wanted] == wanted
