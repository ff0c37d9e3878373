"""Whatever comes in over the API, pages show it as text."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from support.dashboard_site import HTML, Page, Site
from support.eval_runs import NO, a_run, pairs
from support.service_app import add_key

from demur.codes.vocabulary import Surface
from demur.evals.run_files import write_manifest
from demur.gate.excerpt import Utterance
from demur.gate.gate import Gate
from demur.model.finding import Finding

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</textarea></pre></title><iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "]]><probe>",
    "&lt;probe&gt; &#60;probe>",
    "\u202etxet desrever\u2066",
    "x" * 120 + "<probe>",
)
_TAGS = """
a aside b blockquote body button caption circle code datalist dd details dialog div dl dt figcaption
figure footer form g h1 h2 h3 head header html input kbd label li line link main mark meta nav ol
option p path pre rect script section select span summary sup svg table tbody td text textarea th
thead time title tr ul wbr
"""
TAGS = frozenset(_TAGS.split())
LINKS = ("href", "src", "action", "formaction", "data", "xlink:href")


def filled(site: Site, bad: str) -> list[str]:
    """Fill every field that a page shows, and return the addresses of all pages."""
    # Names are held to more than texts are.
    name = "".join(filter(str.isprintable, bad)).replace(":", ";")[:200]
    text = f"{bad} and then some more words to be marked"
    seen: dict[str, Any] = {
        "code": "PROMPT_LEAK",
        "surface": "input",
        "span": {"start": 0, "end": min(9, len(bad))},
        "detail": bad,
        "evidence": {bad: bad},
    }
    request = {
        "action": {
            "type": name,
            "intent": text,
            "tags": [bad],
            "target": {bad: bad},
            "amount": {"value": 7, "currency": bad},
        },
        "subject": {"type": name, "id": name},
        "request_id": name,
        "evidence": {bad: bad, "chargeback_risk": bad},
        "context": {bad: [bad]},
        "extensions": {bad: bad},
    }
    decision_id = site.decide(request, findings=[seen], signals={"model_score": bad})
    label = {"value": "false_refusal", "note": bad, "by": name}
    said = Utterance(text, "tool", Surface.INPUT, bad, prompt=bad)
    gate = site.call.service.gate
    excerpts = Gate(gate.policy, gate.store, registry=gate.registry, excerpts="all")
    for _ in range(2):
        excerpts.decide(
            {"action": {"type": "x"}}, findings=[msgspec.convert(seen, Finding)], said=said
        )
    answer = site.call("POST", f"/v1/decisions/{decision_id}/labels", label)
    assert answer.status_code == 201, answer.text
    site.call.service.gate.decide({"action": {"type": "x"}}, tenant=name)
    quoted = quoted_whole(bad)
    return [
        "/report?since=2000-01-01&until=2100-01-01",
        *("/", "/decisions", "/reasons", "/reasons/PROMPT_LEAK", "/review", "/codes", "/triage"),
        *("/review?queue=false_refusal", f"/decisions/{decision_id}", f"/decisions?q={quoted}"),
        *(f"/decisions?subject={quoted}", f"/decisions?code={quoted}", f"/codes?q={quoted}"),
        *(f"/?tenant={quoted}", f"/login?next={quoted}", f"/reasons/{quoted}", f"/{quoted}"),
        *(f"/decisions?verdict={quoted}", f"/?last={quoted}", f"/decisions/{quoted}"),
        f"/report?since={quoted}",
    ]


def quoted_whole(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def check_inert(page: Page) -> None:
    """Hold a page to what our own templates write."""
    assert page.problems == []
    for one in page.all():
        assert one.tag in TAGS, one.tag
        assert not [name for name in one.attrs if name.startswith("on")], one.attrs
        assert "style" not in one.attrs
        assert "srcdoc" not in one.attrs
        for name in LINKS:
            target = one.attrs.get(name, "/")
            assert not urlsplit(target).scheme, target
            assert target.startswith(("/", "#", "?")), target
            assert not target.startswith("//"), target
    for script in page.all("script"):
        assert script.attrs["src"].startswith("/static/")


@pytest.mark.parametrize("bad", PAYLOADS)
def test_every_page_stays_inert(empty: Site, bad: str) -> None:
    for path in filled(empty, bad):
        answer = empty.get(path)
        if answer.status_code == 303:
            answer = empty.get(answer.headers["location"])
        assert answer.status_code in {200, 404, 422}, (path, answer.text[:300])
        assert answer.headers["content-type"].startswith("text/html"), path
        check_inert(Page(answer.text))


def test_hostile_input_is_shown_as_text(empty: Site) -> None:
    bad = PAYLOADS[1]
    page = next(empty.open(path) for path in filled(empty, bad) if path.startswith("/decisions/0"))

    assert page.text.count(bad) >= 8


@pytest.mark.parametrize("bad", PAYLOADS)
def test_a_log_and_its_name_stay_text(empty: Site, bad: str) -> None:
    name = bad.replace('"', "").encode()
    body = b'--e\r\nContent-Disposition: form-data; name="log"; filename="' + name + b'"\r\n\r\n'
    body += b"REFUSED: RCE_RISK: " + bad.encode() + b"\nREFUSED: X_" + b"Y: z\r\n--e--\r\n"
    headers = {**HTML, "content-type": "multipart/form-data; boundary=e"}
    answer = empty.call("POST", "/triage", content=body, headers=headers)

    assert answer.status_code == 200
    check_inert(Page(answer.text))


def test_the_note_on_a_key_or_its_tenant_stays_text(empty: Site) -> None:
    key = add_key(empty.call.store, PAYLOADS[0], "read", note="x")
    answer = empty.get("/", authorization=f"Bearer {key}")

    assert answer.status_code == 200
    check_inert(Page(answer.text))
    assert PAYLOADS[0] in Page(answer.text).text


@pytest.mark.parametrize("bad", PAYLOADS)
def test_names_prompts_and_answers_stay_text(empty: Site, runs: Path, bad: str) -> None:
    name = bad.replace("/", "_").replace("\0", "")[:80]
    good, harm = pairs()[:2]
    rows = [
        msgspec.structs.replace(good, prompt=bad, category=bad, domain=bad),
        msgspec.structs.replace(harm, prompt=f"{bad}!"),
    ]
    run = a_run(runs / name, {"good-0": f"{NO} {bad}", "bad-0": bad}, rows)
    manifest = run.manifest
    write_manifest(
        run.folder,
        msgspec.structs.replace(
            manifest,
            started_at=bad,
            rows=10**30,
            suite=msgspec.structs.replace(manifest.suite, name=bad, version=bad),
            target=msgspec.structs.replace(manifest.target, name=bad),
        ),
    )
    (runs / f"{name}~").mkdir()
    (runs / f"{name}~" / "run.json").write_text(f'{{"schema_version": "{bad}"}}')

    for path in ("/evals", f"/evals/{quoted_whole(name)}", f"/evals/{quoted_whole(name)}~"):
        check_inert(empty.open(path))
