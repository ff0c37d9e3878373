import contextlib

import pytest

from demur.errors import InputError
from demur.listener import bind_listener, listener_url


def test_a_free_port_is_taken_and_told() -> None:
    with contextlib.closing(bind_listener("127.0.0.1", 0, backlog=8, help="")) as listener:
        port = listener.getsockname()[1]

        assert listener_url(listener) == f"http://127.0.0.1:{port}"
        assert listener_url(listener, "/mcp") == f"http://127.0.0.1:{port}/mcp"


def test_a_port_that_is_taken_is_told_with_help() -> None:
    with contextlib.closing(bind_listener("127.0.0.1", 0, backlog=8, help="")) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match="cannot listen: address already in use") as caught:
            bind_listener("127.0.0.1", port, backlog=8, help="choose another")

    assert (caught.value.where, caught.value.help) == (f"127.0.0.1:{port}", "choose another")


def test_a_host_that_is_none_is_told() -> None:
    with pytest.raises(InputError, match="cannot listen") as caught:
        bind_listener("no such host", 80, backlog=8, help="")

    assert caught.value.where == "no such host:80"
