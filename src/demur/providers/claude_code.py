"""Read Claude Code and its Agent SDK: hooks, permission results, session records.

A refusal line in the reason gives the code. A hook that exits with status 2 blocks. Any
other failure lets the action run, and the hook's decision is unknown. A block after a tool
has run, or when an agent wants to stop, prevents nothing.
"""

from demur.codes.vocabulary import Surface
from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import Interpretation, Signal, SignalOutcome, interpret, load_system
from demur.providers.upstream import find_own_refusal, read_category

_SYSTEM = "claude_code"
_IN_VAIN = frozenset({"PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop", "Notification"})
_HOOK_OUTPUT = frozenset(
    {
        "continue",
        "continue_",
        "stopReason",
        "suppressOutput",
        "systemMessage",
        "decision",
        "reason",
        "hookSpecificOutput",
        "terminalSequence",
    }
)
_SURFACES = {
    "PreToolUse": Surface.TOOL_CALL,
    "PermissionRequest": Surface.TOOL_CALL,
    "UserPromptSubmit": Surface.INPUT,
    "UserPromptExpansion": Surface.INPUT,
    "PreCompact": Surface.COMPACTION,
}


def read_claude_code(shape: ResponseShape) -> Signal | None:
    """Return the refusal in a hook's output, a permission result or a record, or None."""
    own = shape.own
    return (
        _read_hook_output(own)
        or _read_hook_run(own)
        or _read_permission(own)
        or _read_record(own)
        or _read_denials(own)
    )


def _read_hook_output(own: Node) -> Signal | None:
    special = own["hookSpecificOutput"]
    event = special["hookEventName"].text
    answer = special["decision"]
    places = (
        ("permission_decision", special["permissionDecision"], special["permissionDecisionReason"]),
        ("behavior", answer["behavior"], answer["message"]),
        ("decision", own["decision"], own["reason"]),
    )
    for field, node, reason in places:
        judged = interpret(_SYSTEM, field, node.text)
        if judged.code is not None:
            return _hook_signal(judged, node, reason, event)
    stop = own["continue"] or own["continue_"]
    # Other objects have this field too: every field must be one of a hook output.
    if stop.raw is not False or {name for name, _ in own.fields()} - _HOOK_OUTPUT:
        return None
    return _hook_signal(interpret(_SYSTEM, "continue", "false"), stop, own["stopReason"], event)


def _read_hook_run(own: Node) -> Signal | None:
    """Return the refusal in the record of a hook run, by its exit status."""
    event, status = own["hook_event"].text, own["exit_code"].number
    if event is None or status is None or event in _IN_VAIN:
        return None
    listed = load_system(_SYSTEM)["exit_code"]
    judged = listed.interpret(f"{status:.0f}")
    ended, errors = own["exit_code"], own["stderr"]
    if not judged.known:
        # The action ran regardless of the output, so this is not a refusal.
        return listed.interpret("other").to_signal(ended, detail=errors.text or "")
    # With status 2 the host ignores stdout; stderr is the reason.
    return None if judged.code is None else _hook_signal(judged, ended, errors, event)


def _read_permission(own: Node) -> Signal | None:
    """Return the refusal in the result of `can_use_tool`, or None."""
    answer = own["behavior"]
    judged = interpret(_SYSTEM, "behavior", answer.text)
    refused = judged.code is not None
    return _hook_signal(judged, answer, own["message"], "PermissionRequest") if refused else None


def _read_record(own: Node) -> Signal | None:
    """Return the model's refusal in a session record, or None."""
    subtype = own["subtype"].text or ""
    found = own["apiRefusalCategory"]
    if not found and not subtype.startswith("model_refusal"):
        return None
    served = own["fallbackModel"].text
    closer = read_category(_SYSTEM, found, served_by=served)
    judged = interpret(_SYSTEM, "refusal_record", "*")
    return closer or judged.to_signal(own["subtype"], served_by=served)


def _read_denials(own: Node) -> Signal | None:
    """Return the refusal in a run's result that lists denied tools, or None."""
    denials = [*own["permission_denials"]]
    if not denials:
        return None
    tools = [tool for denial in denials if (tool := denial["tool_name"].text)]
    named = ", ".join(dict.fromkeys(tools))
    # Tool arguments may contain anything, so they are left out.
    native = [{"tool_name": tool} for tool in tools]
    evidence = {"tool": named, "count": len(denials), "left_out": ["tool_input"]}
    judged = interpret(_SYSTEM, "permission_denials", "*")
    found = own["permission_denials"]
    return judged.to_signal(found, native=native, evidence=evidence, detail=f"not allowed: {named}")


def _hook_signal(judged: Interpretation, node: Node, reason: Node, event: str | None) -> Signal:
    surface = _SURFACES.get(event or "")
    words = reason.text or ""
    found = find_own_refusal(_SYSTEM, reason, last=True) or judged.to_signal(node, detail=words)
    if found.surface is None:
        found = found._replace(surface=surface)
    return found._replace(outcome=SignalOutcome.DETECT_ONLY) if event in _IN_VAIN else found
