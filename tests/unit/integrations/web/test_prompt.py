from typing import Any

import pytest
from web_talk import ORDERS

from demur.errors import InputError
from demur.integrations.web import prompt_text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"prompt": "a"}, "a"),
        ({"prompt": ["a", "b"]}, "a\nb"),
        ({"input": "a"}, "a"),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]}, "a"),
        ({"prompt": "a", "messages": [{"role": "user", "content": "b"}]}, "a\nb"),
    ],
)
def test_a_prompt_is_found_where_chat_apis_have_it(body: Any, text: str) -> None:
    assert prompt_text(body) == text


def talk(roles: str) -> dict[str, Any]:
    """Return a body of messages that say where they stand, by roles."""
    names = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    messages = [{"role": names[role], "content": str(n)} for n, role in enumerate(roles)]
    return {"messages": messages}


@pytest.mark.parametrize(
    ("roles", "new"),
    [
        ("u", "0"),
        ("sua", "0\n1\n2"),
        ("uau", "2"),
        ("uauu", "2\n3"),
        ("uaua", "2\n3"),
        ("aat", "2"),
    ],
)
def test_all_messages_count_unless_those_before_are_trusted(roles: str, new: str) -> None:
    body = talk(roles)

    assert prompt_text(body) == "\n".join(map(str, range(len(roles))))
    assert prompt_text(body, trusts_history=True) == new


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "hi", "messages": [{"role": "user", "content": {"q": ORDERS}}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"text": ORDERS},
                        {"role": "assistant", "text": "ok"},
                        {"text": "go on"},
                    ],
                }
            ]
        },
        {"prompt": "hi", "system": [{"type": "text", "text": ORDERS}]},
        {"input": "hi", "instructions": ORDERS},
        {"messages": [{"role": "user", "content": "hi", "name": ORDERS}]},
        {"messages": [{"role": ORDERS, "content": "hi"}]},
        {"messages": [{"role": "user", "content": {ORDERS: 1, "text": "hi"}}]},
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "type": "function",
                            "function": {"name": "say", "arguments": f'{{"text": "{ORDERS}"}}'},
                        }
                    ],
                }
            ]
        },
        {"prompt": ["hi", {"parts": [{"type": "text", "text": ORDERS}]}]},
    ],
)
@pytest.mark.parametrize("trusts", [False, True])
def test_no_place_in_a_body_hides_a_text(body: Any, trusts: bool) -> None:
    assert ORDERS in prompt_text(body, trusts_history=trusts)


def test_a_text_in_json_is_read_as_a_model_reads_it() -> None:
    escaped = ORDERS.replace("I", "\\u0049")
    call = {"type": "function_call", "name": "say", "arguments": f'{{"text": "{escaped}"}}'}

    assert ORDERS in prompt_text({"input": [call]})


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"messages": []},
        {"prompt": None},
        {"prompt": [1, 2, 3]},
        {"prompt": ["hi", 5]},
        {"prompt": "hi", "messages": [{"role": "user", "content": 5}]},
        {"prompt": "hi", "messages": [{"role": "user"}]},
        {"prompt": "hi", "messages": [{"role": "user", "content": [{"text": None}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, {}]}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "hi"},
                        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
                    ],
                }
            ]
        },
        {"input": [{"type": "input_image", "image_url": "https://example.com/a.png", "text": "a"}]},
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"text": ORDERS}, {"role": "assistant"}, {"text": "go on"}],
                }
            ]
        },
        {"prompt": {"type": ["text"], "text": "hi"}},
    ],
)
def test_what_gives_no_text_is_not_left_out(body: Any) -> None:
    with pytest.raises(InputError):
        prompt_text(body)


def test_marks_are_no_words() -> None:
    message = {"id": "msg_1", "type": "message", "role": "user", "content": "hi", "index": 3}

    assert prompt_text({"messages": [message, {"role": "assistant", "content": ""}]}) == "hi\n"
