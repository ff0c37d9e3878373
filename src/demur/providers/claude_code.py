"""Read Claude Code and its Agent SDK: hooks, permission results, session records.

A refusal line in the reason gives the code. A hook that exits with status 2 blocks. Any
other failure lets the action run, and the hook's decision is unknown. A block after a tool
has run, or when an agent wants to stop, prevents nothing.
"""

from demur.codes.vocabulary import Surface
from demur.providers.carried import carried
from demur.providers.mapping import Judged, system
from demur.providers.node import Node
from demur.providers.shape import Shape
from demur.providers.signal import Outcome, Signal
from demur.providers.upstream import by_category

__all__ = ["NAME", "read"]

NAME = "claude_code"
_IN_VAIN = frozenset({"PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop", "Notification"})
_HOOK_OUTPUT = frozenset(
    {
        *("continue", "continue_", "stopReason", "suppressOutput", "systemMessage"),
        *("decision", "reason", "hookSpecificOutput", "terminalSequence"),
    }
)
_SURFACES = {
    "PreToolUse": Surface.TOOL_CALL,
    "PermissionRequest": Surface.TOOL_CALL,
    "UserPromptSubmit": Surface.INPUT,
    "UserPromptExpansion": Surface.INPUT,
    "PreCompact": Surface.COMPACTION,
}


def read(shape: Shape) -> Signal | None:
    """Return the refusal in a hook's output, a permission result or a record, or None."""
    own = shape.own
    return _hook(own) or _hook_run(own) or _permission(own) or _record(own) or _denials(own)


def _hook(own: Node) -> Signal | None:
    special = own["hookSpecificOutput"]
    event = special["hookEventName"].text
    answer = special["decision"]
    places = (
        ("permission_decision", special["permissionDecision"], special["permissionDecisionReason"]),
        ("behavior", answer["behavior"], answer["message"]),
        ("decision", own["decision"], own["reason"]),
    )
    for field, node, reason in places:
        judged = system(NAME).judge(field, node.text)
        if judged.code is not None:
            return _said(judged, node, reason, event)
    return _halted(own, event)


def _halted(own: Node, event: str | None) -> Signal | None:
    stop = own["continue"] or own["continue_"]
    # Other objects have this field too: every field must be one of a hook output.
    if stop.raw is not False or {name for name, _ in own.fields()} - _HOOK_OUTPUT:
        return None
    return _said(system(NAME).judge("continue", "false"), stop, own["stopReason"], event)


def _hook_run(own: Node) -> Signal | None:
    """Return the refusal in the record of a hook run, by its exit status."""
    event, status = own["hook_event"].text, own["exit_code"].number
    if event is None or status is None or event in _IN_VAIN:
        return None
    listed = system(NAME)["exit_code"]
    judged = listed.judge(f"{status:.0f}")
    ended, errors = own["exit_code"], own["stderr"]
    if not judged.known:
        # The action ran regardless of the output, so this is not a refusal.
        return listed.judge("other").signal(ended, detail=errors.text or "")
    # With status 2 the host ignores stdout; stderr is the reason.
    return None if judged.code is None else _said(judged, ended, errors, event)


def _permission(own: Node) -> Signal | None:
    """Return the refusal in the result of `can_use_tool`, or None."""
    answer = own["behavior"]
    judged = system(NAME).judge("behavior", answer.text)
    refused = judged.code is not None
    return _said(judged, answer, own["message"], "PermissionRequest") if refused else None


def _record(own: Node) -> Signal | None:
    """Return the model's refusal in a session record, or None."""
    subtype = own["subtype"].text or ""
    found = own["apiRefusalCategory"]
    if not found and not subtype.startswith("model_refusal"):
        return None
    served = own["fallbackModel"].text
    closer = by_category(NAME, found, served_by=served)
    judged = system(NAME).judge("refusal_record", "*")
    return closer or judged.signal(own["subtype"], served_by=served)


def _denials(own: Node) -> Signal | None:
    """Return the refusal in a run's result that lists denied tools, or None."""
    denials = [*own["permission_denials"]]
    if not denials:
        return None
    tools = [tool for denial in denials if (tool := denial["tool_name"].text)]
    named = ", ".join(dict.fromkeys(tools))
    # Tool arguments may contain anything, so they are left out.
    native = [{"tool_name": tool} for tool in tools]
    evidence = {"tool": named, "count": len(denials), "left_out": ["tool_input"]}
    judged = system(NAME).judge("permission_denials", "*")
    found = own["permission_denials"]
    return judged.signal(found, native=native, evidence=evidence, detail=f"not allowed: {named}")


def _said(judged: Judged, node: Node, reason: Node, event: str | None) -> Signal:
    surface = _SURFACES.get(event or "")
    words = reason.text or ""
    found = carried(NAME, reason, last=True) or judged.signal(node, detail=words)
    if found.surface is None:
        found = found._replace(surface=surface)
    return found._replace(outcome=Outcome.DETECT_ONLY) if event in _IN_VAIN else found
