"""Where in an answer a letter or a poem stands: what its "I" declines, the answerer does not."""

import re
from collections.abc import Sequence

__all__ = ["find_quoted_prose"]

_MAX_SEARCHED = 8000
_MAX_GREETING_LINES = 12
_MIN_VERSE_LINES = 4
_MAX_VERSE_LINE = 60
_MIN_OPEN_SHARE = 0.6
_GREETING = re.compile(
    r"[ \t>*_]{0,9}(?:dear(?= [^\n,:]{1,40}[,:])"
    r"|(?:(?:hi|hello|hey|hallo|hola|bonjour|ol[a\u00e1])(?! (?:there|again)\b)(?= \S)"
    r"|sehr geehrte\w*|liebe[rs]?|ch[e\u00e8]re?s?|madame|monsieur|estimad\w+"
    r"|querid\w+|gentil\w+|egregi\w+|car[oaie]|prezad\w+|geachte|beste"
    r"|szanown\w+|drog\w+|\u0443\u0432\u0430\u0436\u0430\w+|\u0434\u043e\u0440\u043e\u0433\w+"
    r"|\u5c0a\u656c\u7684|\u4eb2\u7231\u7684|\u062d\u0636\u0631\u0629|\u0639\u0632\u064a\u0632\w+)"
    r"(?=[^\n.?!]{0,45}[!]?$))",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:^|(?<=[.!] ))[ \t>*_]{0,9}(?:(?:kind|best|warm|many|with (?:kind|best|warm))\b[^\n.]{0,30}"
    r"|(?:your )?sincerely|yours\b[^\n.]{0,20}|regards|love|cheers|best|respectfully|the \w+"
    r"|mit (?:freundlich|best|herzlich)\w*[^\n]{0,20}|(?:viele|liebe|herzliche|beste) gr\w+"
    r"|cordialement|bien \u00e0 \w+|atentamente|saludos|un saludo|cordiali saluti|distinti saluti"
    r"|atenciosamente|abra\u00e7os|met vriendelijke groet\w*|groet\w*|z powa\u017caniem"
    r"|pozdrawiam|\u0441 \u0443\u0432\u0430\u0436\u0435\u043d\u0438\u0435\u043c|\u6b64\u81f4"
    r"|\u656c\u4e0a|\u0645\u0639 \u0627\u0644\u062a\u062d\u064a\u0629)"
    r"[,!.\uff0c\u060c]?[ \t]{0,3}\n?[^\n.?!]{0,40}$",
    re.IGNORECASE | re.MULTILINE,
)


def find_quoted_prose(text: str) -> tuple[int, int] | None:
    """Return where a letter begins and ends, or all of a poem; None if there is neither."""
    if "\n" not in text and "ear " not in text:
        return None
    head = text[:_MAX_SEARCHED]
    lines = head.split("\n")
    return _find_letter(head, lines) or ((0, len(text)) if _is_verse(lines) else None)


def _is_verse(every: Sequence[str]) -> bool:
    """Return whether these are short lines that mostly stop before their sentence does."""
    if len(every) < _MIN_VERSE_LINES or max(map(len, every)) > _MAX_VERSE_LINE:
        return False
    lines = [line.strip() for line in every if line.strip()]
    if len(lines) < _MIN_VERSE_LINES:
        return False
    return sum(line[-1].isalpha() or line[-1] in ",;" for line in lines) >= _MIN_OPEN_SHARE * len(
        lines
    )


def _find_letter(head: str, lines: Sequence[str]) -> tuple[int, int] | None:
    """Return where a letter stands: from its greeting, at the start of a line, to its closing."""
    start = 0
    for line in lines[:_MAX_GREETING_LINES]:
        if _GREETING.match(line):
            closing = _CLOSING.search(head, start + len(line.split(",", 1)[0]))
            return None if closing is None else (start, closing.end())
        start += len(line) + 1
    return None
