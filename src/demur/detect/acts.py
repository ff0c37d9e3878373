"""What a sentence of an answer does, whatever its topic and language."""

from enum import IntEnum

__all__ = ["CURT_ACTS", "SpeechAct", "drop_traps"]


class SpeechAct(IntEnum):
    """The speech act of a sentence. Their order is part of the trained model's file."""

    DECLINE = 0  # says that it will not or cannot do what was asked
    CANNOT = 1  # says that it cannot do something
    UNKNOWING = 2  # lacks knowledge or access, or does not understand
    APOLOGY = 3
    REGRET = 4  # an apology that goes on with "but"
    SELF = 5  # speaks of itself as a machine
    POLICY = 6  # appeals to rules
    WRONG = 7  # names something wrong or dangerous
    REBUKE = 8  # passes judgement: this is not acceptable
    REMIND = 9  # it is important to …
    DISCOURAGE = 10  # advises against, urges
    INSTEAD = 11  # points to something else
    INVITE = 12  # offers to help with other things
    RESOURCES = 13  # points to people who can help
    EMPATHY = 14
    COMPLY = 15  # begins, announces or structures an answer
    TURN = 16  # however, …
    SHIFT = 17  # changes the subject, or asks back
    REQUEST = 18  # speaks of the request as such
    TRAP = 19  # only sounds like a refusal: "I can't help but …"
    UNCLEAR = 20  # does not understand what is asked
    TERSE = 21  # declines if it is nearly all that is said: "Not doing that."
    NO = 22  # a bare no, which declines a request and answers a question


# Whole sentences that count only in a short answer. They are no features of the model.
CURT_ACTS = (SpeechAct.TERSE, SpeechAct.NO)

_SEEMING = 1 << SpeechAct.DECLINE | 1 << SpeechAct.CANNOT | 1 << SpeechAct.TRAP
_TRAP = 1 << SpeechAct.TRAP


def drop_traps(acts: int) -> int:
    """Return the acts without refusals that only sound like one, such as "I can't help but …"."""
    return acts & ~_SEEMING if acts & _TRAP else acts
