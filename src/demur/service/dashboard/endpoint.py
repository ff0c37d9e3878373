"""The endpoint of a page: like one of the API, but errors are HTML for browsers."""

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.types import Receive, Scope, Send

from demur.service.access import NOBODY
from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.frame import CLIENT, SCHEME, TARGET, render_page
from demur.service.endpoint import Endpoint
from demur.service.problem import ProblemError

__all__ = ["PageEndpoint", "wants_html"]

_UNAUTHORIZED = 401


class PageEndpoint(Endpoint):
    """Answers the calls of one page."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call; its target, scheme and client address are passed as headers."""
        query = scope["query_string"]
        raw = scope.get("raw_path") or scope["path"].encode()
        target = raw.partition(b"?")[0] + (b"?" + query if query else b"")
        client = scope.get("client") or ("",)
        known = (
            (TARGET.encode(), target),
            (SCHEME.encode(), scope.get("scheme", "http").encode()),
            (CLIENT.encode(), client[0].encode()),
        )
        own = {name for name, _ in known}
        headers = [pair for pair in scope["headers"] if pair[0] not in own]
        await super().__call__({**scope, "headers": [*headers, *known]}, receive, send)

    def error_answer(self, error: ProblemError, headers: Mapping[str, str]) -> ApiAnswer:
        """Return an error page, or redirect to the login."""
        if not wants_html(headers):
            return super().error_answer(error, headers)
        if error.status == _UNAUTHORIZED and self.route.method == "GET":
            goal = urlencode({"next": headers.get(TARGET, "/")})
            return ApiAnswer(b"", 303, headers={"location": f"/login?{goal}"})
        call = ApiCall(self._service, NOBODY, {}, {}, b"", headers)
        phrase = HTTPStatus(error.status).phrase
        shown = render_page(call, "error.html", title=phrase, status=error.status, error=error)
        return shown._replace(headers={**shown.headers, **error.headers})


def wants_html(headers: Mapping[str, str]) -> bool:
    """Return whether the caller accepts HTML."""
    return "text/html" in headers.get("accept", "")
