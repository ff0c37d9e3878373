"""Every reading of a script counts, and what cannot be known is a question."""

import pytest

from demur.guards.code_execution.event import Command, CommandConfig, Language
from demur.guards.code_execution.guard import check
from demur.model.finding import Action, Finding


def held(text: str) -> list[Finding]:
    event = Command(text=text, language=Language.SHELL)
    return [found for found in check(event, CommandConfig()) if found.action is not Action.WARN]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm -rf /' | sort | sh",
        'c=(rm -rf /); "${c[@]}"',
        'set -- rm -rf /; "$@"',
        "alias rm=echo; rm -rf /",
        "cd / && cd /tmp/nope; rm -rf *",
        "for x in a b c d e f g h /; do rm -rf $x; done",
        "bash -euo pipefail -c 'rm -rf /'",
        "echo $((rm -rf /); (ls))",
        "x=ls; false && x='rm -rf /'; $x",
        "if false; then rm() { :; }; fi; rm -rf /",
        "(rm() { :; }); rm -rf /",
        'set -- a rm; shift; "$1" -rf /',
        'f() { "$@"; }; f rm -rf /',
        """bash -c '"$@"' _ rm -rf /""",
        "bash -c '$0 -rf /' rm",
        "printf -v x '%s' rm; $x -rf /",
        "read x <<< 'rm -rf /'; $x",
        "n=x; x=rm; ${!n} -rf /",
        "trap 'rm -rf /' EXIT",
        "trap -- 'rm -rf /' EXIT",
        "x=ls; trap '$x' EXIT; x='rm -rf /'",
        "coproc rm -rf /",
        "coproc X { rm -rf /; }",
        "select x in /; do rm -rf $x; break; done",
        "case x in y) ;; *) rm -rf /;; esac",
        "sh <(echo 'rm -rf /')",
        ". <(echo 'rm -rf /')",
        "mapfile -t c <<< 'rm -rf /'; ${c[0]}",
        "echo 'rm -rf /' | tr a b | sh",
        "echo '/ fr- mr' | rev | sh",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "echo 'xm -rf /' | sed s/x/r/ | sh",
        "$(tr a-z b-za <<< ql) -rf /",
        "$x -rf /",
        "x=$(foo); $x -rf /",
        "echo 'rm -rf /' > f; sh f",
        "echo 'rm -rf /' > f; chmod +x f; ./f",
        "echo 'rm -rf /' > f.sh; sh *.sh",
        "echo 'rm -rf /' > f; . ./f",
        "echo 'rm -rf /' | tee >(sh)",
        "exec 3<<<'rm -rf /'; sh <&3",
        "unset x; $x rm -rf /",
        "while read -r l; do $l; done <<< 'rm -rf /'",
        "echo 'rm -rf /' | while read l; do $l; done",
        "IFS=,; x=rm,-rf,/; $x",
        '''IFS=, read -ra c <<< 'rm,-rf,/'; "${c[@]}"''',
        'declare -a c=(rm -rf /); "${c[@]}"',
        "declare -A m=([a]=rm); ${m[a]} -rf /",
        'c[0]=rm; c[1]=-rf; c[2]=/; "${c[@]}"',
        "declare -n r=x; r='rm -rf /'; $x",
        "x='rm -rf /'; f() { local x=ls; }; f; $x",
        "x=echo; bash -c '$x rm -rf /'",
        "(cd /tmp); cd /; (cd /tmp/x); rm -rf *",
        "cd / & rm -rf /",
        '''eval "$(printf '%s' 'rm -rf /')"''',
        '''eval "$(sort <<< 'rm -rf /')"''',
        "r${X}m -rf /",
        "${x:-rm} -rf /",
        ": ${x:=rm}; $x -rf /",
        '''x='rm -rf /'; bash <<< "$x"''',
        "cat <<E | sh\nrm -rf /\nE",
        '''bash -c "$(cat <<< 'rm -rf /')"''',
        "pushd /; pushd /tmp/nope; popd; rm -rf *",
        "command_not_found_handle() { rm -rf /; }; nonesuch",
        "x='rm -rf /'; y=x; eval \"\\$$y\"",
        "x=mr; ${x:1:1}${x:0:1} -rf /",
        "x=axm; ${x/ax/r} -rf /",
        'd=$(echo /); rm -rf "$d"',
        'rm() { command rm "$@"; }; rm -rf /',
        "rm() { :; }; \\rm -rf /; command rm -rf /",
        "f() { g() { rm -rf /; }; }; f; g",
        "while :; do x='rm -rf /'; break; x=ls; done; $x",
        "if true; then c=rm; else c=echo; fi; $c -rf /",
        "{ read a; read b; } <<< 'rm -rf /'; $a",
        "a=(x 'rm -rf /'); ${a[-1]}",
        'a=(x rm -rf /); "${a[@]:1}"',
        'set -- x rm -rf /; "${@:2}"',
        'set -- x rm -rf /; shift; "$@"',
        'arr+=(rm); arr+=(-rf /); "${arr[@]}"',
        "echo rm -rf / | bash -s",
        "printf 'rm -rf %s' / | bash /dev/stdin",
        "echo 'rm -rf /' > f; false && echo ls > f; sh f",
        'x=rm; y=-rf; z=/; eval "$x $y $z"',
        "x=rm y=$x; $y -rf /",
        "hash -p /bin/rm ls; ls -rf /",
        "unset IFS; x='rm -rf /'; $x",
        """echo 'rm -rf /' | bash -c "$(cat)\"""",
        "exec < <(echo 'rm -rf /'); sh",
        "getopts a: x -a rm; $OPTARG -rf /",
        "x=(echo rm -rf /); unset 'x[0]'; \"${x[@]}\"",
        "cp /bin/rm x; ./x -rf /",
        "ln -s $(which rm) x; ./x -rf /",
        "echo 'rm -rf /' | split -l 9 - x; sh xaa",
        "printf 'all:\\n\\t%s\\n' 'rm -rf /' > Makefile; make -s",
        """awk 'BEGIN { print "rm -rf /" > "f" }'; sh f""",
        "env -C / rm -rf etc",
        "x=echo; f() { declare -g x='rm -rf /'; }; f; $x",
        "declare -a 'x=(rm -rf /)'; \"${x[@]}\"",
        'x=(a b rm); "${x[${#x[@]}-1]}" -rf /',
        'unset x; rm -rf "$x"/usr',
        "x='$(rm -rf /)'; : \"${x@P}\"",
        "bash -c 'cat > f' <<< 'rm -rf /'; sh f",
        "echo 'rm -rf /' > f; x=$(ls f); sh $x",
        "echo x > f; sed -i '1c rm -rf /' f; sh f",
        "sort -o f <<< 'rm -rf /'; sh f",
        "printf 'a\\nrm -rf /\\n.\\nw f\\nq\\n' | ed -s; sh f",
        "cd $nothing/; rm -rf etc",
        'cd "$(dirname /tmp)"; rm -rf etc',
        "echo '#' > f; echo 'rm -rf /' >> f; sh f",
        "echo 'rm -rf /' | install /dev/stdin f; sh f",
        "time -p { r${unset}m -rf /\n}",
        "nl <<< 'rm -rf /' | while read -r n line; do $line; done",
    ],
)
def test_a_destructive_reading_is_held(text: str) -> None:
    assert held(text)


