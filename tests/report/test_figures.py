import itertools
import math
import xml.etree.ElementTree as ElementTree

import pytest
from made_up_campaign import write_campaign

from rmsrepro.report.charts.bars import Bar, BarChart, draw_bars
from rmsrepro.report.charts.curves_of_table import curve_charts
from rmsrepro.report.charts.labels import spread
from rmsrepro.report.charts.lines import Line, LineChart, draw_lines
from rmsrepro.report.charts.palette import GROUNDS, NORMS, STANDINGS
from rmsrepro.report.charts.scale import linear, logarithmic, number
from rmsrepro.report.charts.ticks import time_ticks
from rmsrepro.report.cli import main
from rmsrepro.report.figures import stand_alone
from rmsrepro.report.runs_index import build_index
from rmsrepro.report.tables import build_tables
from rmsrepro.sweep.plan import load_plan

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [*(f"figure{number}" for number in range(1, 8)), "table9"]


def figures(tmp_path, *arguments, published=None):
    places = ["--out", str(tmp_path / "svg"), "--published", str(published or tmp_path / "none")]
    assert main(["figures", *arguments, *places, f"runs.root={tmp_path / 'runs'}"]) == 0
    return {path.stem: ElementTree.fromstring(path.read_text()) for path in (tmp_path / "svg").iterdir()}


def texts(figure):
    return ["".join(element.itertext()) for element in figure.iter(f"{SVG}text")]


def classed(figure, name):
    return [element for element in figure.iter() if name in element.get("class", "").split()]


def test_with_nothing_measured_every_figure_is_a_file_that_says_so(tmp_path):
    drawn = figures(tmp_path)
    assert set(FIGURES) <= set(drawn)
    for name in FIGURES:
        assert any("not measured" in words for words in texts(drawn[name])), name


def test_the_papers_readable_points_are_hollow_marks(tmp_path):
    drawn = figures(tmp_path, "plan=figure1,figure4,figure5,figure6")
    marks = {name: len(classed(figure, "hollow")) for name, figure in drawn.items() if "speed" not in name}
    assert marks == {"figure1": 4, "figure4": 9, "figure5": 2, "figure6": 0}


def test_a_campaign_fills_every_figure_and_every_speed_chart(tmp_path):
    write_campaign(tmp_path / "published", seeds=3)
    drawn = figures(tmp_path, "size=paper", published=tmp_path / "published")
    for name in ("figure1", "figure2", "figure4", "figure7", "table9"):
        assert classed(drawn[name], "b"), name
        assert "not measured" not in texts(drawn[name]), name
    assert len(classed(drawn["table2-speed"], "s")) == 10
    assert "Time per step: composed, TITAN" in texts(drawn["table2-speed"])


def test_paper_points_stand_beside_our_lines_only_at_the_papers_size(tmp_path):
    write_campaign(tmp_path, seeds=3)
    index = build_index(tmp_path, None)
    for size, marks in (("paper", 4), ("small", 0)):
        table = build_tables(load_plan("figure1"), index, size)[0]
        by_step, by_time = curve_charts(table, index)
        assert (len(by_step.marks), len(by_time.marks)) == (marks, 0)
        assert len(by_step.lines) == 2


def test_a_broken_run_is_dashed_to_a_cross_and_one_seed_has_no_band():
    nan = float("nan")
    broken = Line("Baseline, diverged", "none", [1, 2, 3], [1.0, 5.0, nan], said="seed 1: diverged", broken=True)
    single = Line("RMSNorm, n=1", "rmsnorm", [1, 2, 3], [1.0, 0.5, 0.4])
    figure = ElementTree.fromstring(stand_alone("t", [draw_lines(LineChart("c", "step", [broken, single]))]))
    assert classed(figure, "b") == []
    assert {"RMSNorm, n=1", "Baseline, diverged"} <= set(texts(figure))
    paths = [path for path in classed(figure, "n-none") if path.get("stroke-dasharray") == "3 3"]
    assert len(paths) == 1
    assert "nan" not in ElementTree.tostring(figure, encoding="unicode")


def test_a_band_that_dwarfs_its_line_does_not_set_the_scale():
    line = Line("a", "rmsnorm", [0, 1], [1.0, 2.0], [-1000.0, 1.9], [1000.0, 2.1])
    figure = ElementTree.fromstring(stand_alone("t", [draw_lines(LineChart("c", "step", [line]))]))
    assert "2.0" in texts(figure)


def test_bars_say_ratio_interval_and_the_papers():
    chart = BarChart("Time", "LayerNorm", [Bar("RMSNorm", "rmsnorm", 0.8, 0.78, 0.82, 0.75), Bar("None", "none")])
    figure = ElementTree.fromstring(stand_alone("t", [draw_bars(chart)]))
    assert "0.80 [0.78, 0.82]; paper 0.75" in texts(figure)
    assert "not measured" in texts(figure)
    assert len(classed(figure, "dia")) == 1


