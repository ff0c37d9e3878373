"""What must hold among entries before they become a registry.

Each rule yields problems; none stops the others, so that an author sees all at once.
"""

from collections.abc import Iterator, Mapping

from demur.codes.document import RegistryDocument, RegistryRow
from demur.codes.entry import Entry
from demur.codes.names import is_domain, name_problem
from demur.codes.vocabulary import Advice, Effect, RefusalClass, Stability
from demur.errors import Problem
from demur.source.suggest import did_you_mean

__all__ = [
    "REQUIRED_OF_ORGANISATIONS",
    "check_document",
    "check_entry",
    "check_phrase",
    "check_row",
]

REQUIRED_OF_ORGANISATIONS = ("code", "description", "parent", "since")

_MIN_PHRASE_LENGTH = 6
_MAX_PHRASE_LENGTH = 200
_HARD_ADVICE = (
    Advice.DO_NOT_RETRY,
    Advice.CHANGE_REQUEST,
    Advice.RESET_CONTEXT,
    Advice.ESCALATE_OPERATOR,
)


def check_document(document: RegistryDocument, core_version: str) -> Iterator[Problem]:
    """Yield the problems of an organisation's file as a whole."""
    where = f"{document.where}: domain"
    if document.domain is None:
        help_text = 'add `"domain": "example.com"`, a name you own, and write codes under it'
        yield Problem(where, "an organisation's registry needs a domain", help_text)
    elif not is_domain(document.domain):
        yield Problem(where, f"`{document.domain}` is not a domain", "like `example.com`")
    if document.min_core and _version_numbers(document.min_core) > _version_numbers(core_version):
        problem = f"needs core {document.min_core}, but this is core {core_version}"
        yield Problem(f"{document.where}: min_core", problem, "upgrade demur")


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def check_row(
    row: RegistryRow, document: RegistryDocument, core: Mapping[str, Entry]
) -> Iterator[Problem]:
    """Yield the problems of an organisation's row, before inherited fields are filled in."""
    for name in REQUIRED_OF_ORGANISATIONS:
        if row.fields.get(name) is None:
            yield Problem(row.where, f"an organisation's code needs `{name}`")
    domain, slash, local = row.code.rpartition("/")
    if not slash:
        problem = "redefines a core code" if row.code in core else "has no domain"
        yield Problem(row.where, problem, f"write it as `{document.domain or 'domain'}/{local}`")
    elif document.domain is not None and domain != document.domain:
        problem = f"belongs to `{domain}`, but this file speaks for `{document.domain}`"
        yield Problem(row.where, problem)
    parent = row.fields.get("parent")
    if parent is not None and parent not in core:
        hint = did_you_mean(parent, core) or "`demur codes list` shows them all"
        yield Problem(row.where, f"unknown parent `{parent}`: a parent is a core code", hint)


def check_entry(entry: Entry, where: str, known: Mapping[str, Entry]) -> Iterator[Problem]:
    """Yield the problems of a complete entry among the `known` ones."""
    if problem := name_problem(entry.code):
        yield Problem(where, f"bad name `{entry.code}`: {problem}")
    yield from _check_effect(entry, where)
    yield from _check_refusal(entry, where)
    yield from _check_grants(entry, where)
    yield from _check_deprecation(entry, where, known)
    if entry.parent is not None:
        if entry.parent in known:
            yield from _check_parent(entry, known[entry.parent], where)
        else:
            hint = did_you_mean(entry.parent, known)
            yield Problem(where, f"unknown parent `{entry.parent}`", hint)
    if _is_own_ancestor(entry, known):
        yield Problem(where, f"is its own ancestor through `{entry.parent}`")


def _check_effect(entry: Entry, where: str) -> Iterator[Problem]:
    for name in ("refusal_class", "advice", "retry_scope"):
        given = getattr(entry, name) is not None
        if given != (entry.effect is Effect.REFUSE):
            verb = "must not have" if given else "needs"
            yield Problem(where, f"a code with effect `{entry.effect}` {verb} `{name}`")


def _check_refusal(entry: Entry, where: str) -> Iterator[Problem]:
    if entry.effect is Effect.REFUSE and entry.http < 400:
        yield Problem(where, f"HTTP status {entry.http} does not refuse", "4xx or 5xx")
    if entry.effect is Effect.ALLOW and entry.aliases:
        yield Problem(where, "a code that allows has no legacy phrases of refusals")