@pytest.mark.parametrize(
    "text",
    [
        "$EDITOR file",
        "$(npm bin)/eslint x",
        '"$PYTHON" -m pip install x',
        "$CC -c x.c",
        '"${BIN}/tool" --x',
        'eval "$(ssh-agent -s)"',
        'eval "$(brew shellenv)"',
        "source <(kubectl completion bash)",
        "cat x.sh | sh",
        "./configure && make",
        "echo $((1 + (2 * 3)))",
        "cd build && rm -rf *",
        "cd build || exit 1; rm -rf *",
        "set -e; cd build; rm -rf *",
        "cd build; make; cd ..; rm -rf build",
        "for i in {1..100}; do echo $i; done",
        "if [ -f x ]; then rm x; fi",
        "python$VERSION -m venv x",
        'x=$(date); echo "$x"',
        'while read -r l; do echo "$l"; done < file',
        'f() { echo "$@"; }; f a b',
        "$SUDO apt-get update",
        "alias ll='ls -l'; ll",
        '[ -n "$x" ] && echo hi',
        'for f in *.c; do gcc -c "$f"; done',
        'files=(a b c); for f in "${files[@]}"; do echo "$f"; done',
        "${CC:-gcc} -c x.c",
        'rm -rf "$TMPDIR"/*',
        'exec "$@"',
        "ls | xargs",
        "git ls-files | xargs grep foo",
        'unset IFS; for x in a b; do [ "$x" ]; done',
        "cp a.sh b.sh; sh b.sh",
        'sh -c "$EDITOR notes.md"',
        'sh -c "$NPM run build"',
        'cmd="npm test"; sh -c "$cmd"',
        "ssh $SSH_OPTS $HOST",
        'ssh "$HOST" "cd $DIR && make"',
        'docker run --rm app sh -c "$CMD"',
        'run() { bash -c "$1"; }; run "make test"',
        'echo "$JSON" | python3 -m json.tool',
        'echo "${PS1@P}"',
    ],
)
def test_everyday_style_passes_although_a_value_is_not_known(text: str) -> None:
    assert held(text) == []