@pytest.mark.parametrize("label", ["BatchNorm-Everywhere", "a label of 24 letters ....", "a label without an end " * 9])
def test_bars_keep_their_room_beside_labels_and_words_of_any_length(label):
    bars = [Bar("LayerNorm", "layernorm", 1.0, None, None, 1.0), Bar(label, "rmsnorm", 1.7, 1.51, 1.92, 0.89)]
    figure = ElementTree.fromstring(stand_alone("t", [draw_bars(BarChart("Time", "LayerNorm", bars))]))
    one, other = (float(bar.get("width")) for bar in classed(figure, "s"))
    assert other > 110
    assert other == pytest.approx(1.7 * one, abs=0.2)
    words = [element for element in figure.iter(f"{SVG}text") if element.get("text-anchor") == "end"]
    assert len(words) == 4
    assert all(len("".join(word.itertext())) * 7.5 <= float(word.get("x")) for word in words)


def test_a_run_without_a_finite_value_was_measured_all_the_same():
    broken = Line("Baseline, diverged", "none", [1, 2], [float("nan")] * 2, broken=True)
    assert draw_lines(LineChart("c", "step", [broken])).description == "no finite value"
    assert draw_lines(LineChart("c", "step")).description == "not measured"


@pytest.mark.parametrize("low_high", [(0.0, 1.0), (-3.7, 12.0), (0.9701, 0.9895), (1e-6, 3e-6), (5.0, 5.0), (0.0, 0.0)])
def test_ticks_are_round_and_within_the_axis(low_high):
    scale = linear(low_high, 0, 100)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 10
    assert all(-1e-6 <= scale(tick) <= 100 + 1e-6 for tick in ticks)
    step = ticks[1] - ticks[0]
    assert len({number(tick, step) for tick in ticks}) == len(ticks)


def test_a_logarithmic_axis_has_at_least_three_ticks():
    for values in ((0.001, 1.0), (0.9, 30.0), (2.0, 5.0)):
        assert len(logarithmic(values, 0, 100).ticks()) >= 3
    assert [number(v) for v in (0, 0.001, 12345, 1.5e6, 30000)] == ["0", "0.001", "12.35k", "1.5M", "30k"]


def test_time_is_in_the_unit_that_reads_best():
    assert time_ticks(linear([0, 100], 0, 1))[0] == "seconds since the start"
    label, ticks = time_ticks(linear([0, 36000], 0, 1))
    assert label == "hours since the start"
    assert "10" in [words for _, words in ticks]


def test_labels_keep_their_order_and_do_not_touch():
    places = spread([10.0, 11.0, 12.0, 200.0], 0.0, 200.0)
    assert all(b - a >= 15 - 1e-9 for a, b in itertools.pairwise(places))
    assert spread([199.0, 200.0], 0.0, 200.0) == [185.0, 200.0]
    assert len(spread([5.0] * 40, 0.0, 200.0)) == 40


def linear_rgb(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05 for r, g, b in (linear_rgb(one), linear_rgb(other))]
    return max(light) / min(light)


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_have_enough_contrast(theme):
    grounds = [GROUNDS[name][theme] for name in ("ground", "raised")]
    for ground in grounds[:1]:
        assert all(contrast(colours[theme], ground) >= 3 for colours in NORMS.values())
    for ground in grounds:
        words = [*STANDINGS.values(), *(GROUNDS[name] for name in ("ink", "quiet", "accent"))]
        assert all(contrast(colours[theme], ground) >= 4.5 for colours in words)


#: Machado, Oliveira and Fernandes 2009: full protanopia, deuteranopia and tritanopia in linear RGB.
DEFICIENCIES = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}


def lab(rgb):
    rows = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    xyz = [sum(a * b for a, b in zip(row, rgb, strict=False)) / row[3] for row in rows]
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_no_two_norms_look_alike_to_a_colour_blind_reader(theme, deficiency):
    seen = {}
    for norm, colours in NORMS.items():
        rgb = linear_rgb(colours[theme])
        mixed = [sum(a * b for a, b in zip(row, rgb, strict=True)) for row in DEFICIENCIES[deficiency]]
        seen[norm] = lab([min(1.0, max(0.0, part)) for part in mixed])
    for one, other in itertools.combinations(seen, 2):
        assert math.dist(seen[one], seen[other]) > 12, (one, other)


def test_figures_that_are_no_longer_made_are_removed_and_no_other_file(tmp_path):
    folder = tmp_path / "svg"
    folder.mkdir()
    for name in ("figure1-small.svg", "table2-speed-paper.svg", "table3-small.svg", "figure1-mine.svg", "mine.svg"):
        (folder / name).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    figures(tmp_path, "plan=figure1,table2")
    left = {path.name for path in folder.iterdir()}
    assert not left & {"figure1-small.svg", "table2-speed-paper.svg"}
    assert {"figure1.svg", "table3-small.svg", "figure1-mine.svg", "mine.svg"} <= left