def _check_grants(entry: Entry, where: str) -> Iterator[Problem]:
    # INVARIANT: only a workflow block names grants, and a hard block advises no way around.
    if entry.grants and entry.refusal_class is not RefusalClass.WORKFLOW_BLOCK:
        yield Problem(where, "only a WORKFLOW_BLOCK can be lifted by grants", "leave `grants` out")
    if entry.refusal_class is RefusalClass.HARD_BLOCK and entry.advice not in _HARD_ADVICE:
        problem = f"a HARD_BLOCK cannot advise `{entry.advice}`: nothing lifts it"
        yield Problem(where, problem, f"one of {', '.join(_HARD_ADVICE)}")
    if entry.grants and not entry.decided:
        yield Problem(where, "no grant lifts a code that was not decided", "leave `grants` out")


def _check_deprecation(entry: Entry, where: str, known: Mapping[str, Entry]) -> Iterator[Problem]:
    if entry.deprecated != (entry.stability is Stability.DEPRECATED):
        yield Problem(where, "`deprecated` and `stability` disagree")
    if entry.deprecated and entry.deprecated_since is None:
        yield Problem(where, "a deprecated code needs `deprecated_since`")
    if not entry.deprecated and (entry.deprecated_since or entry.replacement):
        yield Problem(where, "only a deprecated code has `deprecated_since` or `replacement`")
    if entry.replacement is not None:
        target = known.get(entry.replacement)
        if target is None:
            hint = did_you_mean(entry.replacement, known)
            yield Problem(where, f"unknown replacement `{entry.replacement}`", hint)
        elif target.deprecated:
            yield Problem(where, f"the replacement `{target.code}` is deprecated itself")


def _check_parent(entry: Entry, parent: Entry, where: str) -> Iterator[Problem]:
    if entry.effect is not parent.effect:
        yield Problem(where, f"effect `{entry.effect}` differs from that of `{parent.code}`")
    if entry.decided != parent.decided:
        yield Problem(where, f"`decided` differs from that of `{parent.code}`")
    if (
        entry.refusal_class is not None
        and parent.refusal_class is not None
        and entry.refusal_class.strictness < parent.refusal_class.strictness
    ):
        problem = f"{entry.refusal_class} is weaker than {parent.refusal_class} of `{parent.code}`"
        yield Problem(where, problem, "a child may tighten its parent's class, never weaken it")
    if lost := [duty for duty in parent.obligations if duty not in entry.obligations]:
        yield Problem(where, f"drops the obligation `{lost[0]}` of `{parent.code}`")
    if entry.refusal_class is parent.refusal_class and not set(entry.grants) <= set(parent.grants):
        problem = f"names a grant that does not lift `{parent.code}`"
        yield Problem(where, problem, "a child may be harder to lift than its parent, not easier")


def _is_own_ancestor(entry: Entry, known: Mapping[str, Entry]) -> bool:
    seen: set[str] = set()
    above = entry.parent
    while above is not None and above in known and above not in seen:
        seen.add(above)
        above = known[above].parent
    return entry.code in seen


def check_phrase(phrase: str, where: str, owner: str | None) -> Iterator[Problem]:
    """Yield the problems of a legacy phrase; `owner` is the code that already has it."""
    folded = phrase.casefold()
    shown = f"phrase `{phrase[:60]}`"
    if owner is not None:
        help_text = "a phrase keeps its meaning for ever; choose a longer, more specific one"
        yield Problem(where, f"{shown} is already taken by `{owner}`", help_text)
    if not _MIN_PHRASE_LENGTH <= len(phrase) <= _MAX_PHRASE_LENGTH:
        problem = f"{shown} must have {_MIN_PHRASE_LENGTH} to {_MAX_PHRASE_LENGTH} characters"
        yield Problem(where, problem)
    if phrase != phrase.strip() or not phrase.isprintable():
        yield Problem(where, f"{shown} must be one line without outer spaces")
    if "refused:" in folded:
        yield Problem(where, f"{shown} contains `refused:`, which marks a canonical line")
