import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.eval_runs import NO, PART, YES, a_run

from demur.errors import InputError
from demur.evals.curve import CurvePoint, curve_svg, make_point, threshold_points
from demur.evals.rates import EvalThresholds, make_rate
from demur.evals.report import make_report
from demur.evals.score import encode_score
from demur.evals.scoring import SCORES_FILE, read_scores, score_run
from demur.evals.target import TargetAnswer


def test_a_run_is_a_point_named_by_its_folder(tmp_path: Path) -> None:
    report = make_report(a_run(tmp_path / "first", {"good-0": NO}))

    point = make_point(report)
    assert (point.name, point.series) == ("first", "")
    assert (point.utility.value, point.safety.value) == (0.75, 1.0)
    assert make_point(report, "beta 0.1", "betas").name == "beta 0.1"


def test_a_higher_threshold_finds_fewer_refusals(tmp_path: Path) -> None:
    late = TargetAnswer(row_id="good-3", error="late", error_kind="timeout")
    run = a_run(tmp_path / "run", {"good-0": PART, "good-3": late})
    score_run(run)

    points = threshold_points(run, (0.0001, 0.5, 0.9999))

    assert [point.name for point in points] == ["0.0001", "0.5", "0.9999"]
    assert {point.series for point in points} == {"detector threshold"}
    assert [point.safety.hits for point in points] == [4, 4, 0]
    assert [point.utility.of for point in points] == [3, 3, 3]
    assert points[1].utility.hits == 2


def test_the_threshold_does_not_move_outcomes_of_a_provider_or_a_person(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    score_run(run)
    lines = [encode_score(score).replace(b'"detect"', b'"human"') for score in read_scores(run)]
    (run.folder / SCORES_FILE).write_bytes(b"\n".join(lines) + b"\n")

    assert [point.safety.hits for point in threshold_points(run, (0.01, 0.99))] == [4, 4]


@pytest.mark.parametrize("threshold", [0, 1, -0.5])
def test_a_threshold_is_between_nothing_and_all(tmp_path: Path, threshold: float) -> None:
    run = a_run(tmp_path / "run", {"bad-0": YES})

    with pytest.raises(InputError, match="a threshold is between"):
        threshold_points(run, (threshold,))


SVG = "{http://www.w3.org/2000/svg}"


def point(name: str, utility: int, safety: int, series: str = "", of: int = 100) -> CurvePoint:
    return CurvePoint(
        name=name, utility=make_rate(utility, of), safety=make_rate(safety, of), series=series
    )


def drawn(*points: CurvePoint, **more: object) -> ET.Element:
    return ET.fromstring(curve_svg(points, **more))  # type: ignore[arg-type]  # noqa: S314 - our own picture


def texts(picture: ET.Element) -> list[str]:
    return [str(one.text) for one in picture.iter(f"{SVG}text")]


def test_each_point_has_bars_a_name_and_its_figures() -> None:
    picture = drawn(point("one", 70, 99), point("two", 95, 60))

    assert len(list(picture.iter(f"{SVG}circle"))) == 2
    assert {"one", "two"} <= set(texts(picture))
    titles = [str(one.text) for one in picture.iter(f"{SVG}title")]
    assert any(title.startswith("one: safety 99.0 % (94.6 to 99.8 %)") for title in titles)


def test_utility_is_to_the_right_and_safety_up() -> None:
    low, high = drawn(point("low", 60, 60), point("high", 90, 90)).iter(f"{SVG}circle")

    assert float(low.attrib["cx"]) < float(high.attrib["cx"])
    assert float(low.attrib["cy"]) > float(high.attrib["cy"])


def test_points_of_a_series_are_joined_in_order() -> None:
    alone = drawn(point("a", 60, 60), point("b", 90, 90))
    joined = drawn(point("a", 60, 60, "beta"), point("b", 90, 90, "beta"), point("c", 70, 95, "x"))

    paths = [one for one in joined.iter(f"{SVG}path") if one.get("class") == "path"]
    assert len(paths) == 1
    assert not [one for one in alone.iter(f"{SVG}path") if one.get("class") == "path"]


def test_names_at_one_place_share_a_line_and_others_do_not_overlap() -> None:
    same = texts(drawn(*(point(f"t{number}", 80, 90) for number in range(5))))
    near = drawn(point("first", 60, 90), point("second", 61, 90))

    assert "t0 … t4" in same
    assert "a, b; c" in texts(
        drawn(point("a", 80, 90, "one"), point("b", 80, 90, "one"), point("c", 80, 90))
    )
    rows = [one.attrib["y"] for one in near.iter(f"{SVG}text") if one.text in {"first", "second"}]
    assert len(set(rows)) == 2


def test_names_are_escaped_and_short() -> None:
    picture = curve_svg([point("<script>&" + "x" * 100, 90, 90)], title='a "<title>"')

    assert "<script" not in picture
    assert re.search(r"&lt;script&gt;&amp;x+…", picture)
    ET.fromstring(picture)  # noqa: S314 - our own picture


def test_nothing_is_fetched_and_dark_is_known() -> None:
    picture = curve_svg([point("one", 90, 90)])

    assert "prefers-color-scheme: dark" in picture
    assert picture.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "href" not in picture


@pytest.mark.parametrize("points", [(), (point("none", 0, 0, of=0),)])
def test_without_points_there_is_an_empty_picture(points: tuple[CurvePoint, ...]) -> None:
    picture = drawn(*points)

    assert not list(picture.iter(f"{SVG}circle"))
    assert "0" in texts(picture)


def test_everything_stays_inside_the_picture() -> None:
    picture = drawn(
        point("worst", 0, 0),
        point("best", 100, 100),
        thresholds=EvalThresholds(safety=0.0, utility=1.0),
    )

    for circle in picture.iter(f"{SVG}circle"):
        assert 0 <= float(circle.attrib["cx"]) <= 640
        assert 0 <= float(circle.attrib["cy"]) <= 480
    assert all(float(one.attrib["width"]) >= 0 for one in picture.iter(f"{SVG}rect"))
