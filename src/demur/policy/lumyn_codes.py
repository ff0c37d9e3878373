"""Rename Lumyn's reason codes to registered ones, and read its list of codes.

A core code stays. Any other becomes a code of the organisation below the core code that says
the same more broadly; its class follows from how rules use it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from demur.codes.document import SCHEMA_VERSION, read_document
from demur.codes.entry import is_domain, name_problem
from demur.codes.registry import Registry
from demur.codes.vocabulary import Advice, Effect, RefusalClass, Verdict, strictest_verdict
from demur.errors import InputError, RegistryError
from demur.policy.lumyn_draft import ImportLog, PolicyDraft
from demur.policy.policy import Stage

# Chosen by the words of a code name; the first match wins.
_PARENTS = (
    (("MISSING",), "CONTEXT_MISSING"),
    (("LIMIT", "LIMITS"), "APPROVAL_LIMIT_EXCEEDED"),
    (("APPROVAL",), "APPROVAL_REQUIRED"),
    (("RISK", "FRAUD", "TAKEOVER", "CHARGEBACK"), "RISK_THRESHOLD_EXCEEDED"),
    (("REPEAT", "PATTERN", "ANOMALY"), "PATTERN_ANOMALY_DETECTED"),
    (("INVALID",), "EVIDENCE_INVALID"),
)
_DEFAULT_PARENTS = {
    Verdict.DENY: "POLICY_VIOLATION",
    Verdict.ABSTAIN: "EVIDENCE_INVALID",
    Verdict.ESCALATE: "APPROVAL_REQUIRED",
}
_MIN_PHRASE_LENGTH = 6
_Entries = Sequence[Mapping[str, Any]]


class CodeUse(NamedTuple):
    """One use of a code by a verdict that is not ALLOW; `hard` if a hard block uses it."""

    code: str
    verdict: Verdict
    hard: bool
    where: str
    rule: str | None


class CodeNames(NamedTuple):
    """The new name of each code, and the entries that the organisation has to add."""

    names: Mapping[str, str]
    entries: tuple[dict[str, Any], ...]


def list_code_uses(draft: PolicyDraft) -> list[CodeUse]:
    """Return every use of a code by a verdict that is not ALLOW."""
    uses = [
        CodeUse(code, rule.verdict, rule.stage is Stage.HARD_BLOCKS, rule.where, rule.id)
        for rule in draft.rules
        if rule.verdict is not Verdict.ALLOW
        for code in rule.codes
    ]
    if draft.code is not None and draft.verdict is not Verdict.ALLOW:
        uses.append(CodeUse(draft.code, draft.verdict, False, draft.source, None))
    return uses


def name_codes(
    uses: Iterable[CodeUse],
    registry: Registry,
    domain: str | None,
    descriptions: Mapping[str, str],
    log: ImportLog,
) -> CodeNames:
    """Return the new name of each code, and an entry for each unregistered one.

    Raises:
        InputError: A code needs a domain and none was given, or the domain is invalid.
    """
    if domain is not None and not is_domain(domain):
        raise InputError(f"`{domain}` is not a domain", help="like `example.com`")
    by_code: dict[str, list[CodeUse]] = {}
    for use in uses:
        by_code.setdefault(use.code, []).append(use)
    names: dict[str, str] = {}
    entries: list[dict[str, Any]] = []
    homeless: list[str] = []
    for code, used in by_code.items():
        known = _registered_name(code, registry, domain)
        if known is not None:
            names[code] = known
            _compare_class(known, used, registry, log)
        elif name_problem(f"{domain or 'x-local'}/{code}") or code in registry:
            names[code] = _replace_code(code, used, registry, log)
        elif domain is None:
            homeless.append(code)
        else:
            names[code] = f"{domain}/{code}"
            entry = _build_entry(names[code], used, registry, descriptions.get(code))
            entries.append(entry)
            kind = f"a {_strictest_class(used)} under `{entry['parent']}`"
            message = f"`{code}` becomes `{names[code]}`, {kind}"
            log.add("code-renamed", used[0].where, message)
    if homeless:
        raise _domain_needed(homeless, by_code[homeless[0]][0].where)
    return CodeNames(names, tuple(entries))


def _registered_name(code: str, registry: Registry, domain: str | None) -> str | None:
    """Return the registered name of a code that refuses, or None."""
    for name in (code, f"{domain}/{code}"):
        entry = registry.get(name)
        if entry is not None and entry.effect is Effect.REFUSE:
            return name
    return None


def _domain_needed(codes: Sequence[str], where: str) -> InputError:
    named = ", ".join(f"`{code}`" for code in codes)
    verb = "is" if len(codes) == 1 else "are"
    help_text = "pass a domain that you own by `--domain example.com`: they become its codes"
    return InputError(f"{named} {verb} not in any registry", where=where, help=help_text)


def _strictest_class(uses: Iterable[CodeUse]) -> RefusalClass:
    """Return the strictest class that fits every use: a code that escalates must be liftable."""
    hard = all(use.hard for use in uses)
    return RefusalClass.HARD_BLOCK if hard else RefusalClass.WORKFLOW_BLOCK


def _choose_parent(code: str, uses: Sequence[CodeUse]) -> str:
    words = set(code.split("_"))
    for signs, parent in _PARENTS:
        if words.intersection(signs):
            return parent
    return _DEFAULT_PARENTS[strictest_verdict(use.verdict for use in uses)]


def _compare_class(name: str, uses: Sequence[CodeUse], registry: Registry, log: ImportLog) -> None:
    """Report a registered code whose class differs from its use: liftable or not."""
    hard = registry[name].refusal_class is RefusalClass.HARD_BLOCK
    for use in uses:
        if use.hard and not hard:
            message = f"`{name}` is a {registry[name].refusal_class} here: a grant may lift it"
        elif hard and not use.hard:
            message = f"`{name}` is a HARD_BLOCK here: no approval lifts it, {use.verdict} or not"
        else:
            continue
        help_text = "give it another code if that is not meant"
        log.add("code-class", use.where, message, help_text, rule=use.rule)


def _replace_code(code: str, uses: Sequence[CodeUse], registry: Registry, log: ImportLog) -> str:
    parent = _choose_parent(code, uses)
    why = name_problem(f"x-local/{code}") or "it says that something is allowed"
    assert registry[parent].effect is Effect.REFUSE
    log.add("code-replaced", uses[0].where, f"`{code}` becomes `{parent}`: {why}")
    return parent


def _build_entry(
    name: str, uses: Sequence[CodeUse], registry: Registry, words: str | None
) -> dict[str, Any]:
    code = name.rpartition("/")[2]
    parent = registry[_choose_parent(code, uses)]
    entry: dict[str, Any] = {
        "code": name,
        "description": words or f"{code.replace('_', ' ').capitalize()}; imported from a policy.",
        "parent": parent.code,
        "since": "1.0.0",
    }
    refusal_class = _strictest_class(uses)
    if refusal_class is not parent.refusal_class:
        entry["refusal_class"] = str(refusal_class)
        if refusal_class is RefusalClass.HARD_BLOCK:
            entry["advice"] = str(Advice.DO_NOT_RETRY)
    # Records and logs from before the import contain the bare name.
    if len(code) >= _MIN_PHRASE_LENGTH and code.casefold() not in registry.phrases:
        entry["aliases"] = [code]
    return entry


def empty_registry(domain: str, registry: Registry) -> dict[str, Any]:
    """Return an organisation's registry without codes, as JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "version": "1.0.0",
        "domain": domain,
        "min_core": registry.versions[""],
        "codes": [],
    }


