"""Manifests of skills, plugins and packages: rights, install scripts, sources and commands.

A hit in the parsed data is placed at the first occurrence of its text in the file.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from demur.guards.skill.bundle import SkillConfig
from demur.guards.skill.document import Document
from demur.guards.skill.instruction import see_instructions
from demur.guards.skill.shell_file import scan_shell
from demur.guards.skill.sighting import Sighting
from demur.model.finding import Action

__all__ = ["scan_front_matter", "scan_manifest", "scan_requirements"]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FAILURES = (
    ValueError,
    yaml.YAMLError,
    RecursionError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
)
_MOST = 20_000
_DEEPEST = 100
_SHORTEST_PROSE = 20
_LONGEST_LIST = 2000
_RIGHTS = frozenset(
    {"allow", "allowed-tools", "allowed_tools", "capabilities", "permissions", "scopes", "tools"}
)
_BROAD = re.compile(
    r"\*|all|any|full[-_ ]?access|bash\(\s*\*(?::\*)?\s*\)|bash|shell|<all_urls>|\*://\*/\*"
    r"|(?:fs|file|net|exec)[\w.]*[:=]\*",
    re.IGNORECASE,
)
# A whole shell is broad, but a skill may declare that it needs one.
_SHELL = re.compile(r"bash|shell", re.IGNORECASE)
_AT_INSTALL = frozenset(
    {"install", "postinstall", "preinstall", "preprepare", "prepare", "postprepare", "setup"}
)
_HARMLESS = re.compile(
    r"(?:npm run |yarn |pnpm )?(?:build|husky(?: install)?|tsc|patch-package)\b.*"
)
_RUNNERS = frozenset({"npx", "bunx", "uvx", "pipx", "pnpx"})
_PINNED = re.compile(r".*[^@]@\d[\w.+-]*|.*==\d[\w.+!-]*|\.{0,2}/.*")
_REMOTE = re.compile(r"(?:git\+)?(?:https?|git|ssh)://[^\s\"'`,;\])}>]+")
_COMMIT = re.compile(r"@[0-9a-f]{12,64}\b|#[0-9a-f]{12,64}\b|@v?\d+(?:\.\d+)+|sha256[=:-]")
_SLASHES = re.compile(r"^[ \t]*//.*$", re.MULTILINE)
_REQUIREMENT = re.compile(r"^[^#\n]+$", re.MULTILINE)
_SOURCE_KEYS = re.compile(
    r"source|repository_url|download|.*dependenc(?:y|ies)|requires|install|from|path|registry",
    re.IGNORECASE,
)


class _Value(NamedTuple):
    """A text in a manifest, and the path of keys to it."""

    path: tuple[str, ...]
    text: str


def scan_manifest(document: Document, config: SkillConfig) -> Iterator[Sighting]:
    """Yield the hits for the rights, scripts, sources and servers of a manifest."""
    try:
        data = _read(document.path, document.text)
        values = list(_values(data))
    except _FAILURES as error:
        problem = str(error).split("\n", 1)[0][:60] or type(error).__name__
        yield Sighting("UNPARSED", 0, 0, f"cannot be parsed: {problem}")
        return
    yield from _judge(document.text, values, config)
    yield from _servers(document.text, data, config)
    if document.path.endswith("pyproject.toml"):
        yield from _build(document.text, data)


def scan_requirements(document: Document, config: SkillConfig) -> Iterator[Sighting]:
    """Yield the sources in a requirements file that are not pinned or not encrypted."""
    for found in _REQUIREMENT.finditer(document.text):
        for seen in _sources(_Value(("dependencies",), found[0]), config):
            yield seen._replace(start=found.start(), end=found.end())


def scan_front_matter(text: str, config: SkillConfig) -> Iterator[Sighting]:
    """Yield the hits in the front matter of a Markdown file."""
    try:
        values = list(_values(_yaml(text)))
    except _FAILURES:
        return
    yield from _judge(text, values, config, prose=False)


def _read(path: str, text: str) -> Any:
    if path.endswith((".json", ".jsonc")):
        try:
            return json.loads(text)
        except ValueError:
            # Hosts accept comments and trailing commas, and so does YAML.
            text = _SLASHES.sub("", text).replace("\t", "  ")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    return _yaml(text)


def _yaml(text: str) -> Any:
    """Return the data of a YAML text; check its depth before building it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError("nested too deep")
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader


