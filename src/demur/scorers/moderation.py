"""The wire shapes of moderation services: OpenAI, Azure, Bedrock and Model Armor.

Each service is two pure functions: one builds the calls for some texts, one reads a reply. A reply
that says that not everything was judged, or that cannot be read, is a failure and never a pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from demur.codes.vocabulary import Surface
from demur.scorers.contract import CategoryScores, ScorerError, ScorerText, category_name
from demur.scorers.settings import ModelSettings

_AZURE_VERSION = "2024-09-01"
_AZURE_CATEGORIES = ["Hate", "SelfHarm", "Sexual", "Violence"]
_AZURE_MAX_SEVERITY = 7
_SHIELDED = frozenset({Surface.INPUT, Surface.TOOL_RESULT, Surface.RETRIEVAL})
_CONFIDENCE = {"NONE": 0.0, "LOW": 0.3333, "MEDIUM": 0.6667, "HIGH": 1.0}
_ARMOR_CONFIDENCE = {
    "LOW_AND_ABOVE": 0.3333,
    "LOW": 0.3333,
    "MEDIUM_AND_ABOVE": 0.6667,
    "MEDIUM": 0.6667,
    "HIGH": 1.0,
}
# The filters of a list, which names none: their results have names of their own.
_ARMOR_FILTERS = {
    "raiFilterResult": "rai",
    "sdpFilterResult": "sdp",
    "piAndJailbreakFilterResult": "pi_and_jailbreak",
    "maliciousUriFilterResult": "malicious_uris",
    "csamFilterFilterResult": "csam",
    "virusScanFilterResult": "virus_scan",
}
_FLAGGED, _LOGIC = "flagged", "logic"
# What a formal check of an answer says: whether it contradicts the policy, or may do so.
_REASONING = {"valid": 0.0, "satisfiable": 0.5, "invalid": 1.0, "impossible": 1.0}


class WireCall(NamedTuple):
    """One call of a model: a path below its address, a body, and the texts that it scores.

    `category` is the one that it asks for, where a kind asks one by one.
    """

    path: str
    body: Mapping[str, Any]
    texts: tuple[ScorerText, ...]
    category: str = ""


def unreadable_reply(problem: str) -> ScorerError:
    """Return the failure of a reply that cannot be read."""
    return ScorerError("invalid_reply", f"cannot read the reply: {problem}")


def partial_reply(problem: str) -> ScorerError:
    """Return the failure of a reply that judged only a part."""
    return ScorerError("invalid_reply", f"not everything was judged: {problem}")


def require_part(value: Any, kind: type[Any], name: str) -> Any:
    """Return a part of a reply.

    Raises:
        ScorerError: It is missing, or of another type.
    """
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise unreadable_reply(f"no `{name}`")
    return value


def require_score(value: Any, name: str) -> float:
    """Return a score of a reply.

    Raises:
        ScorerError: It is no number from 0 to 1.
    """
    number = float(require_part(value, (int, float), name))  # type: ignore[arg-type]
    # Some services give 1.0000001 for what is certain.
    if not -0.001 <= number <= 1.001:
        raise unreadable_reply(f"`{name}` is not between 0 and 1")
    return min(max(number, 0.0), 1.0)


def known_name(settings: ModelSettings, native: str) -> str:
    """Return a provider's category as rules name it, in whatever case it is written."""
    known = settings.defaults.all_categories
    if native not in known:
        by_fold = {one.casefold(): one for one in known}
        native = by_fold.get(native.casefold(), native)
    return (known[native].name if native in known else "") or category_name(native)


# -- OpenAI ------------------------------------------------------------------------------------


def build_openai(settings: ModelSettings, texts: Sequence[ScorerText]) -> Iterator[WireCall]:
    """Yield the calls for some texts; one call scores several of them."""
    size = settings.defaults.batch
    for start in range(0, len(texts), size):
        batch = tuple(texts[start : start + size])
        body = {"model": settings.model, "input": [one.text for one in batch]}
        yield WireCall("/moderations", body, batch)


def parse_openai(settings: ModelSettings, call: WireCall, reply: Any) -> Iterator[CategoryScores]:
    """Yield the scores of each text of a call."""
    results = require_part(require_part(reply, dict, "results").get("results"), list, "results")
    if len(results) != len(call.texts):
        raise unreadable_reply(f"{len(results)} results for {len(call.texts)} texts")
    for result in results:
        one = require_part(result, dict, "results")
        flags = require_part(one.get("categories"), dict, "categories")
        raw = require_part(one.get("category_scores"), dict, "category_scores")
        # A category that this model does not have may be null.
        numbers = {name: value for name, value in raw.items() if value is not None}
        if not numbers:
            raise unreadable_reply("no `category_scores`")
        scores = {known_name(settings, name): require_score(v, name) for name, v in numbers.items()}
        flagged = {known_name(settings, name) for name, flag in flags.items() if flag is True}
        if require_part(one.get("flagged"), bool, "flagged") and not flagged:
            flagged = {_FLAGGED}
        yield CategoryScores(scores, frozenset(flagged))


# -- Azure AI Content Safety -------------------------------------------------------------------


