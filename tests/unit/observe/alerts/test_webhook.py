import pytest
from support.webhook_server import Hook, RudeHandler, hook

from demur.errors import InputError
from demur.observe.alerts.webhook import WebhookError, mask_url, post_json


def told(server: Hook, *, retries: int = 3, timeout_s: float = 5) -> tuple[int, list[float]]:
    pauses: list[float] = []
    tries = post_json(server.url, b"{}", timeout_s=timeout_s, retries=retries, sleep=pauses.append)
    return tries, pauses


def test_a_message_is_sent_as_json() -> None:
    with hook() as server:
        assert told(server) == (1, [])
    assert server.deliveries == [("application/json", b"{}")]


def test_errors_of_the_server_are_tried_again_with_growing_pauses() -> None:
    with hook(500, 503, 502) as server:
        assert told(server) == (4, [0.5, 1, 2])
    assert len(server.deliveries) == 4


def test_a_server_that_asks_for_patience_gets_it_within_bounds() -> None:
    answers = [(429, {"Retry-After": text}) for text in ("7", "9999", "tomorrow")]
    with hook(*answers) as server:
        assert told(server) == (4, [7, 60, 2])


def test_a_failing_webhook_is_abandoned_without_showing_its_secret() -> None:
    with hook(500, 500) as server, pytest.raises(WebhookError) as caught:
        told(server, retries=1)

    assert caught.value.problem == "the webhook answered 500 (tried 2 times)"
    assert caught.value.where == "http://127.0.0.1/…"
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_rejected_message_is_not_retried(status: int) -> None:
    with hook(status) as server, pytest.raises(WebhookError) as caught:
        told(server)

    assert caught.value.problem == f"the webhook answered {status}"
    assert len(server.deliveries) == 1


def test_a_redirection_is_not_followed() -> None:
    elsewhere = (302, {"Location": "http://127.0.0.1:9/other"})
    with hook(elsewhere) as server, pytest.raises(WebhookError, match="answered 302"):
        told(server)

    assert len(server.deliveries) == 1


def test_a_server_that_does_not_answer_is_left_after_the_timeout() -> None:
    with hook(0, 200) as server:
        assert told(server, timeout_s=0.6) == (2, [0.5])
        server.answers.append(0)
        with pytest.raises(WebhookError, match=r"did not answer in 0\.6 s \(tried once\)"):
            told(server, timeout_s=0.6, retries=0)


def test_a_refused_connection_is_reported_as_unreachable() -> None:
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
def test_an_invalid_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InputError) as caught:
        mask_url(url)

    assert caught.value.problem == "the webhook is not a URL"


def test_only_the_host_is_shown() -> None:
    assert mask_url("https://user:pw@hooks.example:8443/a/b?c") == "https://hooks.example/…"
