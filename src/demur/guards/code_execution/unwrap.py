"""Programs that start other programs: what each of them would start.

`sudo`, `env`, `timeout`, `xargs`, `find -exec`, `ssh host`, `docker exec` and their like are
not judged themselves here; the command inside them is taken out and judged as if it stood alone.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from demur.guards.code_execution.call import Call, options
from demur.guards.code_execution.searches import found_by
from demur.guards.code_execution.value import Arg

__all__ = ["Inner", "unwrap"]


class Inner(NamedTuple):
    """A command inside another: its words, or one text that a shell will read (`script`).

    `elsewhere`: it runs in a container, so it does not destroy data of this machine.
    """

    args: tuple[Arg, ...]
    via: str
    script: bool = False
    elsewhere: bool = False


class _Prefix(NamedTuple):
    """How to find the command behind a program's own options."""

    valued: frozenset[str] = frozenset()
    skip: int = 0
    assignments: bool = False
    script: bool = False


def unwrap(call: Call) -> Iterator[Inner]:
    """Yield the commands that `call` would start."""
    opener = _OPENERS.get(call.verb)
    if opener is not None:
        yield from opener(call)
    elif (prefix := _PREFIXES.get(call.verb)) is not None:
        yield from _behind(call, prefix)


def _behind(call: Call, prefix: _Prefix) -> Iterator[Inner]:
    rest = _rest(call.args, prefix)
    if rest:
        yield Inner(rest, call.verb, prefix.script)


def _rest(args: tuple[Arg, ...], prefix: _Prefix) -> tuple[Arg, ...]:
    """Return the words behind the options, assignments and operands that come first."""
    at, skipped = 0, 0
    while at < len(args):
        text = args[at].text
        if text == "--":
            at += 1
            if skipped >= prefix.skip:
                break
        elif text.startswith("-") and len(text) > 1:
            at += 2 if text in prefix.valued else 1
        elif prefix.assignments and "=" in text.partition("/")[0]:
            at += 1
        elif skipped < prefix.skip:
            skipped += 1
            at += 1
        else:
            break
    return args[at:]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SUDO = _Prefix(
    _words("-u -g -h -p -C -D -r -t -T -U --user --group --host --chdir"), assignments=True
)
_PREFIXES: dict[str, _Prefix] = {
    "sudo": _SUDO,
    "doas": _Prefix(_words("-u -C -a")),
    "run0": _Prefix(_words("-u --user")),
    "gosu": _Prefix(skip=1),
    "su-exec": _Prefix(skip=1),
    "pkexec": _Prefix(_words("--user")),
    "nohup": _Prefix(),
    "setsid": _Prefix(),
    "time": _Prefix(_words("-f -o")),
    "timeout": _Prefix(_words("-k -s --kill-after --signal"), skip=1),
    "gtimeout": _Prefix(_words("-k -s --kill-after --signal"), skip=1),
    "nice": _Prefix(_words("-n --adjustment")),
    "ionice": _Prefix(_words("-c -n -p --class --classdata")),
    "chrt": _Prefix(skip=1),
    "taskset": _Prefix(skip=1),
    "stdbuf": _Prefix(_words("-i -o -e")),
    "unbuffer": _Prefix(),
    "strace": _Prefix(_words("-e -o -p -s -u -E -P")),
    "ltrace": _Prefix(_words("-e -o -p -s -u")),
    "command": _Prefix(),
    "builtin": _Prefix(),
    "exec": _Prefix(_words("-a")),
    "chroot": _Prefix(skip=1),
    "arch-chroot": _Prefix(skip=1),
    "unshare": _Prefix(_words("-S -G -R -w")),
    "setpriv": _Prefix(),
    "proxychains": _Prefix(_words("-f")),
    "proxychains4": _Prefix(_words("-f")),
    "torsocks": _Prefix(),
    "torify": _Prefix(),
    "caffeinate": _Prefix(_words("-t -w")),
    "rlwrap": _Prefix(),
    "xvfb-run": _Prefix(_words("-s -n -e -f")),
    "dbus-run-session": _Prefix(),
    "fakeroot": _Prefix(),
    "firejail": _Prefix(),
    "busybox": _Prefix(),
    "toybox": _Prefix(),
    "systemd-run": _Prefix(_words("-p -u --unit --on-calendar --on-active -M -H --slice")),
    "systemd-inhibit": _Prefix(),
    "watch": _Prefix(_words("-n --interval"), script=True),
    "parallel": _Prefix(_words("-j -a -I --jobs"), script=True),
    "ssh": _Prefix(
        _words("-i -p -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w -B"),
        skip=1,
        script=True,
    ),
    "sshpass": _Prefix(_words("-p -f -d")),
    "entr": _Prefix(),
    "eval": _Prefix(script=True),
    "hyperfine": _Prefix(_words("-r -w -m -M -n --runs --warmup"), script=True),
    "start-process": _Prefix(),
}


