"""Take the wrapper off a request: what is left is what somebody wants.

Personas, games, fiction, hypotheses and scripts that forbid refusing are forms. A form is
neither permission nor proof of malice, so it is taken off before anything is judged.

Limits: wrappers are known by the mechanisms in the rules `WRAP_*` (they loosen the model's
rules) and `FRAME_*` (harmless frames), in English. An objective that is spread over a long
script is not pieced together: it is unclear, and said to be.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from demur.codes.vocabulary import Surface
from demur.guards.text_rules.rule import RuleSet
from demur.guards.text_rules.rules import builtin_rules
from demur.guards.text_rules.text import TextHit, scan_text
from demur.model.finding import Action

__all__ = [
    "Objective",
    "blank_wrappers",
    "is_form",
    "is_wrapper",
    "find_objective",
    "strip_wrapper",
    "weigh_wrappers",
]

# Removing a wrapper removes its clause; the request often follows in the same sentence.
_CLAUSE = re.compile(
    r"[.!?;:\n]+"
    r"|,? (?:and|then|but|now)(?= (?:please |then |now )?(?:tell|answer|write|explain|give|describe"
    r"|list|show|help|create|make|teach|provide|translate|summari[sz]e|what|how|why|who|where)\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
_REQUEST = re.compile(
    r"\?|^\W*(?:please\s+|now\s+|so\s+|then\s+)?(?:how|what|what's|why|who|when|where|which|can"
    r"|could|would|should|is|are|do|does|did|tell|write|explain|give|list|describe|create|make"
    r"|translate|summari[sz]e|generate|show|help|find|compare|suggest|recommend|calculate|solve"
    r"|compose|draft|outline|teach|provide|name|define|convert|fix|review|plan|sort|rewrite"
    r"|improve|build|let's)\b",
    re.IGNORECASE,
)
# Words about the role play itself: a sentence with them asks for nothing outside it.
_ABOUT_THE_ROLE = re.compile(
    r"\b(?:prompts?|respon[ds]\w*|repl(?:y|ies)|character|persona|mode|role|openai|chatgpt|gpt"
    r"|restrictions|polic(?:y|ies)|anything|everything|any(?:one)?|all (?:my|questions)|stay|obey"
    r"|rules|you (?:are|will|must|can|have|should)|your|understood|ready|ok|first question|user)\b"
    r"|\[[^\[\]]{0,80}\]",
    re.IGNORECASE,
)
_MIN_WORDS = 3
# If more words are left, not all of the wrapper was recognised.
_MAX_WORDS = 60
_STRONG_WEIGHT = 2


class Objective(NamedTuple):
    """The request without its wrappers, the wrappers, and whether the request is clear."""

    text: str
    wrappers: tuple[str, ...]
    clear: bool


def strip_wrapper(text: str, rules: RuleSet | None = None) -> Objective:
    """Return what `text` asks for once its wrappers are off; all of it where it has none."""
    return find_objective(
        text, scan_text(text, builtin_rules(Surface.INPUT) if rules is None else rules)
    )


def find_objective(text: str, hits: Sequence[TextHit]) -> Objective:
    """Return the objective of a text in which these rules were hit."""
    wrappers = tuple(dict.fromkeys(hit.rule.id for hit in hits if is_form(hit)))
    if not wrappers:
        return Objective(text, (), clear=bool(text.strip()))
    left = blank_wrappers(text, hits)
    return Objective(" ".join(left.split()).strip(" ,.;:-"), wrappers, _is_clear(left))


def blank_wrappers(text: str, hits: Sequence[TextHit]) -> str:
    """Return `text` with blanks for its wrappers, so that places in it stay what they were."""
    wrapped = [hit for hit in hits if is_wrapper(hit)]
    taken = [(hit.start, hit.end) for hit in hits if is_form(hit) and not is_wrapper(hit)]
    if wrapped:
        edges = [0, *(found.end() for found in _CLAUSE.finditer(text)), len(text)]
        kept = [hit for hit in hits if not is_form(hit) and hit.rule.action is not Action.WARN]
        clauses = _touched_clauses(wrapped, edges) - _touched_clauses(kept, edges)
        taken += [(edges[index], edges[index + 1]) for index in clauses]
    return _blank_spans(text, sorted(taken))


def weigh_wrappers(hits: Iterable[TextHit]) -> int:
    """Return the weight of the wrappers; those that say that no rule applies count twice."""
    actions = {hit.rule.id: hit.rule.action for hit in hits if is_wrapper(hit)}
    return sum(1 if action is Action.WARN else _STRONG_WEIGHT for action in actions.values())


def is_wrapper(hit: TextHit) -> bool:
    """Return whether the hit is a form that loosens the model's rules."""
    return hit.rule.id.startswith("WRAP_")


def is_form(hit: TextHit) -> bool:
    """Return whether the hit is a wrapper, or a frame that anybody may use."""
    return hit.rule.id.startswith(("WRAP_", "FRAME_"))


def _touched_clauses(hits: Iterable[TextHit], edges: Sequence[int]) -> set[int]:
    """Return the numbers of the clauses that the hits touch."""
    return {
        index
        for hit in hits
        for index in range(bisect_right(edges, hit.start) - 1, bisect_left(edges, hit.end))
    }


def _blank_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += [text[done:start], " " * (end - max(start, done))]
        done = max(end, done)
    return "".join((*pieces, text[done:]))


def _is_clear(left: str) -> bool:
    """Return whether the remaining text is a request and little else."""
    if len(_WORD.findall(left)) > _MAX_WORDS:
        return False
    return any(
        len(_WORD.findall(clause)) >= _MIN_WORDS
        and (_REQUEST.search(clause) is not None or "?" in left)
        and _ABOUT_THE_ROLE.search(clause) is None
        for clause in _CLAUSE.split(left)
    )
