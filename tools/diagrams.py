"""The diagrams of the documentation, drawn as SVG from the layouts in this file.

`generate.py` writes them to docs/images. A diagram stands on paper of its own, so that it reads the
same in a light and in a dark page, and it refers to nothing outside of its file.
"""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

QUICKSTART = Path(__file__).resolve().parent.parent / "docs/start/quickstart.md"

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
INK, QUIET, LINE, PAPER = "#1c2733", "#52616f", "#8a97a3", "#ffffff"
# A fill and a border for each kind of box.
FILLS = {
    "plain": ("#f4f6f8", "#b9c3cc"),
    "blue": ("#e3effb", "#5b93c7"),
    "green": ("#e2f4e6", "#57a36b"),
    "amber": ("#fdf1d6", "#c79a3a"),
    "red": ("#fbe4e2", "#c96a62"),
    "violet": ("#eee9fa", "#8a75c4"),
}
TITLE_SIZE, TEXT_SIZE, LINE_HEIGHT = 16, 14, 19


class Point(NamedTuple):
    """A place on the paper, in pixels from its top left corner."""

    x: int
    y: int


class Box(NamedTuple):
    """A rectangle with a title and lines of text, centred."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "plain"

    @property
    def left(self) -> Point:
        """The middle of the left side."""
        return Point(self.x, self.y + self.height // 2)

    @property
    def right(self) -> Point:
        """The middle of the right side."""
        return Point(self.x + self.width, self.y + self.height // 2)

    @property
    def top(self) -> Point:
        """The middle of the upper side."""
        return Point(self.x + self.width // 2, self.y)

    @property
    def bottom(self) -> Point:
        """The middle of the lower side."""
        return Point(self.x + self.width // 2, self.y + self.height)


def generated_files() -> Iterator[tuple[str, str]]:
    """Yield path and content of each diagram."""
    for name, draw in DIAGRAMS.items():
        yield f"docs/images/{name}.svg", draw()


def draw_svg(size: tuple[int, int], title: str, description: str, parts: Iterable[str]) -> str:
    """Return an SVG document with a title and a description for people who cannot see it."""
    width, height = size
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-labelledby="title description">\n'
        f'<title id="title">{escape(title)}</title>\n'
        f'<desc id="description">{escape(description)}</desc>\n'
        f'<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        f'markerHeight="8" orient="auto-start-reverse"><path d="M0 1 L9 5 L0 9 z" fill="{QUIET}"/>'
        f"</marker></defs>\n"
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10" fill="{PAPER}" '
        f'stroke="{FILLS["plain"][1]}"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def draw_box(box: Box) -> str:
    """Return a box with its texts."""
    fill, stroke = FILLS[box.kind]
    height = LINE_HEIGHT * len(box.lines) + TITLE_SIZE
    y = box.y + (box.height - height) // 2 + TITLE_SIZE - 2
    centre = box.x + box.width // 2
    rect = (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="8" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
    )
    texts = [draw_text(Point(centre, y), box.title, size=TITLE_SIZE, bold=True)]
    for row, line in enumerate(box.lines, start=1):
        texts.append(draw_text(Point(centre, y + row * LINE_HEIGHT), line))
    return "\n".join((rect, *texts))


def draw_text(
    at: Point,
    text: str,
    *,
    size: int = TEXT_SIZE,
    bold: bool = False,
    anchor: str = "middle",
    fill: str = INK,
) -> str:
    """Return one line of text."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{at.x}" y="{at.y}" font-family="{FONT}" font-size="{size}"{weight} '
        f'text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def draw_arrow(*points: Point, label: str = "", dashed: bool = False) -> str:
    """Return an arrow through the points, with a label above the middle of its first part."""
    path = "M" + " L".join(f"{point.x} {point.y}" for point in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    arrow = (
        f'<path d="{path}" fill="none" stroke="{QUIET}" stroke-width="1.5"{dash} '
        f'marker-end="url(#arrow)"/>'
    )
    middle = Point((points[0].x + points[1].x) // 2, (points[0].y + points[1].y) // 2 - 7)
    return arrow + (f"\n{draw_text(middle, label, size=13, fill=QUIET)}" if label else "")


def draw_overview() -> str:
    """Return the picture of the parts: door, guards, gate, store, and who reads the records."""
    agent = Box(24, 150, 132, 110, "Your agent", ("prompt, answer,", "tool call, result"))
    door = Box(226, 150, 150, 110, "Door", ("@guarded, adapter,", "proxy, hook, HTTP"), "blue")
    guards = Box(
        446, 40, 170, 92, "Guards", ("find, never decide:", "code, span, evidence"), "amber"
    )
    policy = Box(446, 278, 170, 92, "Policy", ("your rules in YAML,", "and the default"), "amber")
    gate = Box(
        446, 150, 170, 110, "Gate", ("the strictest verdict", "wins; class and advice"), "blue"
    )
    store = Box(686, 150, 150, 110, "Store", ("the record first,", "then the answer"), "green")
    audit = Box(906, 40, 170, 92, "Audit", ("verify the chain,", "pack, replay, report"), "violet")
    watch = Box(906, 159, 170, 92, "Dashboard", ("metrics, alerts,", "triage of logs"), "violet")
    people = Box(906, 278, 170, 92, "People", ("approve, label:", "grants and memory"), "violet")
    down = Point(agent.bottom.x, 420)
    parts = [
        *map(draw_box, (agent, door, guards, policy, gate, store, audit, watch, people)),
        draw_arrow(agent.right, door.left, label="event"),
        draw_arrow(door.right, gate.left, label="request"),
        draw_arrow(Point(door.top.x, 150), Point(door.top.x, 86), guards.left),
        draw_arrow(guards.bottom, gate.top),
        draw_arrow(policy.top, gate.bottom),
        draw_arrow(gate.right, store.left, label="record"),
        draw_arrow(Point(836, 190), Point(871, 190), Point(871, 86), audit.left),
        draw_arrow(store.right, watch.left),
        draw_arrow(Point(836, 220), Point(871, 220), Point(871, 324), people.left),
        draw_arrow(
            Point(store.bottom.x, 260), Point(store.bottom.x, 420), down, agent.bottom, dashed=False
        ),
        draw_text(
            Point(430, 412),
            "decision: outcome, code, words for each reader, next step",
            size=13,
            fill=QUIET,
        ),
    ]
    return draw_svg(
        (1100, 446),
        "How the parts of demur work together",
        "The agent sends an event to a door, such as the decorator guarded, an adapter, a proxy, a "
        "hook or HTTP. Guards report findings to the gate and never decide. The gate applies the "
        "policy; the strictest verdict wins. The store keeps the record before the agent gets the "
        "decision. Audit, dashboard and people work on the stored records.",
        parts,
    )


_LANES = ("Agent", "Enforcer", "Guards", "Gate", "Store", "Person")
_STEPS: Sequence[tuple[int, int, str]] = (
    (0, 1, "tool call: refund 400"),
    (1, 2, "event"),
    (2, 1, "findings: none"),
    (1, 3, "request and findings"),
    (3, 3, "rule matches: ESCALATE, class WORKFLOW_BLOCK, advice request_approval"),
    (3, 4, "record, chained and flushed to disk"),
    (4, 1, "stored"),
    (1, 0, "REFUSED: SPEND_OVER_APPROVAL_LIMIT: …"),
    (4, 5, "waits in the approval queue"),
    (5, 3, "yes, signed as a grant"),
    (3, 4, "new record: ALLOW, resolves the first"),
    (0, 1, "the agent resumes the call"),
    (1, 0, "allowed; the tool runs"),
    (5, 4, "later: audit, replay, label the outcome"),
)


def draw_life() -> str:
    """Return the life of a refusal as a sequence of messages between lanes."""
    left, gap, top, step = 90, 184, 74, 46
    height = top + step * (len(_STEPS) + 1)
    parts = []
    for number, name in enumerate(_LANES):
        x = left + number * gap
        parts.append(
            f'<line x1="{x}" y1="{top - 12}" x2="{x}" y2="{height - 20}" stroke="{LINE}" '
            f'stroke-dasharray="3 4"/>'
        )
        kind = "green" if name == "Store" else "violet" if name == "Person" else "blue"
        parts.append(draw_box(Box(x - 70, 22, 140, 40, name, (), kind)))
    for row, (start, end, text) in enumerate(_STEPS, start=1):
        y = top + row * step
        x_start, x_end = left + start * gap, left + end * gap
        if start == end:
            parts.append(draw_box(Box(x_start - 265, y - 24, 530, 34, "", (), "amber")))
            parts.append(draw_text(Point(x_start, y - 2), f"{row}. {text}", size=13))
            continue
        parts.append(draw_arrow(Point(x_start, y), Point(x_end, y)))
        middle = (x_start + x_end) // 2
        width = 7 * len(text) + 24
        parts.append(
            f'<rect x="{middle - width // 2}" y="{y - 23}" width="{width}" height="18" '
            f'fill="{PAPER}"/>'
        )
        parts.append(draw_text(Point(middle, y - 9), f"{row}. {text}", size=13))
    return draw_svg(
        (left * 2 + gap * (len(_LANES) - 1), height),
        "The life of a refusal",
        "Steps between agent, enforcer, guards, gate, store and person: "
        + "; ".join(f"{row}. {text}" for row, (_, _, text) in enumerate(_STEPS, start=1))
        + ".",
        parts,
    )


def draw_classification() -> str:
    """Return classification as one table: the verdict and the strictest class give the output."""
    columns = ("no code refuses", "SOFT_BLOCK", "WORKFLOW_BLOCK", "HARD_BLOCK")
    x0, y0, width, height = 24, 78, 236, 118
    parts = [
        draw_text(Point(x0 + 70, 46), "verdict", bold=True),
        draw_text(Point(x0 + 70, y0 + height // 2 + 5), "ALLOW", bold=True),
        draw_text(Point(x0 + 70, y0 + height + 12 + height // 2 - 12), "ESCALATE", bold=True),
        draw_text(Point(x0 + 70, y0 + height + 12 + height // 2 + 8), "ABSTAIN", bold=True),
        draw_text(Point(x0 + 70, y0 + height + 12 + height // 2 + 28), "DENY", bold=True),
    ]
    left = x0 + 140
    for number, name in enumerate(columns):
        x = left + number * (width + 12) + width // 2
        parts.append(draw_text(Point(x, 46), name, bold=True, size=TITLE_SIZE))
        notes = ("", "lifted by accepted limits", "lifted by what is missing", "never lifted")
        parts.append(draw_text(Point(x, 66), notes[number], size=13, fill=QUIET))
    impossible = ("cannot occur", ("demur cannot build", "such a decision"), "plain")
    cells = (
        ("ALLOW_EXECUTE", ("allowed",), "green"),
        ("ALLOW_CONSTRAINED", ("allowed with limits,", "if constraints are attached"), "green"),
        impossible,
        impossible,
        impossible,
        ("NEED_CONTEXT", ("if limits can be offered;", "else REFUSE_WITH_PATH"), "amber"),
        ("NEED_CONTEXT", ("if it is known what is missing;", "else REFUSE_WITH_PATH"), "amber"),
        ("REFUSE_WITH_PATH", ("refused; the path names", "safe alternatives only"), "red"),
    )
    for number, (title, lines, kind) in enumerate(cells):
        x = left + number % 4 * (width + 12)
        y = y0 + number // 4 * (height + 12)
        parts.append(draw_box(Box(x, y, width, height, title, lines, kind)))
    foot = y0 + 2 * height + 12 + 34
    parts.append(
        draw_text(
            Point(x0, foot),
            "The strictest class among the unresolved codes counts. "
            "NEED_CONTEXT ends when no attempts are left. "
            "ABSTAIN reads as “could not judge”.",
            size=13,
            anchor="start",
            fill=QUIET,
        )
    )
    return draw_svg(
        (left + 4 * (width + 12) + 12, foot + 22),
        "How a verdict and a class become an output",
        "With the verdict ALLOW: no refusing code gives ALLOW_EXECUTE, a soft block with "
        "constraints gives ALLOW_CONSTRAINED, other classes cannot occur. With ESCALATE, ABSTAIN "
        "or DENY: a soft block gives NEED_CONTEXT if limits can be offered, a workflow block gives "
        "NEED_CONTEXT if it is known what is missing, otherwise both give REFUSE_WITH_PATH; a hard "
        "block always gives REFUSE_WITH_PATH.",
        parts,
    )


_DOORS = (
    ("Is it a coding agent, such as Claude Code?", "hook", "demur hook install"),
    ("Is it an MCP server that you will not change?", "proxy", "demur mcp proxy"),
    ("Is it written in a language other than Python?", "HTTP", "POST /v1/enforce/…"),
    ("Does a framework run the agent?", "adapter", "one line, see Integrations"),
    ("Is it a Python function that acts?", "guarded", "@guarded(enforcer)"),
    ("Is it one call of a model, text in and text out?", "safe_generate", "safe_generate(…)"),
    ("Do you have facts to decide on, and no text?", "decide", "gate.decide(request)"),
    ("Do you only want findings, and decide yourself?", "pipeline", "pipeline.run(surface, text)"),
    ("Do you write the loop of the agent yourself?", "enforce", "enforcer.check_tool_call(…)"),
)  # fmt: skip


def draw_doors() -> str:
    """Return the doors as a ladder of questions: the first yes names the door."""
    x, y0, width, height, step = 24, 52, 430, 44, 62
    parts = [
        draw_text(
            Point(x, 34),
            "Begin at the top. The first yes names your door.",
            anchor="start",
            fill=QUIET,
        )
    ]
    for number, (question, door, call) in enumerate(_DOORS):
        y = y0 + number * step
        box = Box(x, y, width, height, "", (question,), "plain")
        parts.append(draw_box(box._replace(lines=())))
        parts.append(draw_text(Point(x + width // 2, y + 27), question))
        target = Box(570, y, 160, height, door, (), "blue")
        parts.append(draw_box(target))
        parts.append(draw_arrow(box.right, target.left, label="yes"))
        parts.append(draw_text(Point(752, y + 27), call, anchor="start", fill=QUIET))
        if number + 1 < len(_DOORS):
            below = Point(box.bottom.x, box.bottom.y + step - height)
            parts.append(draw_arrow(box.bottom, below))
    return draw_svg(
        (1000, y0 + len(_DOORS) * step + 8),
        "Which door?",
        "Questions from top to bottom; the first yes names the door. "
        + " ".join(f"{question} {door}." for question, door, _ in _DOORS),
        parts,
    )


_COLUMNS = 96
_SECONDS_A_LINE = 0.45


def draw_terminal() -> str:
    """Return a terminal that types the commands of the quickstart, which the tests have run."""
    text = QUICKSTART.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [
        part
        for line in "".join((blocks[1], *blocks[3:])).splitlines()
        for part in textwrap.wrap(line, _COLUMNS, subsequent_indent="    ") or [""]
    ]
    height = 74 + LINE_HEIGHT * len(lines)
    rows = []
    for number, line in enumerate(lines):
        fill = "#9ecbff" if line.startswith("$ ") else "#e6edf3"
        rows.append(
            f'<text class="row" style="animation-delay:{number * _SECONDS_A_LINE:.2f}s" x="24" '
            f'y="{62 + number * LINE_HEIGHT}" fill="{fill}" xml:space="preserve">'
            f"{escape(line)}</text>"
        )
    dots = "".join(
        f'<circle cx="{24 + 20 * number}" cy="22" r="6" fill="{fill}"/>'
        for number, fill in enumerate(("#ff6159", "#ffbd2e", "#28c941"))
    )
    style = (
        "<style>text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
        ".row{opacity:0;animation:show .1s forwards}@keyframes show{to{opacity:1}}"
        "@media (prefers-reduced-motion:reduce){.row{animation:none;opacity:1}}</style>"
    )
    width = 830
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-labelledby="title description">\n'
        '<title id="title">The quickstart in a terminal</title>\n'
        f'<desc id="description">{escape(" ".join(lines))}</desc>\n{style}\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>\n{dots}\n'
        + "\n".join(rows)
        + "\n</svg>\n"
    )


DIAGRAMS = {
    "overview": draw_overview,
    "life-of-a-refusal": draw_life,
    "classification": draw_classification,
    "doors": draw_doors,
    "terminal": draw_terminal,
}
