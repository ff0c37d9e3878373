import pytest
from made_secrets import drawn, private_key

from demur.guards.output.guard import OutputConfig, OutputText, check
from demur.guards.secrets.private_keys import PRIVATE_KEYS
from demur.model.finding import Finding


def found(text: str) -> list[Finding]:
    return list(check(OutputText(text), OutputConfig(loose_secrets=False, personal=None)))


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_the_whole_key_is_marked(kind: str) -> None:
    key = private_key(kind)
    [finding] = found(f"Here:\n{key}\nDone.")

    assert finding.span is not None
    assert (finding.span.start, finding.span.end) == (6, 6 + len(key))


def test_a_key_with_armour_headers_or_escaped_lines_is_found() -> None:
    key = private_key().replace("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\n\n", 1)

    assert len(found(key)) == 1
    assert len(found(private_key("").replace("\n", "\\n"))) == 1


def test_a_key_that_breaks_off_is_found_up_to_where_it_does() -> None:
    cut = private_key()[:400]
    [finding] = found(f"{cut}\n*and so on*")

    assert finding.span is not None
    assert finding.span.end >= len(cut)


def test_armour_at_the_end_counts_as_a_key() -> None:
    assert len(found("-----BEGIN EC PRIVATE KEY-----\n")) == 1
    assert len(found(f"-----BEGIN EC PRIVATE KEY-----\n{drawn(60)}")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PUBLIC KEY-----\nMIIB",
        "-----BEGIN CERTIFICATE-----\n" + drawn(64),
        'if "-----BEGIN RSA PRIVATE KEY-----" in text: reject()',
        "A key starts with -----BEGIN PRIVATE KEY----- and ends with another line.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{drawn(30)}...\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nshort",
        "-----BEGIN PRIVATE KEY-----\nVersion: 1\nno key here",
    ],
)
def test_what_only_speaks_of_keys_passes(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("size", [20, 90, 120, 400])
def test_a_key_that_may_go_on_is_not_decided_yet(size: int) -> None:
    text = f"x {private_key()[:size]}"

    assert PRIVATE_KEYS.search(text, 0, False) == ((), 2)


def test_a_key_without_an_end_is_cut_at_a_bound() -> None:
    head = "-----BEGIN PRIVATE KEY-----"
    seen, undecided = PRIVATE_KEYS.search(head + drawn(9000), 0, False)

    assert [(each.start, each.end) for each in seen] == [(0, len(head) + 8192)]
    assert undecided == len(head) + 9000 - len("-----BEGIN ")
