"""What holds of every reader of a framework, whatever it is given."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from demur.providers.readers import READERS, load_readers
from demur.providers.shape import shape_of
from demur.providers.signals import list_systems, load_system

FRAMEWORKS = [name for name in list_systems() if load_system(name).kind == "framework"]
READING = [
    reader
    for reader, system in zip(load_readers(), READERS.values(), strict=True)
    if system in FRAMEWORKS
]
NAMES = st.sampled_from(
    [
        *(
            "action",
            "activated_rails",
            "additional_kwargs",
            "allow",
            "apiRefusalCategory",
            "artifact",
        ),
        *("behavior", "categories", "category", "choices", "code", "content", "continue", "data"),
        *(
            "decision",
            "decision_id",
            "decisions",
            "deny",
            "error",
            "errors",
            "exit_code",
            "expressions",
        ),
        *("extras", "finishReason", "finish_reason", "guardrails", "hook_event", "hookEventName"),
        *(
            "hookSpecificOutput",
            "isError",
            "is_valid",
            "jsonrpc",
            "kind",
            "log",
            "message",
            "metrics",
        ),
        *(
            "native_finish_reason",
            "outcome",
            "output",
            "output_info",
            "part_kind",
            "parts",
            "param",
        ),
        *(
            "permissionDecision",
            "permissionDecisionReason",
            "permission_denials",
            "provider_details",
        ),
        *(
            "provider_specific_fields",
            "providerMetadata",
            "rails_status",
            "raw",
            "raw_item",
            "reason",
        ),
        *(
            "refusal",
            "response",
            "response_metadata",
            "result",
            "role",
            "safety_ratings",
            "scanners",
        ),
        *("schema_version", "status", "stop", "stop_details", "stop_reason", "structuredContent"),
        *(
            "subtype",
            "tool_call_id",
            "type",
            "unified",
            "validation_passed",
            "validation_summaries",
        ),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-40_000, 600)
    | st.floats(allow_nan=True)
    | st.text(max_size=12)
    | st.sampled_from(
        ["refusal", "deny", "block", "exception", "fail", "refusal.v1", "decline", "input"]
    )
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)


class HolderError(Exception):
    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__("held")
        self.__dict__.update(fields)


def test_every_mapping_of_a_framework_has_its_reader() -> None:
    assert set(FRAMEWORKS) <= set(READERS.values())


@given(JSON)
def test_a_reader_answers_anything(found: Any) -> None:
    held: Any = HolderError(found) if isinstance(found, dict) else (found, {}, {})
    for obj in (found, held):
        shape = shape_of(obj)
        for read in READING:
            signal = read(shape)
            assert signal is None or signal.code is not None or not signal.must_report