def _env(call: Call) -> Iterator[Inner]:
    given = options(call.args, _words("-u --unset -C --chdir -S --split-string"))
    if text := given.values.get("-S") or given.values.get("--split-string"):
        yield Inner((text,), "env", script=True)
    prefix = _Prefix(_words("-u --unset -C --chdir -S --split-string"), assignments=True)
    yield from _behind(call, prefix)


def _by_option(*names: str) -> Callable[[Call], Iterator[Inner]]:
    """Return the function for programs that take a whole command as an option's value."""

    def opener(call: Call) -> Iterator[Inner]:
        given = options(call.args, frozenset(names))
        for name in names:
            if text := given.values.get(name):
                yield Inner((text,), call.verb, script=True)

    return opener


def _flock(call: Call) -> Iterator[Inner]:
    yield from _by_option("-c", "--command")(call)
    if not call.has("-c", "--command"):
        yield from _behind(call, _Prefix(_words("-w -E"), skip=1))


def _xargs(call: Call) -> Iterator[Inner]:
    valued = "-I -n -P -L -d -s -E -a --max-args --max-procs --delimiter --replace --arg-file"
    rest = _rest(call.args, _Prefix(_words(valued)))
    given = options(call.args[: len(call.args) - len(rest)], _words(valued))
    hole = given.values.get("-I")
    items = tuple(
        call.name._replace(text=text, known=call.stdin.known, taints=call.stdin.taints, offset=None)
        for text in call.stdin.text.split()[:20]
    ) or (call.name._replace(text="$input", known=False, taints=call.stdin.taints, offset=None),)
    if hole is None:
        yield Inner((*rest, *items), "xargs")
        return
    for item in items:
        yield Inner(tuple(_filled(arg, hole.text, item) for arg in rest), "xargs")


def _filled(arg: Arg, hole: str, item: Arg) -> Arg:
    if hole not in arg.text:
        return arg
    text = arg.text.replace(hole, item.text)
    return arg._replace(text=text, known=item.known, taints=arg.taints | item.taints, offset=None)


_MOST_ROOTS = 8


def _find(call: Call) -> Iterator[Inner]:
    """`-exec CMD ;` with the search targets in place of `{}`."""
    args = call.args
    found = found_by(call)
    for at, arg in enumerate(args):
        if arg.text not in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec"}:
            continue
        inner: list[Arg] = []
        for word in args[at + 1 :]:
            if word.text in {";", "+", "\\;"}:
                break
            inner.append(word)
        for item in found[:_MOST_ROOTS]:
            yield Inner(tuple(_filled(word, "{}", item) for word in inner), call.verb)


def _container(call: Call) -> Iterator[Inner]:
    """`docker run IMAGE CMD`, `docker exec CONTAINER CMD`, `docker compose exec SERVICE CMD`."""
    texts = call.texts
    for at, text in enumerate(texts[:4]):
        if text in {"run", "exec"}:
            rest = _rest(call.args[at + 1 :], _Prefix(_CONTAINER_VALUED, skip=1))
            if rest:
                yield Inner(rest, call.verb, elsewhere=True)
            return