def extend_registry(registry: Registry, domain: str | None, entries: _Entries) -> Registry:
    """Return `registry` with these entries of `domain` in it."""
    if domain is None or not entries:
        return registry
    core, others = registry.documents
    raw = {**empty_registry(domain, registry), "codes": list(entries)}
    added = read_document("the imported codes", json.dumps(raw))
    for document in others:
        if document.domain == domain:
            added = document._replace(rows=(*document.rows, *added.rows))
    return Registry(core, [added, *(one for one in others if one.domain != domain)])


def read_code_list(name: str, text: str) -> Mapping[str, str]:
    """Return the description of each code in Lumyn's JSON file `name`.

    Raises:
        RegistryError: It is not a list of codes.
    """
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise RegistryError(f"not JSON: {error.msg.lower()}", where=place) from error
    except (RecursionError, ValueError) as error:
        raise RegistryError("not a list of codes", where=name) from error
    rows = raw.get("codes") if isinstance(raw, dict) else None
    if not isinstance(rows, list):
        raise RegistryError("Lumyn's codes are an object with a list called `codes`", where=name)
    return dict(_read_listing_row(name, number, row) for number, row in enumerate(rows))


def _read_listing_row(name: str, number: int, row: object) -> tuple[str, str]:
    code = row.get("code") if isinstance(row, dict) else None
    words = row.get("description", "") if isinstance(row, dict) else None
    if not isinstance(code, str) or not isinstance(words, str):
        raise RegistryError("a code has a name and a description", where=f"{name}: codes[{number}]")
    return code, words.strip()
