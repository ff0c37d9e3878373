"""From a refusal to a proof: an agent waits, a person decides in a browser, an auditor verifies.

The service, the agent and every command are processes of their own. With `DEMUR_PICTURES=FOLDER`,
the first test writes the pictures of the tutorial there.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from e2e.conftest import serving
from support.people import SERVICE_KEY, add_person
from support.service_process import Process, started
from support.webhook_server import Hook, hook

from demur.audit.pack import read_pack
from demur.audit.replay import replay_pack
from demur.gate.approval_queue import ApprovalQueue
from demur.gate.approvals import ApprovalSettings
from demur.gate.gate import Gate
from demur.grants import KeyRing
from demur.policy.loader import parse_policy
from demur.service.authentication import person_principal
from demur.service.cookies import SESSION_COOKIE
from demur.store.opening import open_store

pytestmark = pytest.mark.browser

PASSWORD = "a sentence that only mary knows"
LINK = "https://demur.example.com"
PATIENCE_S = 120
POLICY = """
schema_version: policy.v1
policy_id: refunds
policy_version: 1.0.0
rules:
  - id: R_LARGE
    stage: ESCALATIONS
    if: { action_type: refund, amount_usd: { gt: 250 } }
    then: { verdict: ESCALATE, reason_codes: [REFUND_OVER_ESCALATION_LIMIT] }
  - id: R_REFUND
    stage: ALLOW_PATHS
    if: { action_type: refund }
    then: { verdict: ALLOW, reason_codes: [] }
"""
AGENT = """
import json, sys, urllib.request

url, key = sys.argv[1:]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def say(*words):
    print(json.dumps(words), flush=True)


refund = {
    "subject": {"type": "agent", "id": "billing"},
    "action": {
        "type": "refund",
        "intent": "Ada's parcel never came; she wants her money back.",
        "amount": {"value": 900, "currency": "USD"},
    },
    "evidence": {"order_id": "A-2"},
}
asked = call("POST", "/v1/decide", {"request": refund})
say("asked", asked["decision_id"], asked["verdict"])
answer = {"settled": False}
while not answer["settled"]:
    answer = call("GET", f"/v1/decisions/{asked['decision_id']}/wait?seconds=60")
say("answered", answer["state"], answer["note"])
if answer["state"] == "approved":
    done = call("POST", "/v1/decide", {"request": {**refund, "continues": answer["resolution_id"]}})
    say("went on", done["decision_id"], done["verdict"])