_CONTAINER_VALUED = _words(
    "-e --env -v --volume -p --publish -w --workdir -u --user --name --network --net --entrypoint"
    " -m --memory --mount -l --label --hostname -h --cpus --restart "
    "--platform --add-host --env-file"
    " --ulimit --device --gpus --cap-add --security-opt --pid --ipc --tmpfs --shm-size --index"
)


def _cluster(call: Call) -> Iterator[Inner]:
    """`kubectl exec POD -- CMD`, `kubectl run ... -- CMD`, `lxc exec NAME -- CMD`."""
    texts = call.texts
    if "--" in texts and ("exec" in texts or "run" in texts or "debug" in texts):
        rest = call.args[texts.index("--") + 1 :]
        if rest:
            yield Inner(rest, call.verb, elsewhere=True)


def _adb(call: Call) -> Iterator[Inner]:
    if call.has("shell") and (rest := call.args[call.texts.index("shell") + 1 :]):
        yield Inner(rest, call.verb, script=True, elsewhere=True)


def _nsenter(call: Call) -> Iterator[Inner]:
    yield from _behind(call, _Prefix(_words("-t --target -S -G")))


def _git(call: Call) -> Iterator[Inner]:
    """Commands that git starts: `bisect run`, `submodule foreach`, `rebase --exec`, `!` aliases."""
    texts = call.texts
    if texts[:2] == ["bisect", "run"]:
        yield Inner(call.args[2:], "git")
    elif texts[:2] == ["submodule", "foreach"]:
        yield Inner(tuple(a for a in call.args[2:] if a.text != "--recursive"), "git", script=True)
    for at, arg in enumerate(call.args[:-1]):
        following = call.args[at + 1]
        if arg.text in {"--exec", "-x"} and "rebase" in texts:
            yield Inner((following,), "git", script=True)
        elif arg.text == "-c" and "=!" in following.text:
            script = following.text.partition("=!")[2]
            yield Inner((following._replace(text=script, offset=None),), "git", script=True)


def _tar(call: Call) -> Iterator[Inner]:
    for arg in call.args:
        for opening in ("--checkpoint-action=exec=", "--to-command=", "--use-compress-program="):
            if arg.text.startswith(opening):
                script = arg.text.removeprefix(opening)
                yield Inner((arg._replace(text=script, offset=None),), "tar", script=True)


def _editor(call: Call) -> Iterator[Inner]:
    """`vim -c ':!CMD'`."""
    for arg in call.args:
        command = arg.text.lstrip(":")
        if command.startswith("!") and len(command) > 1:
            yield Inner((arg._replace(text=command[1:], offset=None),), call.verb, script=True)


def _trap(call: Call) -> Iterator[Inner]:
    if len(call.args) > 1 and not call.args[0].text.startswith("-"):
        yield Inner(call.args[:1], "trap", script=True)


_OPENERS: dict[str, Callable[[Call], Iterator[Inner]]] = {
    "env": _env,
    "su": _by_option("-c", "--command", "--session-command"),
    "runuser": _by_option("-c", "--command"),
    "script": _by_option("-c", "--command"),
    "vagrant": _by_option("-c", "--command"),
    "nix-shell": _by_option("--run", "--command"),
    "screen": lambda call: _behind(call, _Prefix(_words("-S -t -c -X"))),
    "flock": _flock,
    "xargs": _xargs,
    "gxargs": _xargs,
    "nsenter": _nsenter,
    "adb": _adb,
    "trap": _trap,
    "git": _git,
    **dict.fromkeys(("find", "bfs", "fd", "fdfind", "gfind"), _find),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), _container),
    **dict.fromkeys(("kubectl", "oc", "lxc", "incus", "crictl", "k3s", "multipass"), _cluster),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    **dict.fromkeys(("vi", "vim", "nvim", "ex"), _editor),
}