def build_azure(settings: ModelSettings, texts: Sequence[ScorerText]) -> Iterator[WireCall]:
    """Yield the calls for some texts: an analysis of each, and the prompt shield if it is on."""
    for one in texts:
        body: dict[str, Any] = {
            "text": one.text,
            "categories": _AZURE_CATEGORIES,
            "outputType": "EightSeverityLevels",
        }
        if settings.blocklists:
            # A hit must not end the analysis: the severities count as well.
            body |= {"blocklistNames": [*settings.blocklists], "haltOnBlocklistHit": False}
        path = f"/contentsafety/text:analyze?api-version={_AZURE_VERSION}"
        yield WireCall(path, body, (one,))
        if settings.prompt_shield and one.surface in _SHIELDED:
            is_prompt = one.surface == Surface.INPUT
            shield = {"userPrompt": one.text} if is_prompt else {"documents": [one.text]}
            path = f"/contentsafety/text:shieldPrompt?api-version={_AZURE_VERSION}"
            yield WireCall(path, shield, (one,), "prompt_attack")


def parse_azure(settings: ModelSettings, call: WireCall, reply: Any) -> Iterator[CategoryScores]:
    """Yield the scores of the text of a call."""
    whole = require_part(reply, dict, "categoriesAnalysis")
    if call.category:
        yield _parse_shield(whole)
        return
    listed = require_part(whole.get("categoriesAnalysis"), list, "categoriesAnalysis")
    scores: dict[str, float] = {}
    for one in listed:
        name = require_part(require_part(one, dict, "category").get("category"), str, "category")
        severity = require_part(one.get("severity"), int, "severity")
        scores[known_name(settings, name)] = require_score(
            severity / _AZURE_MAX_SEVERITY, "severity"
        )
    missing = {known_name(settings, name) for name in _AZURE_CATEGORIES} - scores.keys()
    if missing:
        raise partial_reply(f"no severity of {', '.join(sorted(missing))}")
    least = settings.flag_above
    flagged = {name for name, score in scores.items() if least is not None and score > least}
    matches = bool(whole.get("blocklistsMatch"))
    yield CategoryScores(
        {**scores, "blocklist": float(matches)},
        frozenset(flagged | ({"blocklist"} if matches else set())),
    )


def _parse_shield(whole: Mapping[str, Any]) -> CategoryScores:
    prompt, documents = whole.get("userPromptAnalysis"), whole.get("documentsAnalysis") or []
    analyses = [*([] if prompt is None else [prompt]), *documents]
    if not analyses:
        raise unreadable_reply("no `userPromptAnalysis`")
    attacks = [
        require_part(
            require_part(one, dict, "attackDetected").get("attackDetected"), bool, "attackDetected"
        )
        for one in analyses
    ]
    found = any(attacks)
    return CategoryScores(
        {"prompt_attack": float(found)}, frozenset({"prompt_attack"} if found else ())
    )


# -- Amazon Bedrock Guardrails -----------------------------------------------------------------


def build_bedrock(settings: ModelSettings, texts: Sequence[ScorerText]) -> Iterator[WireCall]:
    """Yield the calls for some texts."""
    guardrail, version = quote(settings.guardrail, safe=""), quote(settings.guardrail_version)
    for one in texts:
        body = {
            "source": "OUTPUT" if one.surface == Surface.OUTPUT else "INPUT",
            "content": [{"text": {"text": one.text}}],
            "outputScope": "FULL",
        }
        yield WireCall(f"/guardrail/{guardrail}/version/{version}/apply", body, (one,))


def parse_bedrock(settings: ModelSettings, _call: WireCall, reply: Any) -> Iterator[CategoryScores]:
    """Yield the scores of the text of a call."""
    whole = require_part(reply, dict, "action")
    action = require_part(whole.get("action"), str, "action")
    assessments = require_part(whole.get("assessments"), list, "assessments")
    covered = (whole.get("guardrailCoverage") or {}).get("textCharacters") or {}
    if covered.get("guarded") != covered.get("total"):
        raise partial_reply(f"{covered.get('guarded')} of {covered.get('total')} characters")
    # Of these the service lists only what it found.
    scores = {"word": 0.0, "sensitive": 0.0}
    flagged: set[str] = set()
    for assessment in assessments:
        parts = require_part(assessment, dict, "assessments")
        for name, score, is_blocked in _iter_bedrock(settings, parts):
            scores[name] = max(score, scores.get(name, 0.0))
            flagged |= {name} if is_blocked else set()
    is_masked = _is_masked(assessments) and "block" not in str(whole.get("actionReason")).lower()
    if action == "GUARDRAIL_INTERVENED" and not flagged and not is_masked:
        # What a formal check finds is the reason if nothing else is.
        flagged.add(_LOGIC if scores.get(_LOGIC) else _FLAGGED)
    yield CategoryScores(scores, frozenset(flagged))


