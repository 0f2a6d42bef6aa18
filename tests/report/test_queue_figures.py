"""Figures 3, 4 and 5: which curves are drawn, from which runs, and that they can be read."""

import pytest
from matplotlib.colors import to_hex
from setting_records import run_of
from test_figures import check_readable

from engram.report.queue_figures import Figure3, Figure4, Figure5
from engram.report.style import SUFFIXES, look, save
from engram.runs.records import Record
from engram.runs.setting import Setting
from engram.studies.hsu2018.queue import COEFFICIENTS, HEAD_INITS, PENALTY_METHODS, QUEUES, queue_setting

ENDS = dict(zip((None, *COEFFICIENTS), (58, 60, 70, 81, 79, 75, 66), strict=True))


def run(setting: Setting, seed: int = 0) -> Record:
    """Falls in a line from 100 to an end that depends on the coefficient, 10 points lower with zero heads."""
    coef = setting.value("method.coef") if setting.method in PENALTY_METHODS else None
    end = ENDS[coef] - (10 if setting.value("net.heads") == "zero" else 0) - 2 * seed
    accuracy = [[100 - (100 - end) * i / 77] * (i + 1) for i in range(78)]
    return run_of(setting, seed, end, accuracy=accuracy)


def plain(method: str, net: str = "mlp", letters: str = "emnist-letters") -> Setting:
    return queue_setting(QUEUES[letters], method, None, net)


def penalty(method: str, coef: float, net: str, heads: str, letters: str = "emnist-letters") -> Setting:
    return queue_setting(QUEUES[letters], method, coef, net, heads, reset=True)


def everything(nets=("mlp", "cnn"), seeds=2, letters: str = "emnist-letters") -> list[Record]:
    settings = [plain(method, net, letters) for net in nets for method in ("adam", "adagrad")]
    settings += [
        penalty(method, coef, net, heads, letters)
        for net in nets
        for method in PENALTY_METHODS
        for coef in COEFFICIENTS
        for heads in HEAD_INITS
    ]
    return [run(setting, seed) for setting in settings for seed in range(seeds)]


def curves(ax) -> dict[str, float]:
    """label → where it ends"""
    return {line.get_label(): line.get_ydata()[-1] for line in ax.lines}


def test_figure_3_has_best_and_worst_solid_and_the_plain_optimisers_dashed():
    fig = Figure3().draw(everything())
    assert [ax.get_title() for ax in fig.axes] == ["MLP (n=2)", "CNN (n=2)"]
    for ax in fig.axes:
        assert curves(ax) == {
            "SI, best coefficient": 80,
            "SI, worst coefficient": 59,
            "Online EWC, best coefficient": 80,
            "Online EWC, worst coefficient": 59,
            "Adam": 57,
            "Adagrad": 57,
        }
        styles = {line.get_label(): line.get_linestyle() for line in ax.lines}
        assert {styles[name] for name in styles if "coefficient" in name} == {"-"}
        assert {styles["Adam"], styles["Adagrad"]} == {"--"}
        assert {len(line.get_ydata()) for line in ax.lines} == {78}
        assert all(line.get_ydata()[0] == 100 for line in ax.lines)
        colours = {line.get_label(): to_hex(line.get_color()) for line in ax.lines}
        assert colours["SI, best coefficient"] == colours["SI, worst coefficient"] == look("si").color.lower()
    check_readable(fig)


def test_a_network_without_records_has_no_panel_and_every_format_is_written(tmp_path):
    fig = Figure3().draw(everything(nets=("mlp",), seeds=1))
    assert [ax.get_title() for ax in fig.axes] == ["MLP (n=1)"]
    for suffix in SUFFIXES:
        assert save(fig, tmp_path / f"figure{suffix}").stat().st_size > 5000


def test_a_panel_says_of_how_many_runs_its_curves_are():
    """A column whose last seed is not there yet has fewer."""
    full, short = (
        [run(plain("adam"), seed) for seed in range(3)],
        [run(plain("adagrad"), seed) for seed in range(2)],
    )
    (ax,) = Figure3().draw(full + short).axes
    assert ax.get_title() == "MLP (n=3 and 2)"
    (ax,) = Figure3().draw(full + short[:1]).axes
    assert ax.get_title() == "MLP (n=3 and 1)"


def test_figure_4_has_a_curve_per_coefficient_in_four_panels():
    for net in ("mlp", "cnn"):
        fig = Figure4(net=net).draw(everything(nets=(net,)))
        titles = ["SI, random heads", "SI, zero heads", "Online EWC, random heads", "Online EWC, zero heads"]
        assert [ax.get_title() for ax in fig.axes] == [f"{title} (n=2)" for title in titles]
        random, zero = curves(fig.axes[0]), curves(fig.axes[1])
        assert random == {f"coefficient {c:g}": ENDS[c] - 1 for c in COEFFICIENTS}
        assert zero == {label: end - 10 for label, end in random.items()}
        check_readable(fig)


def test_figure_5_has_random_and_zero_heads_in_six_panels():
    fig = Figure5().draw(everything(nets=("mlp",)))
    assert [ax.get_title() for ax in fig.axes] == [
        f"{method}, coefficient {coef} (n=2)" for method in ("SI", "Online EWC") for coef in ("1", "0.1", "0.01")
    ]
    assert curves(fig.axes[0]) == {"random heads": 80, "zero heads": 70}
    assert curves(fig.axes[5]) == {"random heads": 59, "zero heads": 49}
    check_readable(fig)


@pytest.mark.parametrize("figure", [Figure3, Figure4, Figure5])
def test_a_stand_in_is_named_and_missing_records_are_refused(figure):
    fig = figure().draw(everything(nets=("mlp",), seeds=1, letters="cyrillic-letters"))
    reset = "SI and online EWC have a new optimiser for each task"
    assert fig.get_suptitle() == f"Cyrillic letters stand in for EMNIST letters\n{reset}"
    check_readable(fig)
    assert figure().draw(everything(nets=("mlp",), seeds=1)).get_suptitle() == reset
    with pytest.raises(ValueError, match="no records of the long queue; engram reproduce hsu2018/table5"):
        figure().draw([])


def test_a_panel_without_records_says_so():
    fig = Figure4().draw([run(penalty("si", 1.0, "mlp", "random"))])
    assert curves(fig.axes[0]) == {"coefficient 1": 81}
    assert [[text.get_text() for text in ax.texts] for ax in fig.axes] == [[], *[["no records"]] * 3]
