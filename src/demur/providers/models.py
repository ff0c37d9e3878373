"""Read other models and gateways: Mistral, Cohere, guard models, Cloudflare and Portkey.

The last reader recognises errors that no mapping lists and that look like a refusal.
"""

import re
from collections.abc import Iterator

from demur.providers.node import Node
from demur.providers.shape import ResponseShape
from demur.providers.signals import (
    UNSPECIFIED_CODE,
    Interpretation,
    Signal,
    SignalOutcome,
    interpret,
    load_system,
    looks_like_policy,
    max_signal,
)

_MISTRAL = "mistral"
_BLOCKED = 403
_FAULT = re.compile(r"unavailable|time_?d?_?out|internal|serv(?:er|ice)_error|failure")
# A request may fail a guardrail, or a guardrail may fail; only then nothing was judged.
_FAULT_WORDS = re.compile(
    r"unavailable|timed? ?out|block_on_error|(?:service|server|internal) (?:error|failure)"
    r"|(?:guardrails?|moderation)(?: \w+){0,2} (?:failed|failure|errored|crashed)"
    r"|(?:could not|cannot|unable to|failed to) (?:be )?(?:run|reach|load|call|respond|start)",
    re.IGNORECASE,
)


def read_mistral(shape: ResponseShape) -> Signal | None:
    """Return the signal of a 403, or of guardrail results in an answer."""
    error = shape.body["error"] if shape.body["error"].present else shape.body
    places = (shape.body, error, error["detail"])
    results = (result for place in places for result in place["guardrails"])
    decided = max_signal(_read_guardrail(result, shape) for result in results)
    if decided is not None or not _is_block(shape, error):
        return decided
    broke = _is_fault(error)
    judged = interpret(_MISTRAL, "status", "403 without a verdict" if broke else "403")
    evidence = {"native_reason": error["type"].text, "message": error["message"].text}
    # Final: to other readers, a guardrail's failure looks like a block.
    place = error.derive(_BLOCKED, "HTTP status")
    return judged.to_signal(place, evidence=evidence, is_final=True)


def _read_guardrail(guardrail: Node, shape: ResponseShape) -> Signal | None:
    """Return the signal of one guardrail, by its action or because the request failed."""
    for name in ("moderation_llm_v2", "moderation_llm_v1"):
        found = guardrail[name] if guardrail[name].present else guardrail
        action = found["action"]
        judged = interpret(_MISTRAL, "action", action.text or ("block" if shape.failed else "none"))
        hit = [word for word, flagged in found["categories"].fields() if flagged.is_true]
        if not action.present and not hit:
            continue
        if hit and judged.outcome is SignalOutcome.REFUSAL:
            judged = interpret(_MISTRAL, "category", hit[0])
        return judged.to_signal(found, evidence={"categories": hit})
    return None


def _is_block(shape: ResponseShape, error: Node) -> bool:
    """Return whether a 403 comes from a guardrail: others are about keys and permissions."""
    if shape.status != _BLOCKED:
        return False
    ours = shape.package == "mistralai" or error["object"].text == "error"
    words = " ".join(filter(None, (error[name].text for name in ("type", "code", "message"))))
    return ours and any(word in words.casefold() for word in ("guardrail", "moderation"))


def _is_fault(error: Node) -> bool:
    """Return whether the guardrail itself failed, by typed fields and then by the message."""
    typed = " ".join(filter(None, (error[name].text for name in ("type", "code"))))
    if _FAULT.search(typed):
        return True
    words = error["message"].text or ""
    # A message that names a category means that the guardrail did judge.
    known = load_system(_MISTRAL)["category"].values
    spelled = "|".join(value.value.replace("_", "[ _]") for value in known)
    named = re.search(rf"[:(\['`]\s*(?:{spelled})\b", words, re.IGNORECASE)
    return named is None and _FAULT_WORDS.search(words) is not None


_COHERE = "cohere"


def read_cohere(shape: ResponseShape) -> Signal | None:
    """Return the signal of a chat or generate answer, or of the last event of a stream."""
    body = shape.body
    places = [body, body["response"], body["delta"], *body["generations"]]
    reasons = (place["finish_reason"] for place in places)
    # Only Cohere writes the values of this field in capitals.
    return max_signal(
        interpret(_COHERE, "finish_reason", reason.text).to_signal(reason)
        for reason in reasons
        if reason.text is not None and reason.text.isupper()
    )


_GATEWAYS = "gateways"


def read_gateways(shape: ResponseShape) -> Signal | None:
    """Return the signal of a gateway in front of the model."""
    return max_signal([*_read_cloudflare(shape.body), _read_portkey(shape)])


def _read_cloudflare(body: Node) -> Iterator[Signal]:
    for error in (*body["errors"], *body["error"], body["error"]):
        code = error["code"]
        word = code.text or (f"{code.number:.0f}" if code.number is not None else None)
        judged = interpret(_GATEWAYS, "cloudflare_code", word)
        if judged.known:
            yield judged.to_signal(code, detail=error["message"].text or "")


def _read_portkey(shape: ResponseShape) -> Signal | None:
    status = None if shape.status is None else str(shape.status)
    judged = interpret(_GATEWAYS, "portkey_status", status)
    hooks = shape.body["hook_results"]
    if not hooks.present:
        hooks = shape.body["error"]["hook_results"]
    failed = list(_failed_checks(hooks))
    if not judged.known:
        return None
    for side, check in failed:
        exact = interpret(_GATEWAYS, "portkey_check", check["id"].text)
        narrow = exact if exact.known and judged.outcome is SignalOutcome.REFUSAL else judged
        evidence = {"check": check["id"].text, "stage": side}
        more = {"outcome": judged.outcome, "surface": side, "evidence": evidence}
        return narrow.to_signal(check["id"], **more)
    return judged.to_signal(hooks, path="HTTP status", native=shape.status)


