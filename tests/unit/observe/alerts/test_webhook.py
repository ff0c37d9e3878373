import json
from pathlib import Path

import pytest
from support.command_line import Ran, demur
from support.webhook_server import SECRET_PATH, Hook, RudeHandler, hook

from demur.cli.alert_webhook import WebhookError, mask_url, post_json, read_secret
from demur.errors import InputError


def told(server: Hook, *, retries: int = 3, timeout_s: float = 5) -> tuple[int, list[float]]:
    pauses: list[float] = []
    tries = post_json(server.url, b"{}", timeout_s=timeout_s, retries=retries, sleep=pauses.append)
    return tries, pauses


def test_a_message_is_sent_as_json() -> None:
    with hook() as server:
        assert told(server) == (1, [])
    assert server.told == [("application/json", b"{}")]


def test_errors_of_the_server_are_tried_again_with_growing_pauses() -> None:
    with hook(500, 503, 502) as server:
        assert told(server) == (4, [0.5, 1, 2])
    assert len(server.told) == 4


def test_a_server_that_asks_for_patience_gets_it_within_bounds() -> None:
    answers = [(429, {"Retry-After": text}) for text in ("7", "9999", "tomorrow")]
    with hook(*answers) as server:
        assert told(server) == (4, [7, 60, 2])


def test_what_stays_broken_is_given_up_and_the_secret_stays_one() -> None:
    with hook(500, 500) as server, pytest.raises(WebhookError) as caught:
        told(server, retries=1)

    assert caught.value.problem == "the webhook answered 500 (tried 2 times)"
    assert caught.value.where == "http://127.0.0.1/…"
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_what_is_wrong_with_the_message_is_not_tried_again(status: int) -> None:
    with hook(status) as server, pytest.raises(WebhookError) as caught:
        told(server)

    assert caught.value.problem == f"the webhook answered {status}"
    assert len(server.told) == 1


def test_a_redirection_is_not_followed() -> None:
    elsewhere = (302, {"Location": "http://127.0.0.1:9/other"})
    with hook(elsewhere) as server, pytest.raises(WebhookError, match="answered 302"):
        told(server)

    assert len(server.told) == 1


def test_a_server_that_does_not_answer_is_left_after_the_timeout() -> None:
    with hook(0, 200) as server:
        assert told(server, timeout_s=0.6) == (2, [0.5])
        server.answers.append(0)
        with pytest.raises(WebhookError, match=r"did not answer in 0\.6 s \(tried once\)"):
            told(server, timeout_s=0.6, retries=0)


def test_an_address_where_nobody_listens_is_said_to_be_one() -> None:
    with hook() as server:
        url = server.url
    with pytest.raises(WebhookError, match="cannot be reached: connection refused"):
        post_json(url, b"{}", timeout_s=1, retries=0)


def test_a_server_that_speaks_no_http_is_an_error() -> None:
    with hook((200, {"X-Bad": "a"})) as server:
        server.RequestHandlerClass = RudeHandler
        with pytest.raises(WebhookError, match="cannot be reached: "):
            told(server, retries=0)


@pytest.mark.parametrize(
    "url",
    ["", "hooks", "file:///etc/passwd", "http://", "https://a b", "http://[::1", "http://a:x/"],
)
def test_what_is_no_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InputError) as caught:
        mask_url(url)

    assert caught.value.problem == "the webhook is not a URL"


def test_only_the_host_is_shown() -> None:
    assert mask_url("https://user:pw@hooks.example:8443/a/b?c") == "https://hooks.example/…"


def test_a_secret_can_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("https://hooks.example/x\n")

    assert read_secret(f"@{path}") == "https://hooks.example/x"
    assert read_secret("https://hooks.example/x") == "https://hooks.example/x"
    path.write_bytes(b"\xff")
    for broken in (path, tmp_path / "none"):
        with pytest.raises(InputError, match="cannot read the secret"):
            read_secret(f"@{broken}")


LOG = """\
2027-01-01T10:59:59Z app REFUSED: RCE_RISK: too old
2027-01-01T11:30:00Z app REFUSED: RCE_RISK: one
2027-01-01T11:59:59Z app REFUSED: MADE_UP_CODE: who knows it
"""
NOON = ("--at", "2027-01-01T12:00Z")


def check(*words: object) -> Ran:
    return demur("alerts", "check", *words)


def firing(tmp_path: Path, *words: object) -> Ran:
    (tmp_path / "app.log").write_text(LOG)
    return check("--log", tmp_path / "app.log", *NOON, "--retries", 0, *words)


