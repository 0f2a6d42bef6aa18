"""The page in a real Chromium: from a file, with no network; sorting, filtering, details, keyboard, light and dark."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from page_helpers import HOSTILE, HOSTILE_SCENARIO, queued, record

from engram.report.page.assemble import assemble
from engram.report.page.html import html
from engram.studies.reading import read_study

SCORES = {"adam": 19.7, "sgd": 30.0, "ewc": 19.8, "online-ewc": 25.0, "rehearsal": 91.0, "offline": 97.5}
MEMORY = {"kept": {"pixels": 4_505_600}, "working": {"path": 1000}}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Six methods of Table 2 with nine seeds, rehearsal in three sizes, a search, a failure, names that are attacks."""
    given = [
        record(method, seed, score + seed / 50, published=True, memory=MEMORY if method == "rehearsal" else {})
        for method, score in SCORES.items()
        for seed in range(9)
    ]
    for size in (10, 100):
        memory = {"kept": {"pixels": 4096 * size}, "working": {}}
        given.append(record("rehearsal", 0, 40.0 + size / 10, published=True, fields={"capacity": size}, memory=memory))
    changed = {"mixing": "balanced"}
    given += [record("rehearsal", s, 80.0 + s, published=True, fields=changed) for s in range(3)]
    for coef in (1.0, 10.0, 100.0):
        trial = {"stage": "trial", "selected_on": "holdout", "point": {"coef": coef}}
        given.append(record("si", 1000, 20 + coef / 10, fields={"coef": coef}, search=trial))
    curve = [{"step": 10 * k, "task": 1 + k // 3, "current": 90.0, "first": 95.0 - k} for k in range(1, 6)]
    given += [
        record(HOSTILE, 0, 44.0, scenario=HOSTILE_SCENARIO, curve=curve, environment={"cpu": HOSTILE}, key="attack"),
        record("own", 0, status="failed", average_accuracy=None, accuracy=[], error=f"Traceback: {HOSTILE}"),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    data = assemble(given, {"attack-task-1": PIXEL, HOSTILE: PIXEL})
    path.write_text(html({**data, "sources": HOSTILE}), encoding="utf-8")
    return path


def rows(page, table="table2"):
    """The heads of a table's rows."""
    return page.texts(f"#grid-{table} tbody th")


CELL = "#grid-table2 td[data-focus='table2 {} 2']"


def test_it_loads_from_disk_without_network_or_complaint(page, file):
    page.open(file)
    assert page.driver.title == "engram report"
    assert page.texts("h2") == [
        "Tables",
        "Claims",
        "Compare",
        "Other runs",
        "Memory",
        "Sensitivity",
        "Tuning",
        "Samples",
        "Environment",
    ]
    page.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.find(CELL.format("rehearsal")).click()
    page.wait("document.querySelectorAll('#details .canvas svg').length === 3")
    assert page.driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in page.driver.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith("data:")} == {file.as_uri()}


def test_a_table_and_its_curves_say_what_stands_in(page, tmp_path):
    path = tmp_path / "report.html"
    made = [queued("si", 0.1, seed, 80.0, "long-queue-with-cyrillic-letters/task") for seed in range(2)]
    path.write_text(html(assemble(made)), encoding="utf-8")
    page.open(path)
    said = "; Cyrillic letters stand in for EMNIST letters"
    assert page.find("#main").text.count(said) == 2
    assert page.driver.get_log("browser") == []


def test_a_table_sorts_by_any_column_and_back(page, file):
    page.open(file)
    printed = rows(page)
    assert printed[:3] == ["Adam", "SGD", "Adagrad"]
    head = "#grid-table2 thead th:nth-child(4)"
    page.find(f"{head} button").click()
    assert rows(page)[:6] == ["Offline (upper bound)", "Naive rehearsal", "SGD", "Online EWC", "EWC", "Adam"]
    assert page.find(head).get_attribute("aria-sort") == "descending"
    page.find(f"{head} button").click()
    assert rows(page)[:6] == ["Adam", "EWC", "Online EWC", "SGD", "Naive rehearsal", "Offline (upper bound)"]
    page.find(f"{head} button").click()
    assert rows(page) == printed
    page.find("#grid-table2 thead th:first-child button").click()
    assert rows(page) == sorted(printed, key=str.lower)


def test_tables_filter_by_method_verdict_and_what_is_telling(page, file):
    page.open(file)
    page.find("#tables input[type=search]").send_keys("EWC")
    assert rows(page) == ["EWC", "Online EWC"]
    page.find("#tables input[type=search]").clear()
    page.press("x")
    page.find("[data-focus='verdict missing']").click()
    page.js(
        "const f = arguments[0]; f.value = ''; f.dispatchEvent(new Event('input'))",
        page.find("#tables input[type=search]"),
    )
    assert rows(page) == ["Adam", "SGD", "Naive rehearsal", "EWC", "Online EWC", "Offline (upper bound)"]
    page.find("[data-focus='verdict agrees']").click()
    assert rows(page) == ["SGD", "Online EWC"]  # 30.08 and 25.08, the paper has 19.46 and 19.77
    page.find("[data-focus='telling']").click()
    assert rows(page) == []


def test_a_cell_shows_ours_published_verdict_and_significance(page, file):
    page.open(file)
    label = page.find(CELL.format("rehearsal")).get_attribute("aria-label")
    assert label == (
        "Naive rehearsal, class: 91.08 plus or minus 0.05 of 9 runs, published 90.78, agrees with the published "
        "number, differs from adam"
    )
    assert page.find(CELL.format("sgd")).get_attribute("class") == "cell higher"
    assert page.find(CELL.format("rehearsal")).text.split() == [
        "✓",
        "91.08*",
        "±",
        "0.05",
        "paper",
        "90.78",
        "±",
        "0.85",
    ]
    page.js(
        "const s = arguments[0]; s.value = ''; s.dispatchEvent(new Event('change'))",
        page.find("[data-focus='pick against']"),
    )
    assert "*" not in page.find(CELL.format("rehearsal")).text


def test_a_click_opens_the_runs_behind_a_cell(page, file):
    page.open(file)
    page.find(CELL.format("rehearsal")).click()
    assert page.find("#details-title").text == "Naive rehearsal"
    assert "split-mnist/class" in page.find("#details .head").text
    assert page.find("#details pre").text == "engram run split-mnist/class rehearsal --seeds 9"
    facts = dict(zip(page.texts("#details dt"), page.texts("#details dd"), strict=True))
    assert facts["average accuracy"] == "91.08 ± 0.05"
    assert facts["published"] == "90.78 ± 0.85"
    assert facts["forgetting"] == "−1.08 ± 0.05"
    assert facts["kept across tasks"] == "4.51 MB"
    seeds = page.js(
        "return [...document.querySelectorAll('#details tbody tr')].map(r => [...r.cells].map(c => c.textContent))"
    )
    assert [row[:3] for row in seeds[:2]] == [["0", "91.00", "−1.00"], ["1", "91.02", "−1.02"]]
    page.wait("document.querySelectorAll('#details rect title').length")
    hints = "[...document.querySelectorAll('#details rect title')].map(t => t.textContent)"
    assert page.js(f"return {hints}")[-3:] == [
        "task 1 after task 1: 90.00 %", "task 1 after task 2: 91.08 %", "task 2 after task 2: 91.08 %",
    ]  # fmt: skip
    page.js("const s = arguments[0]; s.value = '5'; s.dispatchEvent(new Event('change'))", page.find("#details select"))
    page.wait(f"{hints}.at(-1) === 'task 2 after task 2: 91.10 %'")
    assert "this is higher" in page.find("#details").text


def test_a_cell_of_the_long_queue_shows_the_runs_after_its_task(page, file, tmp_path):
    """Two tasks of 90, then 78 of 60 or 70: after task 11 the mean of the runs is 65."""
    accuracy = [[[90.0] * (i + 1) if i < 2 else [end] * (i + 1) for i in range(78)] for end in (60.0, 70.0)]
    given = [record("adam", s, scenario="long-queue/task", accuracy=accuracy[s], published=True) for s in range(2)]
    queue = tmp_path / "queue.html"
    queue.write_text(html({**assemble(given), "sources": ""}), encoding="utf-8")
    page.open(f"{queue.as_uri()}#cell/table5/11/adam")
    page.wait("document.querySelectorAll('#details .canvas svg').length === 3")
    assert (
        page.js("return document.querySelectorAll('#details .canvas')[1].querySelectorAll('rect title').length") == 3081
    )
    strip = page.find("#details .canvas svg").get_attribute("aria-label")
    assert strip == "The runs after task 11. Average accuracy of 2 runs: 60.00, 70.00."
    assert rows(page, "table5") == ["1", "11", "21", "31", "41", "51", "61", "71", "78"]
    assert page.driver.get_log("browser") == []


def test_a_cell_without_runs_says_how_to_make_them(page, file):
    page.open(file)
    page.find(CELL.format("mas")).click()
    assert page.find("#details pre").text == "engram reproduce table2 --rows mas --columns class"


def test_a_variant_stands_under_its_table_beside_its_row(page, file):
    """Over the common seeds 0, 1 and 2 the row has 91.02, the variant 81."""
    page.open(file)
    assert page.texts("#grid-table2-variants tbody tr > *") == [
        "rehearsal/half-and-half", "class", "81.00 ± 0.82", "91.08", "−10.02", "–",
    ]  # fmt: skip
    page.find("#grid-table2-variants td").click()
    assert page.find("#details-title").text == "Naive rehearsal (mixing balanced)"
    assert "The variant follows the text: 64 and 64." in page.find("#details").text


def test_claims_are_told_comparison_by_comparison(page, file):
    page.open(file)
    first = page.find("#claims tbody tr")
    assert first.text.startswith("1. Adagrad and L2 do better than online EWC")
    page.find("#claims summary").click()
    parts = page.texts("#claims tbody tr:first-child li")
    assert len(parts) == 12
    assert parts[0].startswith("table2 task: adagrad − online-ewc above 0")
    assert "ours undecided, missing" in " ".join(parts[0].split())


def test_the_keyboard_is_enough(page, file):
    from selenium.webdriver.common.keys import Keys

    page.open(file)
    focus = "document.activeElement.dataset.focus"
    page.js("document.querySelector('#grid-table2 td').focus()")
    page.press(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.js(f"return {focus}") == "table2 sgd 2"
    assert page.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press(Keys.ENTER)
    assert page.find("#details-title").text == "SGD"
    assert page.js("return document.activeElement.closest('dialog') !== null")
    page.press(Keys.ESCAPE)
    page.wait("!document.getElementById('details').open")
    assert page.js(f"return {focus}") == "table2 sgd 2"
    page.press(Keys.HOME)
    assert page.js(f"return {focus}") == "table2 sgd 0"
    page.press(Keys.ARROW_UP, Keys.ARROW_UP, Keys.ENTER)
    assert page.js(f"return {focus}") == "table2 sort 1"
    assert page.find("#grid-table2 thead th:nth-child(2)").get_attribute("aria-sort") == "descending"


def test_an_address_opens_what_it_names(page, file):
    page.open(f"{file.as_uri()}#cell/table2/ewc/class")
    assert page.find("#details-title").text == "EWC"


def test_names_that_are_markup_are_shown_as_text(page, file):
    page.open(file)
    assert HOSTILE in rows(page, "own")
    assert HOSTILE_SCENARIO in page.texts("#grid-own td")
    page.js(
        "[...document.querySelectorAll('#grid-own th')].find(h => h.textContent === arguments[0]).nextSibling.click()",
        HOSTILE,
    )
    assert page.find("#details-title").text == HOSTILE
    assert page.find("#details pre").text.startswith(
        f"engram run '{HOSTILE_SCENARIO}' ".replace("'hacked'", "'\"'\"'hacked'\"'\"'")
    )
    page.wait("document.querySelectorAll('#details .canvas svg').length === 4")  # runs, matrix, curves, within tasks
    assert page.driver.title == "engram report"
    assert page.js("return document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
    assert page.js("return document.scripts.length") == 2
    assert page.driver.get_log("browser") == []


def test_runs_outside_the_tables_filter_and_show_why_they_failed(page, file):
    page.open(file)
    page.find("#own input[type=search]").send_keys("own")
    assert rows(page, "own") == ["own"]
    page.find("#grid-own td").click()
    page.find("#details details:last-of-type summary").click()
    assert f"Traceback: {HOSTILE}" in page.find("#details").text


def test_runs_outside_the_tables_make_a_table_by_scenario(page, file):
    page.open(file)
    choose = "const s = arguments[0]; s.value = 'table'; s.dispatchEvent(new Event('change'))"
    page.js(choose, page.find("[data-focus='pick own']"))
    assert page.texts("#grid-own thead th") == ["setting", "split-mnist/class", HOSTILE_SCENARIO]
    name = "Naive rehearsal (capacity 10)"
    assert page.find(f"[data-focus='own {name} 0']").get_attribute("aria-label") == (
        f"{name}, split-mnist/class: 41.00, 1 run"
    )
    assert page.find(f"[data-focus='own {name} 1']").text == "–"
    page.find(f"[data-focus='own {name} 0']").click()
    assert page.find("#details-title").text == name


def test_the_memory_picture_says_its_numbers(page, file):
    page.open(file)
    words = page.find("#memory .canvas svg").get_attribute("aria-label")
    assert "Naive rehearsal (capacity 10) 41.00 percent with 41 kB" in words
    assert "Adam 19.78 percent with 0 B" in words
    dots = page.js("""return [...document.querySelectorAll('#memory figure:first-of-type [role=button]')].map(
        dot => [dot.getAttribute('aria-label'), Number(dot.getAttribute('cx'))])""")
    across = dict(dots)
    small, large = (next(x for text, x in across.items() if f"capacity {size})" in text) for size in (10, 100))
    assert small < large < across["Naive rehearsal: 91.08 with 4.51 MB"]


def test_every_picture_has_words(page, file):
    page.open(file)
    for text in page.js(
        "return [...document.querySelectorAll('.canvas > svg')].map(s => s.getAttribute('aria-label'))"
    ):
        assert any(sign.isdigit() for sign in text)
    assert all(page.js("return [...document.images].map(image => image.alt)"))


def test_a_figure_is_saved_as_svg_that_stands_alone(page, file, tmp_path):
    page.open(file, dark=True)
    page.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.js("document.querySelector('#memory figcaption button').click()")
    saved = tmp_path / "accuracy-against-kept-bytes-split-mnist-class.svg"
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(page.driver, 20, poll_frequency=0.05).until(lambda _: saved.exists())
    root = ElementTree.fromstring(saved.read_text(encoding="utf-8"))
    texts = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Adam, EWC", "100 kB", "bytes kept across tasks"} <= texts
    fills = {node.get("fill") for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert fills == {"rgb(27, 31, 36)", "rgb(89, 98, 109)"}  # light, whatever the page is
    assert not [node for node in root.iter() if node.get("class")]


CONTRAST = """
const lum = c => c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
const rgba = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
const ground = node => {
  for (let at = node; at; at = at.parentElement) {
    const c = rgba(getComputedStyle(at).backgroundColor);
    if (c.length === 3 || c[3] === 1) return c.slice(0, 3);
  }
};
const found = [];
for (const node of document.querySelectorAll('main *, header *, footer')) {
  const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
  const other = node.closest('title, desc, option, .aside') || node.matches('.on-light, .on-dark');
  if (!own || other || !node.getClientRects().length) continue;
  const style = getComputedStyle(node), ink = rgba(node.closest('svg') ? style.fill : style.color).slice(0, 3);
  const [a, b] = [lum(ink), lum(ground(node))].sort((x, y) => y - x);
  found.push([(a + .05) / (b + .05), node.textContent.slice(0, 40)]);
}
return found.sort((x, y) => x[0] - y[0]);
"""


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_follow_the_system_and_can_be_switched(page, file, dark):
    """Text of all kinds has a contrast of 4.5 or more, as WCAG's AA asks."""
    page.open(file, dark=dark)
    ground = "getComputedStyle(document.body).backgroundColor"
    colours = {False: "rgb(247, 248, 249)", True: "rgb(17, 20, 24)"}
    assert page.js(f"return {ground}") == colours[dark]
    least = page.js(CONTRAST)
    assert len(least) > 100
    assert least[0][0] >= 4.5, least[:5]
    page.find("#theme").click()
    assert page.js(f"return {ground}") == colours[not dark]


def test_a_phone_shows_it_without_scrolling_sideways(page, file):
    page.open(file, width=390, height=800)
    wide = "document.documentElement.scrollWidth"
    assert page.js(f"return {wide}") == 390
    right = "document.querySelector('#grid-table2 td:last-child').getBoundingClientRect().right"
    assert page.js(f"return {right}") <= 390
    page.js("document.querySelector(arguments[0]).click()", CELL.format("rehearsal"))
    page.wait("document.querySelectorAll('#details .canvas svg').length === 3")
    assert page.js("const d = document.getElementById('details'); return [d.clientWidth, d.scrollWidth]") == [390, 390]


@pytest.mark.parametrize("width", [390, 1400])
def test_what_matters_is_in_sight_without_scrolling_a_table(page, file, width):
    """Claims: the outcome in our runs. Runs outside the tables: scenario and accuracy."""
    page.open(file, width=width, height=900)
    ends = "[...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect().right)"
    for cells in ("#claims td:last-child", "#grid-own td:nth-of-type(1)", "#grid-own td:nth-of-type(2)"):
        found = page.js(f"return {ends}", cells)
        assert found
        assert max(found) <= width, cells
    assert page.texts("#grid-own thead th")[:3] == ["setting", "scenario", "accuracy"]


def test_strange_records_do_not_break_the_page(page, tmp_path):
    """What files may hold: no numbers, bytes below zero, lists for objects (all left out), short rows, no names."""
    strange = [
        record("a", accuracy=[[math.nan], [50.0]]),
        record("a", accuracy=[[1.0], [50.0]]),
        record("b", accuracy=[[]], curve=[{"step": 1}, {}]),
        record("c", accuracy=[[90.0]], memory={"kept": {"x": -5}, "other": {"y": 2}}),
        record("d", spec={"seed": 0, "method": [{}], "scenario": [1]}, scenario="nothing/like it"),
        record("d", spec={"seed": 0, "method": [{}], "scenario": {}}, scenario="nothing/like it"),
        record("e", fields={"coef": -1.0}), record("e", fields={"coef": 1.0}, score=-20.0),
    ]  # fmt: skip
    path = tmp_path / "strange.html"
    data = assemble(strange)
    assert (data["records"], data["skipped"]) == (4, 4)
    path.write_text(html({**data, "sources": ""}), encoding="utf-8")
    page.open(path)
    for i in range(4):
        page.js("document.querySelectorAll('#grid-own tbody tr')[arguments[0]].cells[1].click()", i)
        page.wait("document.querySelector('#details .canvas svg')")
        page.js("document.getElementById('details').close()")
    assert page.driver.get_log("browser") == []


def test_without_records_the_page_says_so(page, tmp_path):
    empty = Path(tmp_path) / "empty.html"
    empty.write_text(html({**assemble([]), "sources": "nothing"}), encoding="utf-8")
    page.open(empty)
    assert page.find("h1").text == "No records yet"
    assert page.driver.get_log("browser") == []


def test_a_study_of_one_s_own_shows_n_and_p(page, tmp_path):
    """Nine pairs, all of one sign: p = 2/512."""
    given = [record(m, s, a + s, published=True) for m, a in (("adam", 20.0), ("si", 30.0)) for s in range(9)]
    columns, own = {"class": "split-mnist/class"}, {"adam": {}, "si": {}, "mas": {}}
    study = read_study({"title": HOSTILE, "baseline": "adam", "columns": columns, "rows": own}, "mine")
    path = tmp_path / "own.html"
    path.write_text(html({**assemble(given, studies=[study]), "sources": ""}), encoding="utf-8")
    page.open(path)
    assert rows(page, "mine") == ["Adam", "SI", "MAS"]
    assert page.texts("#grid-mine td")[1].split() == ["34.00*", "±", "2.58", "n", "=", "9,", "p", "0.0039"]
    assert HOSTILE in page.find("#grid-mine caption").text
    assert page.js("return document.querySelectorAll('[data-focus^=verdict], .tile').length") == 0
    page.find("#grid-mine td[data-focus='mine si 0']").click()
    facts = dict(zip(page.texts("#details dt"), page.texts("#details dd"), strict=True))
    assert facts["against the baseline"] == "+10.00, p 0.0039"
    page.js("document.getElementById('details').close()")
    page.find("#grid-mine td[data-focus='mine mas 0']").click()
    assert page.find("#details pre").text == "engram study mine.toml --rows mas --columns class"
    assert page.driver.get_log("browser") == []
