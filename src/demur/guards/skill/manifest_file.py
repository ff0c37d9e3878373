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

from demur.guards.skill.event import SkillConfig
from demur.guards.skill.rules import SkillHit
from demur.guards.skill.text_checks import find_instructions, scan_shell
from demur.guards.static.source_text import SourceText, word_set
from demur.model.finding import Action
from demur.source.reading import YAML_LOADER

_FAILURES = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    OverflowError,
    yaml.YAMLError,
    RecursionError,
)
_MAX_VALUES = 20_000
_MAX_DEPTH = 100
_MIN_PROSE_LENGTH = 20
_MAX_LIST_LENGTH = 2000
_RIGHTS = word_set("allow allowed-tools allowed_tools capabilities permissions scopes tools")
_BROAD = re.compile(
    r"\*|all|any|full[-_ ]?access|bash\(\s*\*(?::\*)?\s*\)|bash|shell|<all_urls>|\*://\*/\*"
    r"|(?:fs|file|net|exec)[\w.]*[:=]\*",
    re.IGNORECASE,
)
# A whole shell is broad, but a skill may declare that it needs one.
_SHELL = re.compile(r"bash|shell", re.IGNORECASE)
_AT_INSTALL = word_set("install postinstall preinstall preprepare prepare postprepare setup")
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


class _ManifestValue(NamedTuple):
    """A text in a manifest, and the path of keys to it."""

    path: tuple[str, ...]
    text: str