def _values(data: Any) -> Iterator[_Value]:
    """Yield the texts in the data with their keys; shared parts are visited once."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), data)]
    seen: set[int] = set()
    while stack and len(seen) < _MOST:
        path, value = stack.pop()
        if isinstance(value, str):
            yield _Value(path, value)
        elif isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
            items = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend(((*path, str(key).lower()), inner) for key, inner in items)


def _place(text: str, value: str) -> tuple[int, int]:
    """Return the span of a value; the start of the file if it is written differently."""
    for form in (value, json.dumps(value)[1:-1]):
        start = text.find(form) if form else -1
        if start >= 0:
            return start, start + len(form)
    return 0, 0


def _judge(
    text: str, values: list[_Value], config: SkillConfig, *, prose: bool = True
) -> Iterator[Sighting]:
    for value in values:
        found = [*_rights(value), *_scripts(value), *_sources(value, config)]
        if prose and len(value.text) > _SHORTEST_PROSE:
            found += see_instructions(value.text)
        if found:
            start, end = _place(text, value.text)
            yield from (seen._replace(start=start, end=end) for seen in found)


def _rights(value: _Value) -> Iterator[Sighting]:
    if not _RIGHTS.intersection(value.path) or len(value.text) > _LONGEST_LIST:
        return
    for part in re.split(r"[,\s]+(?![^(]*\))", value.text):
        if _BROAD.fullmatch(part):
            action = Action.WARN if _SHELL.match(part) and "*" not in part else None
            yield Sighting("BROAD_PERMISSION", 0, 0, f"asks for `{part[:40]}`", action=action)


def _scripts(value: _Value) -> Iterator[Sighting]:
    key = value.path[-1] if value.path else ""
    within = value.path[-2] if len(value.path) > 1 else ""
    if within == "scripts" and key in _AT_INSTALL and not _HARMLESS.fullmatch(value.text):
        detail = f"`{key}` runs at installation"
        # `prepare` runs only in a development checkout.
        action = Action.WARN if key.endswith("prepare") else None
        evidence = {"command": value.text[:80]}
        yield Sighting("INSTALL_SCRIPT", 0, 0, detail, evidence, action=action)
    elif "hooks" in value.path and key in {"command", "run"}:
        yield Sighting("RUNS_BY_ITSELF", 0, 0, "a hook that the host starts by itself")
    if within == "scripts" or key in {"command", "run", "exec", "shell"}:
        yield from scan_shell(value.text)


def _sources(value: _Value, config: SkillConfig) -> Iterator[Sighting]:
    if not any(_SOURCE_KEYS.fullmatch(key) for key in value.path):
        return
    for found in _REMOTE.finditer(value.text):
        host = _host(found[0].removeprefix("git+"))
        if config.allows_host(host):
            continue
        evidence = {"source": host}
        if found[0].startswith(("http://", "git://", "git+http://")) and not _is_local(host):
            yield Sighting("PLAIN_SOURCE", 0, 0, f"fetches from `{host[:60]}`", evidence)
        elif found[0].startswith("git+") and not _COMMIT.search(found[0]):
            yield Sighting("UNPINNED_SOURCE", 0, 0, f"fetches from `{host[:60]}`", evidence)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    return host in {"localhost", "127.0.0.1", "::1"}


def _servers(text: str, data: Any, config: SkillConfig) -> Iterator[Sighting]:
    """Yield servers that run an unpinned package or are reached over plain HTTP."""
    servers = data.get("mcpServers") or data.get("servers") if isinstance(data, dict) else None
    if not isinstance(servers, Mapping):
        return
    for name, server in servers.items():
        if not isinstance(server, Mapping):
            continue
        arguments = server.get("args")
        words = [str(word) for word in arguments] if isinstance(arguments, list) else []
        command = str(server.get("command", ""))
        yield from _server(text, str(name), [command, *words])
        url = str(server.get("url", ""))
        host = _host(url) if url.startswith("http://") else ""
        if host and not _is_local(host) and not config.allows_host(host):
            detail = f"server `{str(name)[:40]}` is reached over plain HTTP"
            yield Sighting("PLAIN_SOURCE", *_place(text, url), detail, {"source": host})


def _server(text: str, name: str, words: list[str]) -> Iterator[Sighting]:
    program = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".cmd")
    packages = [word for word in words[1:] if not word.startswith("-")]
    if program in _RUNNERS and packages and not _PINNED.fullmatch(packages[0]):
        detail = f"server `{name[:40]}` runs whatever `{packages[0][:40]}` is today"
        yield Sighting("UNPINNED_SOURCE", *_place(text, packages[0]), detail)
    if program in {"bash", "sh", "zsh", "cmd", "powershell"}:
        for seen in scan_shell(" ".join([program, *map(_quoted, words[1:])])):
            start, end = _place(text, words[-1])
            yield seen._replace(start=start, end=end)


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./:=-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def _build(text: str, data: Any) -> Iterator[Sighting]:
    """Yield code of the folder that a build runs."""
    system = data.get("build-system", {})
    if isinstance(system, Mapping) and system.get("backend-path"):
        place = _place(text, "backend-path")
        yield Sighting("BUILD_HOOK", *place, "the folder is its own build backend")
    for keys in (
        ("tool", "hatch", "build", "hooks", "custom"),
        ("tool", "setuptools", "cmdclass"),
        ("tool", "poetry", "build"),
        ("tool", "pdm", "build", "custom-hook"),
    ):
        inner: Any = data
        for key in keys:
            inner = inner.get(key) if isinstance(inner, Mapping) else None
        if inner:
            place = _place(text, ".".join(keys[:-1]))
            yield Sighting("BUILD_HOOK", *place, f"`{'.'.join(keys)}` runs at build time")
