"""The page of reason codes, with a search."""

from demur.service.call import ApiAnswer, ApiCall
from demur.service.dashboard.frame import render_page

__all__ = ["codes_page"]


def codes_page(call: ApiCall) -> ApiAnswer:
    """Return the page; with `q`, only the codes that contain it."""
    registry = call.service.gate.registry
    asked = call.query.get("q", "").strip()
    sought = asked.casefold().replace(" ", "_"), asked.casefold()
    found = [
        entry
        for entry in registry
        if sought[0] in entry.code.casefold()
        or sought[1] in f"{entry.title} {entry.description} {' '.join(entry.aliases)}".casefold()
    ]
    families: dict[str, list[dict[str, object]]] = {}
    for entry in found:
        families.setdefault(entry.family, []).append(entry.as_json())
    return render_page(
        call,
        "codes.html",
        title="Codes",
        section="codes",
        label=registry.label,
        total=len(registry),
        found=len(found),
        asked=asked,
        families=list(families.items()),
    )
