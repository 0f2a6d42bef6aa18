"""Figures say what the records say, can be read, and are the same bytes every time."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from setting_records import run_of

import engram as eg
from engram.core.registry import FIGURES, METHODS
from engram.report import schematics
from engram.report.curves import Curves, stability_gap, tasks_learned
from engram.report.figures import Bars, MatrixFigure
from engram.report.memory import Memory
from engram.report.style import GREY, PALETTE, SUFFIXES, FigureRecipe, look, save
from engram.runs.defaults import default_setting
from engram.runs.records import Record

MATRICES = {
    "adam": [[[100.0], [20.0, 90.0], [0.0, 10.0, 98.0]], [[90.0], [40.0, 92.0], [0.0, 30.0, 94.0]]],
    "rehearsal": [[[100.0], [96.0, 90.0], [91.0, 85.0, 98.0]]],
    "offline": [[[97.0, 95.0, 99.0]]],
}
SPLIT = default_setting("split-mnist/class", "adam")
KEPT = {"adam": 0, "rehearsal": 1000, "offline": 0}


def record(method: str, seed: int, accuracy: list[list[float]], **other: object) -> Record:
    mean = sum(accuracy[-1]) / len(accuracy[-1])
    values = {"memory": {"kept": {"buffer": KEPT.get(method, 0)}, "working": {}}, **other}
    setting = SPLIT if method not in METHODS else default_setting("split-mnist/class", method)
    return run_of(setting, seed, mean, accuracy=accuracy, **{"method": method} | values)


@pytest.fixture
def records() -> list[Record]:
    return [record(m, seed, a) for m, runs in MATRICES.items() for seed, a in enumerate(runs)]


def with_curve() -> Record:
    """Two tasks of 40 steps; the first task falls from 100 to 30 and comes back to 80."""
    looks = [(10, 1, 90, 90), (40, 1, 100, 100), (50, 2, 30, 50), (60, 2, 60, 80), (80, 2, 80, 95)]
    curve = [{"step": s, "task": t, "first": f, "current": c} for s, t, f, c in looks]
    return record("si", 0, [[100.0], [80.0, 95.0]], curve=curve)


def texts(fig: Figure) -> list[Text]:
    """What can be read: not the labels of ticks beyond the ends of an axis, nor those of hidden panels."""
    fig.draw_without_rendering()
    unseen = set()
    for ax in fig.findobj(Axes):
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            unseen |= {id(text) for tick in beyond for text in tick.findobj(Text)}
        if not ax.get_visible():
            unseen |= {id(text) for text in ax.findobj(Text)}
    return [t for t in fig.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in unseen]


def check_readable(fig: Figure) -> None:
    """No letters under 8 points, none over others or outside the picture, no legend over a panel."""
    found = texts(fig)
    assert found
    assert min(text.get_fontsize() for text in found) >= 8
    width, height = fig.canvas.get_width_height()
    boxes = [(text.get_text(), text.get_window_extent()) for text in found]
    for text, box in boxes:
        assert box.x0 >= -1, text
        assert box.y0 >= -1, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text
    for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
        across = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
        along = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
        assert across <= 1 or along <= 1, f"{text!r} runs into {other!r}"
    for legend in fig.legends:
        assert not any(legend.get_window_extent().overlaps(ax.get_window_extent()) for ax in fig.axes)


def test_no_two_methods_look_alike_and_all_colours_are_safe():
    looks = [(look(name).color, look(name).marker, look(name).dash) for name in METHODS.built_in]
    assert len(set(looks)) == len(looks)
    assert all("look" in METHODS.facts(name).literals for name in METHODS.built_in)
    assert {color for color, _, _ in looks} <= {*PALETTE, GREY}
    assert look("my-own") == look("my-own")
    assert look("rehearsal+si").label == "Naive rehearsal + SI"


def test_matrices_show_the_mean_over_seeds(records):
    fig = MatrixFigure().draw(records)
    assert fig.get_suptitle() == "split-mnist/class"
    check_readable(fig)
    adam, rehearsal = (ax for ax in fig.axes if ax.images)  # offline has no matrix
    assert adam.get_title() == "Adam (n=2)"
    assert [t.get_text() for t in adam.texts] == ["95", "30", "91", "0", "20", "96"]
    np.testing.assert_allclose(np.tril(rehearsal.images[0].get_array()), np.tril(np.array(
        [[100, 0, 0], [96, 90, 0], [91, 85, 98]])))  # fmt: skip


def test_a_method_and_seeds_can_be_asked_for(records):
    fig = MatrixFigure(methods=("adam",), seeds=(1,)).draw(records)
    assert [t.get_text() for t in fig.axes[0].texts] == ["90", "40", "92", "0", "30", "94"]
    with pytest.raises(ValueError, match=r"no finished records of ewc in split-mnist/class; there are: adam, offline"):
        MatrixFigure(methods=("ewc",)).draw(records)
    with pytest.raises(ValueError, match=r"no finished records of split-mnist/class with seeds 7"):
        MatrixFigure(seeds=(7,)).draw(records)


def test_trials_on_held_out_images_are_not_shown(records):
    trial = record("adam", 1000, [[1.0], [2.0, 3.0], [4.0, 5.0, 6.0]])
    trial.spec["scenario"]["held_out"] = 0.1
    fig = MatrixFigure(methods=("adam",)).draw([*records, trial])
    assert fig.axes[0].get_title() == "Adam (n=2)"


def test_trials_on_test_images_are_not_shown_either(records):
    trial = record("adam", 1000, [[1.0], [2.0, 3.0], [4.0, 5.0, 6.0]], search={"stage": "trial"})
    assert MatrixFigure(methods=("adam",)).draw([*records, trial]).axes[0].get_title() == "Adam (n=2)"


@pytest.mark.parametrize("figure", [MatrixFigure, Curves])
def test_runs_of_several_settings_are_not_averaged(figure):
    """Seeds 0 and 1 of one coefficient and seed 2 of another are not three runs of anything."""
    runs = [record("si", seed, [[100.0], [80.0, 95.0]]) for seed in range(3)]
    for run in runs:
        run.spec["method"][0]["coef"] = 1.0 + (run.seed == 2)
        run.spec["threads"] = run.seed
    with pytest.raises(ValueError, match=r"runs of si in split-mnist/class have 2 settings.* method\.coef; name other"):
        figure().draw(runs)
    adam = record("adam", 0, [[100.0], [80.0, 95.0]])
    assert figure(methods=("adam",)).draw([*runs, adam])  # nobody asked for the others
    assert figure().draw(runs[:2])


def test_evaluations_after_different_steps_are_not_averaged():
    other = with_curve()
    other.seed = 1
    other.curve = other.curve[1:]
    with pytest.raises(ValueError, match="after different steps"):
        Curves(within=True).draw([with_curve(), other])
    assert Curves(within=True, seeds=(1,)).draw([with_curve(), other])


def test_curves_are_average_accuracies_over_seen_tasks(records):
    fig = Curves().draw(records)
    check_readable(fig)
    lines = {line.get_label(): line.get_ydata() for line in fig.axes[0].lines}
    np.testing.assert_allclose(lines["Adam"], [95, 60.5, (36 + 124 / 3) / 2])
    np.testing.assert_allclose(lines["Offline"], [97, 97])


def test_offline_alone_is_a_level_over_its_tasks(records):
    (ax,) = Curves(methods=("offline",)).draw(records).axes
    assert ax.get_lines()[0].get_ydata()[0] == 97.0
    assert ax.get_xticks().tolist() == [1, 2, 3]


@pytest.mark.parametrize("figure", [MatrixFigure, Curves])
def test_runs_with_other_numbers_of_tasks_are_not_averaged(records, figure):
    other = record("adam", 2, [[90.0], [50.0, 80.0]])
    with pytest.raises(ValueError, match="runs of adam in split-mnist/class have 2 and 3 tasks; choose by --seeds"):
        figure().draw([*records, other])
    assert figure(seeds=(2,)).draw([*records, other]).axes


def test_the_stability_gap_is_the_fall_below_both_ends():
    assert stability_gap(with_curve()) == 80 - 30
    assert tasks_learned(with_curve()) == [0.25, 1.0, 1.25, 1.5, 2.0]
    fig = Curves(within=True).draw([with_curve()])
    check_readable(fig)
    assert fig.axes[0].lines[0].get_ydata().tolist() == [90, 100, 30, 60, 80]
    assert fig.axes[0].lines[0].get_label() == "SI (gap 50.0)"
    with pytest.raises(ValueError, match="--evaluate-every"):
        Curves(within=True).draw([record("si", 0, [[100.0], [80.0, 95.0]])])


def test_bars_are_ours_and_diamonds_are_published(records):
    fig = Bars(columns=("class",)).draw(records)
    check_readable(fig)
    bars = [patch.get_width() for patch in fig.axes[0].patches if isinstance(patch, Rectangle) and patch.get_width()]
    assert bars == pytest.approx([(36 + 124 / 3) / 2, 274 / 3, 97])
    diamonds = [c.lines[0] for c in fig.axes[0].containers if isinstance(c, ErrorbarContainer) and c.lines[0]]
    assert {line.get_marker() for line in diamonds} == {"d"}
    assert [float(line.get_xdata()[0]) for line in diamonds][:2] == [19.71, 19.46]  # Adam and SGD
    with pytest.raises(ValueError, match="'table9' is unknown"):
        Bars(table="table9").draw(records)


def test_memory_joins_the_sizes_of_a_buffer(records):
    large = record("rehearsal", 0, [[100.0], [96.0, 98.0]], memory={"kept": {"buffer": 9000}, "working": {}})
    large.spec["method"][0]["capacity"] = 9
    fig = Memory().draw([*records, large])
    check_readable(fig)
    buffer = next(c for c in fig.axes[0].containers if c.get_label() == "Naive rehearsal").lines[0]
    assert buffer.get_xdata().tolist() == [1000, 9000]
    np.testing.assert_allclose(np.asarray(buffer.get_ydata(), float), [274 / 3, 97])
    assert buffer.get_linestyle() == "-"


@pytest.fixture
def own_images(monkeypatch):
    """Four classes of 4 × 4 pixels, of 5, 10, 15 and 10 training images, by the names of MNIST's scenarios."""
    y = np.repeat(np.arange(4), [5, 10, 15, 10])
    x = np.full((len(y), 4, 4), 10 * y[:, None, None], np.uint8)
    images = eg.Images(x, y, x, y, name="mnist")
    makers = {"split": eg.split, "permuted": eg.permute}

    def scenario(name: str):
        maker, _, kind = name.partition("-mnist/")
        return makers[maker](images, kind=kind)

    monkeypatch.setattr(schematics, "scenario", scenario)


