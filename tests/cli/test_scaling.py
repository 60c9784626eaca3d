"""glassformer scaling: power laws over run folders, and the error if there are too few."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from made import make_run

SIZES, AMOUNTS = (10**4, 10**5, 10**6, 10**7), (10**6, 10**7, 10**8, 10**9)


def law(parameters: float, tokens: float) -> float:
    return 1.69 + 406.4 * parameters**-0.34 + 410.7 * tokens**-0.28


@pytest.fixture(scope="module")
def grid(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    for size in SIZES:
        for tokens in AMOUNTS:
            make_run(folder / f"n{size}-d{tokens}", size, tokens, law(size, tokens))
    return folder


def test_constants_are_found_again(glassformer, grid):
    code, shown, _ = glassformer("scaling", str(grid), "--json")
    said = json.loads(shown)
    assert code == 0 and len(said["runs"]) == 16
    assert said["runs"][0]["compute"] == 6 * 10**4 * 10**6
    joint = said["joint"]["fit"]["law"]
    assert joint["scales"] == pytest.approx([406.4, 410.7], rel=1e-5)
    assert joint["exponents"] == pytest.approx([0.34, 0.28], rel=1e-5)
    assert joint["floor"] == pytest.approx(1.69, rel=1e-5)
    data = said["laws"]["data"]["fit"]["law"]  # of the largest model alone
    assert data["scales"] == pytest.approx([410.7], rel=1e-5)
    assert data["floor"] == pytest.approx(law(10**7, 1e300), rel=1e-5)
    assert said["laws"]["data"]["runs"] == [f"n{10**7}-d{tokens}" for tokens in AMOUNTS]
    parameters = said["laws"]["parameters"]["fit"]["law"]
    assert parameters["exponents"] == pytest.approx([0.34], rel=1e-5)


def test_the_best_use_of_compute_is_the_lowest_loss_there_is(glassformer, grid):
    _, shown, _ = glassformer("scaling", str(grid), "--json")
    for best in json.loads(shown)["best"]:
        n, d = best["parameters"], best["data"]
        assert 6 * n * d == pytest.approx(best["compute"])
        assert best["loss"] == pytest.approx(law(n, d), rel=1e-5)
        for other in (0.9 * n, 1.1 * n):
            assert law(other, best["compute"] / 6 / other) > best["loss"]


def test_a_table_of_laws(glassformer, grid):
    code, shown, _ = glassformer("scaling", str(grid))
    assert code == 0
    for said in (
        "L(N, D) = E + A N^-alpha + B D^-beta",
        "alpha = 0.34 (0.34 to 0.34)",
        "A = 406.4 (406.4 to 406.4)",
        "4 of 16",
        "without embeddings and heads",
        "The best split of compute",
    ):
        assert said in shown, said


def test_a_plot_of_laws(glassformer, grid, tmp_path):
    path = tmp_path / "laws.svg"
    code, _, _ = glassformer("scaling", str(grid), "--plot", str(path))
    panels = [part for part in ET.parse(path).getroot() if part.tag.endswith("}g")]
    assert code == 0 and len(panels) == 3
    for panel in panels:
        assert len([part for part in panel.iter() if part.tag.endswith("title")]) == 16
        (line,) = [part for part in panel.iter() if part.tag.endswith("polyline")]
        assert len(line.get("points").split()) == 100


def test_runs_that_cannot_count_are_left_out(glassformer, tmp_path):
    for number, size in enumerate(SIZES):
        make_run(tmp_path / f"run{number}", size, 10**8, law(size, 10**8))
    make_run(tmp_path / "half", 100, 10**8, 3.0, finished=False)
    make_run(tmp_path / "blind", 100, 10**8, None)
    code, shown, _ = glassformer("scaling", str(tmp_path))
    assert code == 0
    assert "Note: half is left out: it is unfinished." in shown
    assert "Note: blind is left out: nothing was evaluated, for lack of data.validation." in shown
    assert "No L(data): 1 of 4 runs improved with more of it, and 4 are needed." in shown
    assert "No L(N, D): it takes 6 runs of 3 sizes and 3 amounts of data; there are 4 of 4" in shown
    assert "L(N) = a N^-b + c" in shown


def test_too_few_runs_are_one_sentence(glassformer, tmp_path):
    for number in range(3):
        make_run(tmp_path / f"run{number}", 10 ** (4 + number), 10**6, 3.0 - number / 2)
    make_run(tmp_path / "half", 100, 10**8, 3.0, finished=False)
    code, _, said = glassformer("scaling", str(tmp_path))
    assert code == 1 and "Traceback" not in said
    assert "needs 4 finished runs or more that differ in size or data; there are 3" in said
    assert "half is left out" in said