def scan_manifest(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield the hits for the rights, scripts, sources and servers of a manifest."""
    try:
        data = _parse_manifest(document.path, document.text)
        values = list(_walk_values(data))
    except _FAILURES as error:
        problem = str(error).split("\n", 1)[0][:60] or type(error).__name__
        yield SkillHit("UNPARSED", 0, 0, f"cannot be parsed: {problem}")
        return
    yield from _judge_values(document.text, values, config)
    yield from _check_servers(document.text, data, config)
    if document.path.endswith("pyproject.toml"):
        yield from _check_build(document.text, data)


def scan_requirements(document: SourceText, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield the sources in a requirements file that are not pinned or not encrypted."""
    for found in _REQUIREMENT.finditer(document.text):
        for seen in _check_sources(_ManifestValue(("dependencies",), found[0]), config):
            yield seen._replace(start=found.start(), end=found.end())


def scan_front_matter(text: str, config: SkillConfig) -> Iterator[SkillHit]:
    """Yield the hits in the front matter of a Markdown file."""
    try:
        values = list(_walk_values(_parse_yaml(text)))
    except _FAILURES:
        return
    yield from _judge_values(text, values, config, prose=False)


def _parse_manifest(path: str, text: str) -> Any:
    if path.endswith((".json", ".jsonc")):
        try:
            return json.loads(text)
        except ValueError:
            # Hosts accept comments and trailing commas, and so does YAML.
            text = _SLASHES.sub("", text).replace("\t", "  ")
    if path.endswith(".toml"):
        return tomllib.loads(text)
    return _parse_yaml(text)


def _parse_yaml(text: str) -> Any:
    """Return the data of a YAML text; check its depth before building it."""
    depth = 0
    for event in yaml.parse(text, Loader=YAML_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deep")
    return yaml.load(text, Loader=YAML_LOADER)  # noqa: S506 - a safe loader


def _walk_values(data: Any) -> Iterator[_ManifestValue]:
    """Yield the texts in the data with their keys; shared parts are visited once."""
    stack: list[tuple[tuple[str, ...], Any]] = [((), data)]
    seen: set[int] = set()
    while stack and len(seen) < _MAX_VALUES:
        path, value = stack.pop()
        if isinstance(value, str):
            yield _ManifestValue(path, value)
        elif isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
            items = value.items() if isinstance(value, dict) else enumerate(value)
            stack.extend(((*path, str(key).lower()), inner) for key, inner in items)


def _find_span(text: str, value: str) -> tuple[int, int]:
    """Return the span of a value; the start of the file if it is written differently."""
    for form in (value, json.dumps(value)[1:-1]):
        start = text.find(form) if form else -1
        if start >= 0:
            return start, start + len(form)
    return 0, 0


def _judge_values(
    text: str, values: list[_ManifestValue], config: SkillConfig, *, prose: bool = True
) -> Iterator[SkillHit]:
    for value in values:
        found = [*_check_rights(value), *_check_scripts(value), *_check_sources(value, config)]
        if prose and len(value.text) > _MIN_PROSE_LENGTH:
            found += find_instructions(value.text)
        if found:
            start, end = _find_span(text, value.text)
            yield from (seen._replace(start=start, end=end) for seen in found)


def _check_rights(value: _ManifestValue) -> Iterator[SkillHit]:
    if not _RIGHTS.intersection(value.path) or len(value.text) > _MAX_LIST_LENGTH:
        return
    for part in re.split(r"[,\s]+(?![^(]*\))", value.text):
        if _BROAD.fullmatch(part):
            action = Action.WARN if _SHELL.match(part) and "*" not in part else None
            yield SkillHit("BROAD_PERMISSION", 0, 0, f"asks for `{part[:40]}`", action=action)


def _check_scripts(value: _ManifestValue) -> Iterator[SkillHit]:
    key = value.path[-1] if value.path else ""
    within = value.path[-2] if len(value.path) > 1 else ""
    if within == "scripts" and key in _AT_INSTALL and not _HARMLESS.fullmatch(value.text):
        detail = f"`{key}` runs at installation"
        # `prepare` runs only in a development checkout.
        action = Action.WARN if key.endswith("prepare") else None
        evidence = {"command": value.text[:80]}
        yield SkillHit("INSTALL_SCRIPT", 0, 0, detail, evidence, action=action)
    elif "hooks" in value.path and key in {"command", "run"}:
        yield SkillHit("RUNS_BY_ITSELF", 0, 0, "a hook that the host starts by itself")
    if within == "scripts" or key in {"command", "run", "exec", "shell"}:
        yield from scan_shell(value.text)


def _check_sources(value: _ManifestValue, config: SkillConfig) -> Iterator[SkillHit]:
    if not any(_SOURCE_KEYS.fullmatch(key) for key in value.path):
        return
    for found in _REMOTE.finditer(value.text):
        host = _url_host(found[0].removeprefix("git+"))
        if config.allows_host(host):
            continue
        evidence = {"source": host}
        if found[0].startswith(("http://", "git://", "git+http://")) and not _is_local(host):
            yield SkillHit("PLAIN_SOURCE", 0, 0, f"fetches from `{host[:60]}`", evidence)
        elif found[0].startswith("git+") and not _COMMIT.search(found[0]):
            yield SkillHit("UNPINNED_SOURCE", 0, 0, f"fetches from `{host[:60]}`", evidence)


def _url_host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_local(host: str) -> bool:
    return host in {"localhost", "127.0.0.1", "::1"}


def _check_servers(text: str, data: Any, config: SkillConfig) -> Iterator[SkillHit]:
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
        yield from _check_server(text, str(name), [command, *words])
        url = str(server.get("url", ""))
        host = _url_host(url) if url.startswith("http://") else ""
        if host and not _is_local(host) and not config.allows_host(host):
            detail = f"server `{str(name)[:40]}` is reached over plain HTTP"
            yield SkillHit("PLAIN_SOURCE", *_find_span(text, url), detail, {"source": host})


def _check_server(text: str, name: str, words: list[str]) -> Iterator[SkillHit]:
    program = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".cmd")
    packages = [word for word in words[1:] if not word.startswith("-")]
    if program in _RUNNERS and packages and not _PINNED.fullmatch(packages[0]):
        detail = f"server `{name[:40]}` runs whatever `{packages[0][:40]}` is today"
        yield SkillHit("UNPINNED_SOURCE", *_find_span(text, packages[0]), detail)
    if program in {"bash", "sh", "zsh", "cmd", "powershell"}:
        start, end = _find_span(text, words[-1])
        for seen in scan_shell(" ".join([program, *map(_quote_word, words[1:])])):
            yield seen._replace(start=start, end=end)


def _quote_word(word: str) -> str:
    return word if re.fullmatch(r"[\w./:=-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def _check_build(text: str, data: Any) -> Iterator[SkillHit]:
    """Yield code of the folder that a build runs."""
    system = data.get("build-system", {})
    if isinstance(system, Mapping) and system.get("backend-path"):
        place = _find_span(text, "backend-path")
        yield SkillHit("BUILD_HOOK", *place, "the folder is its own build backend")
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
            place = _find_span(text, ".".join(keys[:-1]))
            yield SkillHit("BUILD_HOOK", *place, f"`{'.'.join(keys)}` runs at build time")