def _failed_checks(hooks: Node) -> Iterator[tuple[str, Node]]:
    """Yield each failed check, with its side."""
    for side, name in (("input", "before_request_hooks"), ("output", "after_request_hooks")):
        for hook in hooks[name]:
            for check in hook["checks"]:
                if check["verdict"].raw is False:
                    yield side, check


_GUARD_MODELS = "guard_models"
_UNSAFE = re.compile(r"\s*unsafe\s*\n\s*(S[0-9]{1,2}(?:\s*,\s*S[0-9]{1,2})*)\s*", re.IGNORECASE)
_UNSAFE_ALONE = re.compile(r"\s*unsafe\s*", re.IGNORECASE)
_NUMBERED = re.compile(r"llama-?guard-?[34]", re.IGNORECASE)
_GUARD = re.compile(r"guard|moderat|safe|shield", re.IGNORECASE)
_MAX_VERDICT_LENGTH = 200


def read_guard_models(shape: ResponseShape) -> Signal | None:
    """Return the verdict of a guard model, in an answer or as bare text.

    The format must be the whole answer. Category numbers have a meaning for Llama Guard 3 and
    4 only; from any other named model, an unsafe answer counts as harmful and no more.
    """
    model = shape.body["model"].text or shape.body["modelVersion"].text or ""
    return max_signal(_read_verdict(words, model) for words in _find_answers(shape.body))


def _find_answers(body: Node) -> Iterator[Node]:
    """Yield the text of an answer, in the formats of servers for such models."""
    yield body
    for name in ("response", "generated_text", "content", "output"):
        yield body[name]
    yield body["message"]["content"]
    for choice in body["choices"]:
        yield choice["message"]["content"]
        yield choice["text"]
    for candidate in body["candidates"]:
        yield from (part["text"] for part in candidate["content"]["parts"])


def _read_verdict(words: Node, model: str) -> Signal | None:
    text = words.text
    if text is None or len(text) > _MAX_VERDICT_LENGTH:
        return None
    if "shieldgemma" in model.casefold():
        first = re.match(r"\s*\**(yes|no)\b", text, re.IGNORECASE)
        judged = interpret(_GUARD_MODELS, "shield_gemma", first[1]) if first else None
        return judged.to_signal(words) if judged else None
    # Any model can be made to write this; only a guard model means it.
    if model and not _GUARD.search(model):
        return None
    match = _UNSAFE.fullmatch(text)
    if match is not None:
        return _read_llama_guard(words, re.findall(r"S[0-9]+", match[1].upper()), model)
    if model and _UNSAFE_ALONE.fullmatch(text):
        return _harmful_signal(words, [])
    return None


def _read_llama_guard(words: Node, categories: list[str], model: str) -> Signal | None:
    if model and not _NUMBERED.search(model.replace("_", "-").replace(" ", "-")):
        return _harmful_signal(words, categories)
    judged = [interpret(_GUARD_MODELS, "llama_guard", category) for category in categories]
    return max_signal(_category_signal(one, words, categories) for one in judged)


def _category_signal(judged: Interpretation, words: Node, categories: list[str]) -> Signal:
    if not judged.known:
        return _harmful_signal(words, categories)
    detail = f"unsafe: {', '.join(categories)}"
    return judged.to_signal(words, detail=detail, evidence={"categories": categories})


def _harmful_signal(words: Node, categories: list[str]) -> Signal:
    judged = interpret(_GUARD_MODELS, "shield_gemma", "Yes")
    said = f"unsafe: {', '.join(categories)}" if categories else "unsafe"
    judged = judged._replace(field=load_system(_GUARD_MODELS)["llama_guard"])
    return judged.to_signal(words, detail=said, evidence={"categories": categories})


_UNLISTED = "unlisted"
_STATUSES = frozenset({400, 403, 422, 446, 451})
# Errors about permissions, settings and malformed requests use similar words.
_ORDINARY = re.compile(
    r"access|auth|permission|feature|subscription|_key|credential|network|firewall"
    r"|^(?:request_)?forbidden|^(?:invalid|malformed|missing|unknown|unsupported)_"
)
_OF_CONTENT = re.compile(r"content|guardrail|harm|moderat|nsfw|safety|toxic|prompt|jailbr|violat")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FIELDS = ("code", "type", "reason", "status", "error_code", "Code")


def read_unlisted(shape: ResponseShape) -> Signal | None:
    """Return an unspecified filter for an error whose code looks like blocked content.

    A new error code must not pass as an ordinary failure. Only typed fields are read, never the
    text of a message.
    """
    if not shape.failed or (shape.status is not None and shape.status not in _STATUSES):
        return None
    for error in (shape.body["error"], shape.body["Error"], shape.body):
        for name in _FIELDS:
            word = error[name]
            if word.text and _says_blocked(word.text):
                evidence = {"native_reason": word.text}
                return Signal(_UNLISTED, word.path, word.raw, UNSPECIFIED_CODE, evidence=evidence)
    return None


def _says_blocked(word: str) -> bool:
    if not looks_like_policy(word):
        return False
    plain = _HUMP.sub("_", word).lower().replace("-", "_").replace(" ", "_")
    return _OF_CONTENT.search(plain) is not None or _ORDINARY.search(plain) is None
