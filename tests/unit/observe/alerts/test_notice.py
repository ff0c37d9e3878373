from datetime import timedelta

import pytest
from alert_samples import NOW, alert

from demur.errors import InputError
from demur.observe.alerts.evaluate import AlertState
from demur.observe.alerts.notice import AlertDelivery, dump_deliveries, load_deliveries, make_notice

HOUR = timedelta(hours=1)
NO_ZONE = (
    b'{"schema_version":"alert_state.v1",'
    b'"told":{"A":{"at":"2027-01-01T00:00:00","state":"firing"}}}'
)


def ids(alerts: object) -> list[str]:
    assert isinstance(alerts, tuple)
    return [one.rule.id for one in alerts]


def test_what_fires_or_cannot_be_judged_is_told_and_remembered() -> None:
    notice = make_notice(
        [alert("A1"), alert("B1", AlertState.UNJUDGED), alert("C1", AlertState.QUIET)], {}, NOW
    )

    assert ids(notice.alerts) == ["A1", "B1"]
    assert notice.resolved == ()
    assert notice.deliveries["A1"] == AlertDelivery(at=NOW, state=AlertState.FIRING)
    assert set(notice.deliveries) == {"A1", "B1"}


def test_nobody_is_told_again_before_the_cooldown_is_over() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    one = alert("A1", cooldown=HOUR)

    assert make_notice([one], told, NOW + HOUR / 2).alerts == ()
    assert make_notice([one], told, NOW + HOUR / 2).deliveries == told
    assert ids(make_notice([one], told, NOW + HOUR).alerts) == ["A1"]


def test_a_change_of_state_is_told_at_once() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.UNJUDGED)}

    assert ids(make_notice([alert("A1", cooldown=HOUR)], told, NOW).alerts) == ["A1"]


def test_what_is_over_is_told_once() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    notice = make_notice([alert("A1", AlertState.QUIET)], told, NOW)

    assert ids(notice.resolved) == ["A1"]
    assert notice.deliveries == {}


def test_what_was_told_is_kept_in_a_file() -> None:
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING, codes=("MADE_UP",))}

    assert load_deliveries(dump_deliveries(told), "state") == told


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"schema_version": "alert_state.v2", "told": {}}',
        b'{"schema_version": "alert_state.v1", "told": {"A": {"at": 3, "state": "firing"}}}',
        NO_ZONE,
    ],
)
def test_a_file_of_something_else_is_an_error(raw: bytes) -> None:
    with pytest.raises(InputError):
        load_deliveries(raw, "state")


def test_a_code_that_nobody_was_told_of_does_not_wait_for_the_cooldown() -> None:
    one = alert("A1", cooldown=timedelta(days=1))._replace(codes=("FIRST", "LATER"))
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING, codes=("FIRST",))}
    notice = make_notice([one], told, NOW + HOUR)

    [again] = notice.alerts
    assert again.message == f"new since the last alert: LATER; {one.message}"
    assert notice.deliveries["A1"].codes == ("FIRST", "LATER")
    assert make_notice([one], notice.deliveries, NOW + 2 * HOUR).alerts == ()
    fewer = one._replace(codes=("LATER",))
    assert make_notice([fewer], notice.deliveries, NOW + 2 * HOUR).deliveries == notice.deliveries


def test_many_new_codes_are_not_all_named() -> None:
    one = alert("A1", cooldown=HOUR)._replace(codes=tuple(f"C{n}" for n in range(7)))
    told = {"A1": AlertDelivery(at=NOW, state=AlertState.FIRING)}
    [again] = make_notice([one], told, NOW).alerts

    assert "alert: C0, C1, C2, C3, C4 and 2 more; " in again.message


def test_who_makes_codes_up_wakes_nobody_for_ever() -> None:
    many = tuple(f"C{n}" for n in range(5000))
    one = alert("A1", cooldown=HOUR)._replace(codes=many)
    told = make_notice([one], {}, NOW).deliveries
    assert len(told["A1"].codes) == 1000

    assert make_notice([one._replace(codes=("NEW",))], told, NOW + HOUR / 2).alerts == ()
    assert make_notice([one], told, NOW + HOUR).alerts != ()


def test_a_file_from_before_codes_were_remembered_is_read() -> None:
    raw = NO_ZONE.replace(b"00:00:00", b"00:00:00Z")

    assert load_deliveries(raw, "state")["A"].codes == ()