def _iter_bedrock(
    settings: ModelSettings, parts: Mapping[str, Any]
) -> Iterator[tuple[str, float, bool]]:
    """Yield category, score and whether it is blocked, for each part of an assessment."""
    for one in _list_parts(parts, "contentPolicy", "filters"):
        native = require_part(one.get("type"), str, "type")
        score = _CONFIDENCE.get(str(one.get("confidence")), 0.0)
        yield known_name(settings, native), score, one.get("action") == "BLOCKED"
    named = (
        ("topic", "topicPolicy", "topics"),
        ("word", "wordPolicy", "customWords"),
        ("word", "wordPolicy", "managedWordLists"),
        ("sensitive", "sensitiveInformationPolicy", "piiEntities"),
        ("sensitive", "sensitiveInformationPolicy", "regexes"),
    )
    for name, policy, field in named:
        for one in _list_parts(parts, policy, field):
            acted = one.get("action") in {"BLOCKED", "ANONYMIZED"}
            found = acted or one.get("detected") is True
            # What is only masked is a score and no reason to block.
            yield name, float(found), one.get("action") == "BLOCKED"
    for one in _list_parts(parts, "contextualGroundingPolicy", "filters"):
        grounded = require_score(one.get("score"), "score")
        yield "grounding", 1 - grounded, one.get("action") == "BLOCKED"
    for one in _list_parts(parts, "automatedReasoningPolicy", "findings"):
        if "tooComplex" in one:
            raise partial_reply("the answer is too complex for a formal check")
        # Other findings say that nothing was there to check, and give no score.
        yield from ((_LOGIC, score, False) for name, score in _REASONING.items() if name in one)


def _is_masked(assessments: Sequence[Mapping[str, Any]]) -> bool:
    fields = ("piiEntities", "regexes")
    return any(
        one.get("action") == "ANONYMIZED"
        for parts in assessments
        for field in fields
        for one in _list_parts(parts, "sensitiveInformationPolicy", field)
    )


def _list_parts(parts: Mapping[str, Any], policy: str, field: str) -> list[dict[str, Any]]:
    listed = (parts.get(policy) or {}).get(field) or []
    return [require_part(one, dict, field) for one in require_part(listed, list, field)]


# -- Google Model Armor ------------------------------------------------------------------------


def build_armor(settings: ModelSettings, texts: Sequence[ScorerText]) -> Iterator[WireCall]:
    """Yield the calls for some texts."""
    for one in texts:
        if one.surface == Surface.OUTPUT:
            body: dict[str, Any] = {"modelResponseData": {"text": one.text}}
            body |= {"userPrompt": one.prompt} if one.prompt else {}
            verb = "sanitizeModelResponse"
        else:
            body, verb = {"userPromptData": {"text": one.text}}, "sanitizeUserPrompt"
        yield WireCall(f"/v1/{quote(settings.template)}:{verb}", body, (one,))


def parse_armor(settings: ModelSettings, _call: WireCall, reply: Any) -> Iterator[CategoryScores]:
    """Yield the scores of the text of a call."""
    whole = require_part(reply, dict, "sanitizationResult")
    result = require_part(whole.get("sanitizationResult"), dict, "sanitizationResult")
    if result.get("invocationResult") != "SUCCESS":
        raise partial_reply(f"the invocation ended with `{result.get('invocationResult')}`")
    scores: dict[str, float] = {}
    flagged: set[str] = set()
    for native, part in _list_filters(result.get("filterResults")):
        for name, found in _iter_armor(settings, native, part):
            scores[name] = _armor_score(found)
            flagged |= {name} if found.get("matchState") == "MATCH_FOUND" else set()
    state = require_part(result.get("filterMatchState"), str, "filterMatchState")
    if state == "MATCH_FOUND" and not flagged:
        flagged.add(_FLAGGED)
    yield CategoryScores(scores, frozenset(flagged))


def _list_filters(filters: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and result of each filter: the service sends a map, and some clients a list."""
    if isinstance(filters, list):
        for part in filters:
            first = next(iter(require_part(part, dict, "filterResults")), "")
            yield _ARMOR_FILTERS.get(first, first), part
    else:
        yield from require_part(filters, dict, "filterResults").items()


def _iter_armor(
    settings: ModelSettings, native: str, part: Any
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield category and result of one filter, or of each kind of harm in it."""
    # A filter's result stands under the filter's own name, as in `csamFilterFilterResult`.
    for result in require_part(part, dict, native).values():
        inner = require_part(result, dict, native)
        judged = inner.get("inspectResult") or inner.get("deidentifyResult") or inner
        if judged.get("executionState") not in {None, "EXECUTION_SUCCESS"}:
            raise partial_reply(f"the filter `{native}` did not run")
        kinds = judged.get("raiFilterTypeResults")
        if kinds is None:
            yield known_name(settings, native), judged
            continue
        if isinstance(kinds, list):
            kinds = {str(one.get("filterType")): one for one in kinds}
        for kind, found in require_part(kinds, dict, "raiFilterTypeResults").items():
            yield known_name(settings, kind.upper()), require_part(found, dict, kind)


def _armor_score(found: Mapping[str, Any]) -> float:
    if found.get("matchState") != "MATCH_FOUND":
        return 0.0
    return _ARMOR_CONFIDENCE.get(str(found.get("confidenceLevel")), 1.0)
