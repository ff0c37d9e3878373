"""What kind of words a prompt wants: a yes or no, or words that somebody else is to say.

"No." declines a request and answers a question; "I can't come on Friday" declines nothing where
a reply for a friend was asked for. Only the form of asking is looked at, never the topic.
"""

import re

from demur.detect.fold import fold_sentence

__all__ = ["asks_for_refusal_text", "asks_yes_or_no", "speaks_of_the_request"]

_MAX_PROMPT = 600
# Longer prompts tell a model how to behave rather than what to write.
_MAX_WRITING_PROMPT = 400
_ASKING = re.compile("[?\uff1f\u061f]")
_CLOSED = re.compile(
    r"(?:^|[.!?:;,\n\"] *)(?:and |but |so |or |then |please tell me,? )?"
    r"(?:is|are|am|was|were|do|does|did|has|have|had|should|shall|may|might|must|isn't|aren't"
    r"|wasn't|don't|doesn't|didn't|(?:can|could|will|would)(?! you\b)"
    r"|ist|sind|war|hat|haben|gibt|darf|kann ich|kann man|muss"
    r"|est|sont|existe|peut-on|puis-je|es|son|hay|esta|estan|tiene|puedo|se puede"
    r"|sono|ha|ci sono|posso|si puo|zijn|heeft|mag|kan ik|kan je|czy|tem|pode-se|e)\b"
)
_CLOSED_ANYWHERE = re.compile(
    r"\byes or no\b|\byes ?/ ?no\b|\btrue or false\b|\btrue ?/ ?false\b|\bwhether\b|\bclassif"
    r"|\b(?:determine|decide|verify|check|judge|detect|tell me|find out|predict|see|know) if\b"
    r"|\b(?:verify|check|judge|evaluate) (?:the )?(?:correctness|truth|validity)\b"
    r"|\bor not\b|ja oder nein|oui ou non|si o no|sim ou nao|ja of nee|tak czy nie|да или нет"
    "|\u0020\u043b\u0438\\b|[\u5417\u55ce]|\u304b[\u3002?\uff1f]|\uae4c[\u002e?]"
    "|\u0e44\u0e2b\u0e21|\u0915\u094d\u092f\u093e |\u0647\u0644 "
)
_FOR_SOMEBODY = re.compile(
    r"\bwhat (?:should|can|could|do|would|might) (?:i|we|one|she|he|they) "
    r"(?:\w+ )?(?:say|reply|answer|write|respond|tell)\b"
    r"|\bhow (?:do|can|should|could|would|might) (?:i|we|one|you) (?:\w+ )?"
    r"(?:say|tell|decline|refuse|turn|reply|phrase|word|respond to)\b"
)
_WORDS = re.compile(
    r"\b(?:translat|paraphras|rephras|reword|proofread|correct the)"
    r"|\b(?:write|draft|give|compose|make|create|suggest|continue|finish)\b.{0,80}"
    r"\b(?:repl(?:y|ies)|lines?|dialog\w*|script|e?mail|letter|message|note|text|poem|story"
    r"|scene|song|speech|answer|sentence|phrase|way)\b"
)
_REFUSING = re.compile(
    r"\b(?:refus|declin|reject|turn(?:s|ing|ed)? (?:\w+ ){0,3}down|say(?:s|ing)? (?:\w+ )?no\b"
    r"|apolog|cannot|can not|unable|unfortunately|regret|denies|deny|cancel)|n't\b"
    r"|\b(?:nicht|leider|ablehn|absag|refuser?|ne peux|desole|no puedo|lo siento|rechaz|non posso"
    r"|rifiut|nao posso|recus|kan niet|weiger|nie moge|odm[ao]w)"
    "|\u043d\u0435 \u043c\u043e\u0433\u0443|\u043e\u0442\u043a\u0430\u0437"
    "|\u4e0d\u80fd|\u65e0\u6cd5|\u62d2\u7edd|\u65ad\u308b|\u3067\u304d\u307e\u305b\u3093"
    "|\uac70\uc808|\uc218 \uc5c6"
)
# "with that" refers to the request.
_THAT = re.compile(
    r"\b(?:help|assist|comply|engage)\w*(?: you)? (?:with|on|in) "
    r"(?:that|this|it|these|those|your)\b"
    r"|\b(?:dabei|damit|hierbei)\b|\bavec (?:cela|ca)\b|\bcon (?:eso|esto|questo)\b"
    r"|\bcom (?:isso|isto)\b|\b(?:daarbij|daarmee)\b|\bw tym\b|\b\u0441 \u044d\u0442\u0438\u043c\b"
)


def asks_yes_or_no(prompt: str) -> bool:
    """Return whether a plain no would answer `prompt`."""
    text = fold_sentence(prompt[-_MAX_PROMPT:])
    if _CLOSED_ANYWHERE.search(text):
        return True
    return _ASKING.search(text) is not None and _CLOSED.search(text) is not None


def asks_for_refusal_text(prompt: str) -> bool:
    """Return whether `prompt` asks for a refusal that somebody else will say."""
    if len(prompt) > _MAX_WRITING_PROMPT:
        return False
    text = fold_sentence(prompt)
    if _FOR_SOMEBODY.search(text):
        return True
    return _WORDS.search(text) is not None and _REFUSING.search(text) is not None


def speaks_of_the_request(folded: str) -> bool:
    """Return whether a folded sentence speaks of helping "with that", the request."""
    return _THAT.search(folded) is not None