@pytest.mark.parametrize(
    ("text", "rule", "target"),
    [
        ("$run -rf /", "COMMAND_UNKNOWN", "$run"),
        ("$(sort x) -rf /", "COMMAND_UNKNOWN", "text of another command"),
        ("echo x | sort | sh", "INPUT_UNKNOWN", "input"),
        ('sh -c "$CMD"', "INPUT_UNKNOWN", "text"),
        ('bash -c "cd src; ${STEPS} && make"', "INPUT_UNKNOWN", "text"),
        ('echo "$SCRIPT" | bash', "INPUT_UNKNOWN", "input"),
        ('bash <<< "$SCRIPT"', "INPUT_UNKNOWN", "input"),
        ('python3 -c "$CODE"', "INPUT_UNKNOWN", "text"),
        ('su app -c "$CMD"', "INPUT_UNKNOWN", "su"),
        ("sort x > f; sh f", "INPUT_UNKNOWN", "file"),
        ('eval "$(sort <<< x)"', "INPUT_UNKNOWN", "eval"),
    ],
)
def test_a_finding_says_what_is_unknown(text: str, rule: str, target: str) -> None:
    [found] = held(text)

    assert found.action is Action.ESCALATE
    assert (found.evidence["rule"], found.evidence["target"]) == (rule, target)
    assert "only known at run time" in found.detail


@pytest.mark.parametrize(
    "text",
    [
        "for x in " + " ".join(map(str, range(400))) + "; do ls; done",
        "a=1; b && a=2; c && a=3; d && a=4; ls $a $a $a",
        "a=1; b && a=2; c && a=3; d && a=4; x=$a$a$a; $x",
        "".join(f"cd /srv/{n}; " for n in range(20)) + "ls",
    ],
)
def test_a_bound_that_is_hit_is_escalated(text: str) -> None:
    rules = [found.evidence["rule"] for found in held(text)]

    assert rules[:1] in (["TOO_MANY_READINGS"], ["COMMAND_UNKNOWN"])


def test_each_reading_of_a_word_counts_beyond_the_bound() -> None:
    text = "a=1; b && a=2; c && a=3; d && a=/; rm -rf $a $a $a"

    assert "DELETE_ROOT" in [found.evidence["rule"] for found in held(text)]


def test_too_many_readings_of_what_is_only_printed_are_no_question() -> None:
    assert held("a=1; b && a=2; c && a=3; d && a=4; echo $a $a $a") == []