"""


def run_demur(folder: Path, *words: str, typed: str = "") -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "demur", *words]
    environment = {name: value for name, value in os.environ.items() if name != "DEMUR_CONFIG"}
    done = subprocess.run(
        command, cwd=folder, input=typed, capture_output=True, text=True, env=environment,
        check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


class Shop:
    """A shop with a service that notifies a webhook."""

    def __init__(self, folder: Path, service: Process, notices: Hook) -> None:
        self.folder = folder
        self.url = service.url
        self.notices = notices
        self.agents: list[subprocess.Popen[str]] = []
        self.key = json.loads(
            run_demur(
                folder,
                *("keys", "create", "--tenant", "default", "--role", "decide"),
                *("--subject", "agent:billing", "--json"),
            )
        )["token"]

    def start_agent(self) -> "subprocess.Popen[str]":
        """Start the agent."""
        command = [sys.executable, "-c", AGENT, self.url, self.key]
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.agents.append(agent)
        return agent

    def close(self) -> None:
        """End the agents."""
        for agent in self.agents:
            agent.kill()
            agent.communicate()

    def read_notice(self) -> Any:
        """Return the next notice, once it has come."""
        assert self.notices.received.acquire(timeout=PATIENCE_S)
        return json.loads(self.notices.deliveries[-1][1])


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with hook() as notices, open_shop(tmp_path, notices) as opened:
        yield opened


@contextmanager
def open_shop(folder: Path, notices: Hook, extra: str = "") -> Iterator[Shop]:
    """Yield a shop where Mary approves."""
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    approvals = f'webhook = "{notices.url}"\nlink = "{LINK}"\n{extra}'
    settings = f'store = "demur.db"\ndeadline_s = 120.0\n[approvals]\n{approvals}'
    (folder / "demur.toml").write_text(settings, encoding="utf-8")
    run_demur(folder, "people", "init")
    run_demur(
        folder, "people", "add", "mary", "--tenant", "default", "--role", "approver",
        typed=f"{PASSWORD}\n",
    )  # fmt: skip
    with started(folder) as service:
        opened = Shop(folder, service, notices)
        try:
            yield opened
        finally:
            opened.close()


def read_line(agent: "subprocess.Popen[str]") -> Any:
    """Return what the agent says next."""
    assert agent.stdout is not None
    return json.loads(agent.stdout.readline())


def log_in(page: Any) -> None:
    page.get_by_role("textbox", name="Name").fill("mary")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").first.click()


def take_picture(page: Any, name: str) -> None:
    """Write a picture of the whole page, where somebody asked for pictures."""
    folder = os.environ.get("DEMUR_PICTURES")
    if folder is None:
        return
    before = page.viewport_size
    for height in (500, "document.documentElement.scrollHeight"):
        tall = height if isinstance(height, int) else page.evaluate(height)
        page.set_viewport_size({"width": 1160, "height": tall})
    session = page.context.new_cdp_session(page)
    shot = session.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
    Path(folder, f"{name}.webp").write_bytes(base64.b64decode(shot["data"]))
    page.set_viewport_size(before)


def test_an_agent_waits_a_person_approves_and_an_auditor_verifies(
    shop: Shop, tabs: Any, tmp_path: Path
) -> None:
    agent = shop.start_agent()
    said, decision_id, verdict = read_line(agent)
    assert (said, verdict) == ("asked", "ESCALATE")

    notice = shop.read_notice()
    assert (notice["event"], notice["decision_id"]) == ("waiting", decision_id)
    assert "Ada" not in json.dumps(notice)

    page = tabs().page
    page.goto(shop.url + notice["link"].removeprefix(LINK))
    assert "/login" in page.url
    log_in(page)
    page.wait_for_url(f"**/approvals/{decision_id}")
    page.get_by_role("link", name="Approvals").first.click()
    assert page.locator("[data-badge=approvals]").inner_text() == "1"
    card = page.locator(".item", has_text="agent:billing")
    assert "900 USD" in card.inner_text()
    take_picture(page, "approvals")
    card.get_by_role("link", name="Decide").click()

    why = page.locator("main").inner_text()
    assert "Ada's parcel never came" in why
    assert "REFUND_OVER_ESCALATION_LIMIT" in why
    assert agent.poll() is None
    take_picture(page, "approval")
    page.get_by_label("For how long").select_option(label="15 minutes")
    page.get_by_label("Note").fill("the parcel is lost: ticket 7")
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("demur applied the signed approval").wait_for()

    assert read_line(agent) == ["answered", "approved", "the parcel is lost: ticket 7"]
    said, went_on, verdict = read_line(agent)
    assert (said, verdict) == ("went on", "ALLOW")
    assert agent.wait(PATIENCE_S) == 0
    page.reload()
    course = page.locator("ol.course").inner_text()
    assert "mary approved: this request, once, within 15 minutes" in course
    assert course.index("put it before people") < course.index("mary approved")
    assert course.index("mary approved") < course.index("The requester went on")
    assert page.locator("[data-badge=approvals]").is_hidden()
    take_picture(page, "course")

    pack = tmp_path / "course.zip"
    run_demur(shop.folder, "export", went_on, "--pack", "--out", str(pack))
    read = read_pack(pack.read_bytes())
    assert [event.kind for event in read.events] == ["approval_vote", "approval_closed"]
    assert {event.by for event in read.events} == {"person:mary"}
    assert replay_pack(read).same
    assert "mary" in run_demur(tmp_path, "replay", str(pack))
    assert run_demur(shop.folder, "audit", "verify")
    # The place in the chain is the order in which it happened.
    links = [event.seq for event in read.events]
    assert read.record.chain is not None
    assert links[0] < links[1] < read.record.chain.seq


def test_a_person_declines_by_keyboard_alone(shop: Shop, tabs: Any) -> None:
    agent = shop.start_agent()
    _, decision_id, _ = read_line(agent)
    page = tabs().page
    page.goto(f"{shop.url}/approvals")
    log_in(page)
    page.wait_for_url("**/approvals")
    walk_to(page, "Decide:")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/approvals/{decision_id}*")
    walk_to(page, "This request, once")
    # Enter in a field of the form approves nothing.
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("radio", name="More of the same").is_checked()
    walk_to(page, "Note")
    page.keyboard.type("not without a receipt")
    walk_to(page, "Decline")
    page.keyboard.press("Enter")
    page.get_by_text("mary declined").wait_for()

    assert read_line(agent) == ["answered", "declined", "not without a receipt"]
    assert agent.wait(PATIENCE_S) == 0


def test_a_person_approves_without_scripts(shop: Shop, tabs: Any) -> None:
    agent = shop.start_agent()
    _, decision_id, _ = read_line(agent)
    page = tabs(java_script_enabled=False).page
    page.goto(f"{shop.url}/approvals/{decision_id}")
    log_in(page)
    page.get_by_role("radio", name="More of the same").check()
    page.get_by_label("At most this often").select_option("5")
    page.get_by_role("button", name="Approve").click()
    assert page.get_by_text("5 times within 1 hour").is_visible()

    assert read_line(agent)[:2] == ["answered", "approved"]
    assert read_line(agent)[2] == "ALLOW"
    assert agent.wait(PATIENCE_S) == 0


LOOKS = {
    "light": (1400, "light"),
    "dark": (1400, "dark"),
    "phone": (390, "light"),
    "phone-dark": (390, "dark"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_fit_and_axe_finds_nothing(
    crowded: "Crowd", tabs: Any, tmp_path: Path, look: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    width, scheme = LOOKS[look]
    folder = Path(os.environ.get("DEMUR_SHOTS", str(tmp_path)))
    page = tabs(width=width, scheme=scheme, bypass_csp=True).page
    page.context.add_cookies([{**crowded.cookie, "url": crowded.url}])
    for name, path in crowded.pages.items():
        page.goto(crowded.url + path)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=str(folder / f"{look}-{name}.png"), full_page=True)
        assert page.locator("h1").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        found = axe.run(page).response["violations"]
        problems = [(one["id"], node["html"][:160]) for one in found for node in one["nodes"]]
        assert problems == [], name


class Crowd(NamedTuple):
    """A service with requests of every kind, and a person who is logged in."""

    url: str
    cookie: dict[str, str]
    pages: dict[str, str]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """Yield a service where requests wait, were approved and were declined."""
    issuers = KeyRing([SERVICE_KEY.issuer.trusted_key()])
    store = open_store(str(tmp_path_factory.mktemp("crowd") / "records.db"))
    settings = ApprovalSettings(groups=("desk", "leads"), escalate_after_s=900)
    policy = parse_policy(POLICY, "refunds")
    with Gate(policy, store, issuers=issuers, approvals=settings) as gate:
        asked = [
            gate.decide(
                {
                    "subject": {"type": "agent", "id": f"billing-{number}"},
                    "action": {
                        "type": "refund",
                        "intent": f"Customer {number} wants the money back: " + "it broke, " * 9,
                        "amount": {"value": 900 + number, "currency": "USD"},
                    },
                    "evidence": {"order_id": f"A-{number}"},
                }
            ).decision_id
            for number in range(4)
        ]
        for login in ("mary", "lee"):
            add_person(store, login, role="admin", tenant="", password_hash="unused")
        queue = ApprovalQueue(gate, lambda: SERVICE_KEY)
        waits, approved, declined, _ = asked
        queue.approve(approved, "mary", note="the parcel is lost: ticket 7")
        queue.decline(declined, "lee", note="not without a receipt")
        with serving(gate) as service:
            mary = store.get_person("mary")
            assert mary is not None
            secret = service.service.authenticator.open_session(
                person_principal(mary), timedelta(hours=1), generation=mary.generation
            )
            names = {"approved": approved, "declined": declined, "waits": waits}
            pages = {f"approval-{name}": f"/approvals/{one}" for name, one in names.items()}
            pages |= {"approvals": "/approvals", "decided": "/approvals?tab=decided"}
            pages |= {"approval-decision": f"/decisions/{approved}", "people": "/people"}
            pages |= {"nothing": "/approvals?group=nobody", "account": "/account"}
            yield Crowd(service.address, {"name": SESSION_COOKIE, "value": secret}, pages)


FOCUSED = """() => {
  const one = document.activeElement;
  if (one === document.body) return "";
  const label = one.labels && one.labels.length ? one.labels[0].innerText : "";
  return `${label} ${one.textContent || ""}`;
}"""


def walk_to(page: Any, words: str) -> None:
    """Press Tab until something with these words has the focus, and see that it is shown."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if words in page.evaluate(FOCUSED):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", words
            return
    raise AssertionError(f"the keyboard does not reach {words!r}")
