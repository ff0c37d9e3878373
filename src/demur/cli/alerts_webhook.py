"""Post JSON to a webhook, with a timeout and retries.

The URL of a webhook is often a secret, so messages show only its host.
"""

import time
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from demur.errors import DemurError, InputError
from demur.version import __version__

__all__ = ["WebhookError", "post_json", "read_secret", "mask_url"]

_INITIAL_PAUSE_S = 0.5
_MAX_PAUSE_S = 60.0
_RETRIED_STATUSES = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_REJECTED_HELP = "check the URL and its key; nothing was lost: the alerts are printed"
_RETRY_HELP = "nothing was lost: the alerts are printed, and the next check sends them again"


class WebhookError(DemurError):
    """A webhook that did not accept a message."""


class _AttemptError(Exception):
    """A failed attempt; `pause_s` is set if a retry may help."""

    def __init__(self, problem: str, pause_s: float | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.pause_s = pause_s


class _RefuseRedirects(HTTPRedirectHandler):
    """Refuses redirects: alerts go to the given URL only."""

    def redirect_request(self, *_args: object, **_named: object) -> None:
        """Return None, which makes a redirect an error."""


def read_secret(text: str) -> str:
    """Return a secret from the command line: the text itself, or the content of `@FILE`.

    Raises:
        InputError: The file cannot be read.
    """
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or "not UTF-8 text").lower()
        raise InputError(f"cannot read the secret: {reason}", where=text[1:]) from error


def mask_url(url: str) -> str:
    """Return the URL without its secret part: scheme and host.

    Raises:
        InputError: It is not an HTTP URL.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
        parts = urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in {"http", "https"} or not host or not plain:
        raise InputError("the webhook is not a URL", help="it begins with https:// or http://")
    return f"{parts.scheme}://{host}/…"


def post_json(
    url: str,
    body: bytes,
    *,
    timeout_s: float,
    retries: int,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send a JSON document; return how many attempts it took.

    Raises:
        WebhookError: No attempt succeeded.
    """
    where, attempt = mask_url(url), 0
    while True:
        attempt += 1
        try:
            _post_once(url, body, timeout_s)
        except _AttemptError as failed:
            if failed.pause_s is None:
                raise WebhookError(failed.problem, where=where, help=_REJECTED_HELP) from None
            if attempt > retries:
                times = "once" if attempt == 1 else f"{attempt} times"
                tried = f"{failed.problem} (tried {times})"
                raise WebhookError(tried, where=where, help=_RETRY_HELP) from None
            pause_s = max(failed.pause_s, _INITIAL_PAUSE_S * 2 ** (attempt - 1))
            sleep(min(pause_s, _MAX_PAUSE_S))
        else:
            return attempt


def _post_once(url: str, body: bytes, timeout_s: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": f"demur/{__version__}"}
    request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - `mask_url` checked the scheme
    try:
        with build_opener(_RefuseRedirects).open(request, timeout=timeout_s):
            return
    except HTTPError as error:
        with error:
            again = (
                error.code >= HTTPStatus.INTERNAL_SERVER_ERROR or error.code in _RETRIED_STATUSES
            )
            pause_s = _parse_retry_after(error.headers.get("Retry-After")) if again else None
        raise _AttemptError(f"the webhook answered {error.code}", pause_s) from None
    except (HTTPException, OSError, ValueError) as error:
        raise _AttemptError(_describe_failure(error, timeout_s), 0) from None


def _describe_failure(error: Exception, timeout_s: float) -> str:
    """Return why there was no answer, without the text of the error, which may quote the URL."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, TimeoutError):
        return f"the webhook did not answer in {timeout_s:g} s"
    why = getattr(reason, "strerror", None) or type(reason).__name__
    return f"the webhook cannot be reached: {str(why).lower()}"


def _parse_retry_after(value: str | None) -> float:
    """Return the seconds of a `Retry-After` header; 0 for a date or anything else."""
    text = (value or "").strip()
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 7 else 0