def test_schematics_show_label_frequencies_over_the_outputs(own_images):
    fig = schematics.draw_kinds([f"split-mnist/{kind}" for kind in ("task", "domain", "class")], tasks=5, samples=2)
    check_readable(fig)
    plots = [ax for ax in fig.findobj(Axes) if ax.containers]
    heights = [[round(float(bar.get_height()), 4) for bar in ax.containers[0]] for ax in plots]
    assert heights[:2] == [[0.3333, 0.6667, 0, 0], [0, 0, 0.6, 0.4]]  # a head for each task
    assert heights[2:4] == [[0.3333, 0.6667], [0.6, 0.4]]  # one head
    assert heights[4:] == heights[:2]  # outputs of their own
    labels = [t.get_text() for t in texts(fig)]
    assert labels.count("y=0, t=2") == 2  # in task and in domain learning
    assert labels.count("y=2, t=2") == 1
    colors = [to_hex(bar.get_facecolor()).upper() for bar in plots[0].containers[0]]
    assert colors == list(PALETTE[:4])


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
def test_a_schematic_of_every_kind_is_readable(own_images, kind):
    check_readable(schematics.ScenarioFigure(f"permuted-mnist/{kind}", tasks=3).draw([]))


def test_long_sequences_show_the_first_tasks_and_the_last():
    assert schematics.first_and_last(78, 5) == [0, 1, 2, 3, 77]
    assert schematics.first_and_last(5, 5) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_saved_figure_is_the_same_bytes_every_time(records, tmp_path, suffix):
    first, second = (save(Curves().draw(records), tmp_path / f"{n}{suffix}").read_bytes() for n in (1, 2))
    assert first == second
    assert len(first) > 5000
    with pytest.raises(ValueError, match=r"suffix '.gif' is unknown; choose from .png, .svg, .pdf, .html"):
        save(Figure(), tmp_path / "x.gif")