def test_a_webhook_is_told_as_it_likes_it(tmp_path: Path) -> None:
    with hook() as server:
        for form in ("json", "slack"):
            assert firing(tmp_path, "--webhook", server.url, "--format", form).status == 3

    plain, slack = (json.loads(body) for _, body in server.told)
    assert [one["id"] for one in plain["alerts"]] == ["CODE_EXECUTION_TRIED", "NEW_UNKNOWN_CODE"]
    assert slack["text"] == "demur: firing: CODE_EXECUTION_TRIED, NEW_UNKNOWN_CODE"


def test_pagerduty_gets_an_event_for_each_rule_and_the_key_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("R0UTE\n")
    words = ("--format", "pagerduty", "--routing-key", f"@{tmp_path / 'key'}", "--origin", "prod")
    with hook() as server:
        assert firing(tmp_path, "--webhook", server.url, *words).status == 3

    events = [json.loads(body) for _, body in server.told]
    assert {event["routing_key"] for event in events} == {"R0UTE"}
    assert [event["dedup_key"] for event in events] == [
        "demur/prod/CODE_EXECUTION_TRIED",
        "demur/prod/NEW_UNKNOWN_CODE",
    ]


def test_a_webhook_that_fails_is_an_error_and_nothing_is_lost(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook(500) as server:
        ran = firing(tmp_path, "--webhook", server.url, "--state", state)
        assert ran.status == 1
        assert "firing[CODE_EXECUTION_TRIED]" in ran.out
        assert "the webhook answered 500" in ran.err
        assert SECRET_PATH not in ran.out + ran.err
        assert firing(tmp_path, "--webhook", server.url, "--state", state).status == 3

    assert len(server.told) == 2


def test_nobody_is_told_twice_within_the_cooldown_and_the_end_is_told_once(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        words = ("--webhook", server.url, "--state", state)
        assert firing(tmp_path, *words).status == 3
        assert firing(tmp_path, *words).status == 3
        assert len(server.told) == 1
        later = ("--at", "2027-01-02T12:00Z", *words)
        for _ in range(2):
            assert check("--log", tmp_path / "app.log", *later).status == 0

    [_, resolved] = [json.loads(body) for _, body in server.told]
    assert resolved["alerts"] == []
    assert [one["id"] for one in resolved["resolved"]] == [
        "CODE_EXECUTION_TRIED",
        "NEW_UNKNOWN_CODE",
    ]


def test_one_event_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    words = ("--format", "pagerduty", "--routing-key", "k", "--state", state)
    with hook(500) as server:
        assert firing(tmp_path, "--webhook", server.url, *words).status == 1
        assert firing(tmp_path, "--webhook", server.url, *words).status == 3

    keys = [json.loads(body)["dedup_key"] for _, body in server.told]
    assert keys == ["demur/CODE_EXECUTION_TRIED", "demur/NEW_UNKNOWN_CODE", keys[0]]


def test_a_quiet_check_tells_nobody(desk: Path) -> None:
    assert desk.is_dir()
    with hook() as server:
        assert check("--webhook", server.url).status == 0

    assert server.told == []


def test_a_state_that_cannot_be_used_is_an_error_before_anything_is_sent(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        state.write_text("{}")
        assert firing(tmp_path, "--webhook", server.url, "--state", state).status == 1
        assert (
            "cannot read the state"
            in firing(tmp_path, "--webhook", server.url, "--state", tmp_path).err
        )
        assert server.told == []
        nowhere = tmp_path / "no" / "folder.json"
        ran = firing(tmp_path, "--webhook", server.url, "--state", nowhere)
        assert (ran.status, "cannot write the state" in ran.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [
        ("--log", "x", "--store", "y"),
        ("--log", "x", "--config", "y"),
        ("--log", "x", "--tenant", "y"),
        ("--store", "x", "--config", "y"),
        ("--state", "x"),
        ("--routing-key", "x"),
        ("--webhook", "https://a.example/", "--format", "pagerduty"),
        ("--webhook", "https://a.example/", "--routing-key", "x"),
        ("--webhook", "ftp://a.example/"),
        ("--webhook", "@nowhere"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--retries", "-1"),
        ("--at", "soon"),
    ],
)
def test_options_that_make_no_sense_together_are_an_error(
    words: tuple[str, ...], desk: Path
) -> None:
    assert desk.is_dir()
    assert check(*words).status == 1


def test_a_second_unknown_code_is_told_within_the_cooldown_of_the_first(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    with hook() as server:
        words = ("--webhook", server.url, "--state", state)
        assert firing(tmp_path, *words).status == 3
        with (tmp_path / "app.log").open("a") as log:
            log.write("2027-01-01T11:59:59Z app REFUSED: ANOTHER_ONE: x\n")
        for _ in range(2):
            check("--log", tmp_path / "app.log", *NOON, *words)

    [_, again] = [json.loads(body) for _, body in server.told]
    [alert] = again["alerts"]
    assert alert["message"].startswith("new since the last alert: ANOTHER_ONE; no registry")
