from typing import Any

import pytest
from starlette.routing import compile_path
from web_talk import ORDERS, app_with, ask

from demur.enforce.enforcer import Enforcer
from demur.errors import InputError, InputTypeError
from demur.integrations.web import PromptGuard
from demur.integrations.web.paths import PathPatterns

GUARD = PromptGuard(Enforcer())


def held(path: str, *patterns: str, **scope: Any) -> bool:
    """Return whether a request to a path is looked at."""
    return PathPatterns(patterns).match_request({"type": "http", "path": path, **scope})


@pytest.mark.parametrize(
    ("path", "looked"),
    [
        ("/chat", True),
        ("/chat/", True),
        ("/chat//", True),
        ("/v1/deep/chat", True),
        ("/v1/", True),
        ("/chats/7", True),
        ("/chats/7/", True),
        ("/chats/", False),
        ("/chats/7/more", False),
        ("/files/a/b", True),
        ("/files/a/b/raw", False),
        ("/chat/other", False),
        ("/chatter", False),
        ("/other", False),
    ],
)
def test_only_chosen_paths_are_looked_at(path: str, looked: bool) -> None:
    patterns = ["/chat", "/v1/*", "/chats/{id}", "/files/{name:path}/b"]

    status = ask(app_with(GUARD, paths=patterns), {"prompt": ORDERS}, path).status_code

    assert status == (403 if looked else 200)


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("/chat", "/chat%0A"),
        ("/chat/", "/chat/%0A"),
        ("/c/{id}", "/c/7%0A"),
        ("/c/{id}", "/c/%0A"),
        ("/c/{id:int}", "/c/7%0A"),
        ("/c/{id}/say", "/c/a%0Ab/say%0A"),
        ("/{rest:path}", "/a%0A"),
    ],
)
def test_no_line_break_leads_around_the_guard(route: str, path: str) -> None:
    app = app_with(GUARD, route, paths=[route])

    assert ask(app, {"prompt": "hello"}, path).status_code == 200  # the route takes it
    assert ask(app, {"prompt": ORDERS}, path).status_code == 403


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\0", " ", "/", "/\n", "\n/", "\x7f"])
def test_what_an_end_is_made_of_does_not_matter(end: str) -> None:
    assert held(f"/chat{end}", "/chat")
    assert held(f"/c/7{end}", "/c/{id}")


@pytest.mark.parametrize("path", ["//c/d", "/c//d", "///c//d/", "//c//d\n"])
def test_how_many_slashes_there_are_does_not_matter(path: str) -> None:
    assert held(path, "/c/d")


@pytest.mark.parametrize(
    "route", ["/chat", "/c/{id}", "/c/{id:uuid}/x", "/{a}-{b}", "/f/{p:path}", "/f/{p:path}/x"]
)
@pytest.mark.parametrize("value", ["7", "a\nb", "a/b", "0f8fad5b-d9cb-469f-a165-70867728950e"])
def test_what_a_route_takes_is_held_by_its_own_path(route: str, value: str) -> None:
    regex, format_, names = compile_path(route)
    path = format_.format(**dict.fromkeys(names, value))

    assert held(path, route) or not regex.match(path)
    assert held(f"{path}\n", route) or not regex.match(f"{path}\n")


@pytest.mark.parametrize("path", ["/api/chat", "/chat"])
def test_a_path_is_the_app_s_own_behind_a_proxy(path: str) -> None:
    app = app_with(GUARD, paths=["/chat"])

    assert ask(app, {"prompt": ORDERS}, path, root_path="/api").status_code == 403


def test_a_path_may_be_named_with_what_stands_before_it() -> None:
    assert held("/api/chat", "/api/chat", root_path="/api")
    assert held("/chat", "/", root_path="/chat")
    assert not held("/apichat", "/chat", root_path="/api")


@pytest.mark.parametrize("pattern", ["/c/{id", "/c/id}", "/c/{}", "/c/[id]", "/chat?x=1"])
def test_a_pattern_that_would_match_nothing_is_said_at_once(pattern: str) -> None:
    with pytest.raises(InputError, match="cannot be matched"):
        PathPatterns([pattern])


@pytest.mark.parametrize("pattern", ["", "chat", "https://example.com/chat"])
def test_a_pattern_is_a_path(pattern: str) -> None:
    with pytest.raises(InputError, match="is not a path"):
        PathPatterns([pattern])


def test_paths_are_a_list() -> None:
    with pytest.raises(InputTypeError, match="a list of patterns"):
        PathPatterns("/chat")
    with pytest.raises(InputError, match="nothing would be checked"):
        PathPatterns([])