def test_the_page_loads_nothing_and_shows_names_as_text(records, tmp_path):
    hostile = "<script>alert(1)</script>@svg@"
    page = save(Curves().draw([*records, record(hostile, 0, [[1.0], [2.0, 3.0]])]), tmp_path / "x.html").read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;@svg@" in page
    assert page.count("<svg") == 1
    links = set(re.findall(r"https?://[^\"' )<]+", page))
    assert {link.split("/")[2] for link in links} <= {"www.w3.org", "purl.org", "creativecommons.org"}  # namespaces
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    adam = [p["value"] for p in data["points"] if p["curve"] == "Adam"]
    assert adam == ["95.00", "60.50", "38.67"]


def test_what_can_be_pointed_at_lies_where_it_is_drawn(records, tmp_path):
    for fig, expected in (
        (Bars(rows=("sgd", "rehearsal")).draw(records), {("task", "SGD", "97.98")}),
        (Bars(rows=("rehearsal",)).draw(records), {("class", "Naive rehearsal", "91.33")}),
        (Memory().draw(records), {("split-mnist/class", "nothing", "38.67")}),
        (MatrixFigure(methods=("rehearsal",)).draw(records), {("Naive rehearsal", "row 3, column 1", "91.00")}),
    ):  # fmt: skip
        page = save(fig, tmp_path / "x.html").read_text()
        points = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["points"]
        width, height = (float(v) for v in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', page).groups())
        assert all(0 < p["x"] < width and 0 < p["y"] < height for p in points)
        assert expected <= {(p["panel"], p["at"], p["value"]) for p in points}


@pytest.mark.slow
def test_curves_switch_off_and_values_show_in_a_browser(records, tmp_path):
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    page = save(Curves().draw(records), tmp_path / "curves.html")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1000,700"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        browser.get(page.as_uri())
        entries = {e.get_attribute("aria-label"): e for e in browser.find_elements(By.CSS_SELECTOR, ".entry")}
        assert set(entries) == {"Adam", "Naive rehearsal", "Offline"}
        names = json.loads(browser.find_element(By.ID, "data").get_attribute("textContent"))["curves"]
        assert len(names["Adam"]) == 2  # the curve, and the band of its standard deviation
        curve, band = (browser.find_element(By.ID, name) for name in names["Adam"])
        assert curve.is_displayed()
        entries["Adam"].click()
        assert not curve.is_displayed()
        assert not band.is_displayed()
        assert entries["Adam"].get_attribute("aria-checked") == "false"
        entries["Adam"].send_keys("\n")
        assert curve.is_displayed()
        at = browser.execute_script(
            "const p = data.points.find(p => p.curve === 'Adam' && p.at === '2');"
            "const s = new DOMPoint(p.x, p.y).matrixTransform(svg.getScreenCTM()); return [s.x, s.y];"
        )
        ActionChains(browser).move_by_offset(round(at[0]), round(at[1])).perform()
        assert browser.find_element(By.ID, "tip").text == "split-mnist/class · Adam · 2: 60.50"
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        browser.quit()


def test_every_figure_is_in_the_registry_under_its_name():
    assert set(FIGURES) == {
        "matrix", "curves", "bars", "memory", "figure1", "figure2", "figure3", "figure4", "figure5", "scenario",
        "drift", "scaling",
    }  # fmt: skip
    for name in FIGURES:
        assert FIGURES[name].name == name
        assert issubclass(FIGURES[name], FigureRecipe)
        assert 20 < len(FIGURES.facts(name).summary) < 120


def test_bars_of_a_study_of_one_s_own_have_no_diamonds(records, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "Mine"\n[columns]\nclass = "split-mnist/class"\n[rows]\nadam = {}\nrehearsal = {}\n', encoding="utf-8"
    )
    fig = Bars(table=str(path)).draw(records)
    check_readable(fig)
    (ax,) = fig.axes
    assert [patch.get_width() for patch in ax.patches] == pytest.approx([(36 + 124 / 3) / 2, 274 / 3])
    assert not [line for line in ax.lines if line.get_marker() == "d"]
    assert fig.legends == []


def test_runs_with_the_default_setting_are_meant_if_there_are_some(records):
    other = record("adam", 5, [[1.0], [2.0, 3.0], [4.0, 5.0, 6.0]])
    other.spec["training"]["epochs"] = 77
    fig = MatrixFigure(methods=("adam",)).draw([other, *records])
    assert fig.axes[0].get_title() == "Adam (n=2)"


@pytest.mark.parametrize("figure", [MatrixFigure, Curves])
def test_methods_without_runs_of_the_default_setting_are_named_and_not_drawn(records, figure):
    """One epoch of ER beside four of Adam would be no comparison; who asks for it gets it."""
    er = record("er", 0, [[100.0], [80.0, 95.0], [70.0, 80.0, 95.0]])
    er.spec["training"]["epochs"] = 1
    fig = figure().draw([*records, er])
    said = [fig.get_suptitle(), fig.get_supxlabel()]
    assert any(text.endswith("in other settings than the default, not shown: er") for text in said)
    alone = figure(methods=("er",)).draw([*records, er])
    assert not any("not shown" in text for text in (alone.get_suptitle(), alone.get_supxlabel()))


@pytest.mark.parametrize(("tasks", "samples"), [(0, 2), (3, 0), (3, 1000)])
def test_a_picture_of_a_scenario_has_some_tasks_and_not_too_many_samples(tasks, samples):
    with pytest.raises(
        ValueError, match=f"tasks {tasks}, samples {samples}: give 1 or more of each, 30 samples at most"
    ):
        schematics.draw_kinds(["split-mnist/class"], tasks, samples)
