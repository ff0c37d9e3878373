"""Letters that look like other letters, each beside the ASCII letter that a reader sees.

Only shapes that a person takes for the ASCII letter in running text. What Unicode itself
calls the same letter in another form (full width, mathematical, circled) needs no row:
compatibility decomposition finds it.
"""

# ruff: noqa: RUF001 - ambiguous letters are what this table is about

__all__ = ["GREEK_CAPITALS", "LOOKALIKES"]

# The ASCII letter, then its look-alikes. Lower case only: text is casefolded before.
_ROWS = (
    "a аɑαᴀɐ⍺ꭺ",
    "b вƅьʙɓβƀᏼ",
    "c сϲᴄⅽƈɔᴐ",
    "d ԁɗđᴅɖꓒ",
    "e еєɛεᴇəǝɘҽ℮",
    "f ꜰƒϝẝ",
    "g ɡɢǥɠցƃ",
    "h һʜհħнɦɥ",
    "i іιıɩɪӏᴉ",
    "j јʝϳᴊɟɉ",
    "k кκᴋƙқҝ",
    "l ⅼłʟɭǀ∣ꓡ",
    "m мᴍɱⅿɯ",
    "n ոηɴпռŋɳ",
    "o оοօσᴏøɵѳ",
    "p рρᴘƥþ",
    "q ԛգʠզ",
    "r ʀгɾɼɹ",
    "s ѕꜱʂƨ",
    "t тτᴛŧƭʇ",
    "u υսᴜʋմ",
    "v ѵνᴠⅴʌ∨",
    "w ԝωᴡɯաѡʍ",
    "x хχⅹ×ҳ",
    "y уγүʏყɣӯʎ",
    "z ᴢʐƶʑ",
    "' ‘’‚‛′ʼʹ´",
    '" “”„‟″«»',
    "- ‐‑‒–—―−﹘⁃",
    ". ․。·•",
    ", ‚、،",
    "/ ⁄∕╱",
    "| ¦│",
    ": ։ː∶",
    "* ∗⁎✱",
    "_ ‗",
    "~ ∼〜",
)

LOOKALIKES = {letter: row[0] for row in reversed(_ROWS) for letter in row[2:]}

# Ligatures, and boxed letters that compatibility decomposition leaves as they are.
LOOKALIKES |= {"æ": "ae", "œ": "oe", "ð": "d", "ĳ": "ij", "…": "..."}
for _first in (0x1F150, 0x1F170, 0x1F1E6):
    LOOKALIKES |= {chr(_first + place): chr(ord("a") + place) for place in range(26)}

# Greek capitals whose small letter has another shape: among ASCII letters, the shape counts.
GREEK_CAPITALS = {"Ν": "n", "Η": "h", "Υ": "y", "Μ": "m", "Ζ": "z"}
