"""Properties of the judgement of files that tools read and write."""

import shlex

from hypothesis import given
from hypothesis import strategies as st

from demur.guards.code_execution.call import Arg
from demur.guards.code_execution.effects import EffectKind, FileEffect, rules_for_effect
from demur.guards.code_execution.event import (
    Command,
    CommandConfig,
    FileAccess,
    FileOperation,
    FileRequest,
    Language,
)
from demur.guards.code_execution.files import find_file_hits
from demur.guards.code_execution.guard import check
from demur.guards.code_execution.paths import workspace_bounds

PARTS = st.sampled_from(
    (
        *("etc", "cron.d", "home", "ann", ".ssh", "authorized_keys", ".bashrc", "src", "a.py"),
        *(".git", "hooks", "config", "..", ".", "", "usr", "bin", "demur", "proc", "self", "root"),
        *(".claude", "settings.json", "tmp", "srv", "desk", "site-packages", "sudoers.d", "~"),
    )
)
PATHS = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["/", "", "./"]),
    st.lists(PARTS, min_size=1, max_size=6),
)
CONFIGS = st.sampled_from([CommandConfig(), CommandConfig(workspace=("/srv/desk",))])


@given(PATHS, CONFIGS)
def test_a_file_tool_is_no_way_around_a_redirection(path: str, config: CommandConfig) -> None:
    """INVARIANT: a file tool meets every rule that a redirection to the same path meets."""
    access = FileAccess(path=path, operation=FileOperation.WRITE, content="x", whole=True)
    event = FileRequest(text=path, accesses=(access,))
    shell = Command(text=f"echo x > {shlex.quote(path)}", language=Language.SHELL)
    by_tool = {found.evidence["rule"] for found in check(event, config)}
    by_shell = {found.evidence["rule"] for found in check(shell, config)}

    assert by_shell - {"WRITE_OUTSIDE"} <= by_tool
    assert "WRITE_OUTSIDE" not in by_shell or {"WRITE_OUTSIDE", "FILE_OUTSIDE"} & by_tool


FOLDERS = ("/", "/etc", "/srv/desk/src/src/src", "src", ".", "~", "/usr/..")


@given(PATHS, CONFIGS)
def test_the_folder_of_a_call_lifts_no_rule(path: str, config: CommandConfig) -> None:
    """INVARIANT: a folder that a call of a file tool names lifts no rule."""
    for operation in FileOperation:
        access = FileAccess(path=path, operation=operation, content="x", whole=True)
        plain, *named = (
            {
                (located.hit, located.verb)
                for located in find_file_hits(
                    FileRequest(text=path, accesses=(access,), cwd=cwd), config
                )
            }
            for cwd in (None, *FOLDERS)
        )

        assert all(plain <= hits for hits in named)


CHANGES = st.sampled_from([kind for kind in EffectKind if kind is not EffectKind.READ])


@given(PATHS, CHANGES, st.booleans())
def test_a_protected_file_is_changed_only_with_a_hit(
    path: str, kind: EffectKind, tree: bool
) -> None:
    """INVARIANT: no effect but reading reaches a protected file without a hit."""
    own = f"/opt/own/{path}"
    bounds = workspace_bounds(CommandConfig(workspace=("/opt",), protected=(own,)), None)
    patterns = (f"/o?t/[n-p]wn/{path}", f"/*/own/{path}/deeper")
    for form in (own, own.upper(), f"{own}/deeper", f"/proc/self/root{own}", *patterns):
        effect = FileEffect(kind, Arg(form, 0, len(form)), tree=tree)
        rules = [hit.rule for hit in rules_for_effect(effect, "/opt", bounds)]

        assert "OWN_FILES" in rules
