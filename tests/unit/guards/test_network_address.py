import pytest

from demur.guards.network_address import find_addresses, is_within_domains, parse_bare_address

METADATA = [
    "http://169.254.169.254/latest/meta-data",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://0xa9.0xfe.0xa9.0xfe",
    "http://0251.0376.0251.0376",
    "http://169.254.43518/",
    "http://[::ffff:169.254.169.254]:80/x",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[::169.254.169.254]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[fd00:ec2::254]/",
    "http://\u2460\u2465\u2468.254.169.254",
    "http://169\u3002254\u3002169\u3002254/",
    "http://%31%36%39.254.169.254",
    "http://169.254.169.254.nip.io/",
    "http://a-169-254-169-254.sslip.io/",
    "http://metadata.google.internal./computeMetadata",
    "https://user:pw@169.254.169.254/",
    "https://example.com\\@169.254.169.254/",
    "http:\\\\169.254.169.254",
    "HTTP://169.254.169.254",
]
PRIVATE = [
    "http://localhost:3000",
    "http://app.localhost",
    "http://127.1/",
    "http://0/",
    "http://10.1.2.3",
    "http://[::1]:8080",
    "http://[::]",
    "http://db/",
    "http://printer.local",
    "http://localtest.me",
    "http://x.lvh.me",
    "http://224.0.0.1",
]
PUBLIC = [
    "https://example.com/a?b=http",
    "http://1.1.1.1",
    "http://300.1.1.1",
    "http://256.1.1.1.example.com",
    "http://999.999.999.999.example",
    "http://1.2.3.4.5.example",
    "http://[2606:4700::1]/",
    "http://169.254.169.254@example.com/",
    "http://08.example.org",
]


@pytest.mark.parametrize(
    ("url", "reach"),
    [
        *((url, "metadata") for url in METADATA),
        *((url, "private") for url in PRIVATE),
        *((url, "public") for url in PUBLIC),
    ],
)
def test_a_url_leads_where_lenient_clients_go(url: str, reach: str) -> None:
    found = [address.reach for address in find_addresses(f"see {url}")]

    assert found
    assert found[-1] == reach


@pytest.mark.parametrize(
    ("text", "reach"),
    [
        ("//169.254.169.254/x", ["metadata"]),
        ("\\\\169.254.169.254\\x", ["metadata"]),
        ('src="//2852039166/x"', ["metadata"]),
        ("//metadata.google.internal/", ["metadata"]),
        ("//10.0.0.1:80", ["private"]),
        ("//[::1]/", ["private"]),
        ("//user@127.0.0.1/", ["private"]),
        ("//cdn.example.com/x.js", []),
        ("x = 1  // see a.b", []),
        ("//comment", []),
        ("a//10.0.0.1", []),
    ],
)
def test_an_inner_address_needs_no_scheme(text: str, reach: list[str]) -> None:
    assert [address.reach for address in find_addresses(text)] == reach


def test_the_span_of_an_address_marks_the_host_and_port() -> None:
    text = "\ud800 look: http://10.0.0.1:99/x"
    [address] = find_addresses(text)

    assert text[address.start : address.end] == "10.0.0.1:99"
    assert (address.host, address.port) == ("10.0.0.1", 99)


@pytest.mark.parametrize("text", ["", "no url", "a:/b", "http://", "http://@", "x://\\"])
def test_text_without_a_host_has_no_address(text: str) -> None:
    assert list(find_addresses(text)) == []


@pytest.mark.parametrize(
    ("text", "host", "port", "reach"),
    [
        (" 10.0.0.1:22 ", "10.0.0.1", 22, "private"),
        ("[::1]:80", "::1", 80, "private"),
        ("::1", "::1", None, "private"),
        ("[::1]", "::1", None, "private"),
        ("example.com", "example.com", None, "public"),
        ("localhost", "localhost", None, "private"),
        ("2130706433", "2130706433", None, "private"),
    ],
)
def test_a_bare_host_is_read(text: str, host: str, port: int | None, reach: str) -> None:
    found = parse_bare_address(text)

    assert found is not None
    assert (found.host, found.port, found.reach) == (host, port, reach)


@pytest.mark.parametrize("text", ["", "two words", "word", "%", "a:b:c", "9" * 30])
def test_other_words_are_no_bare_host(text: str) -> None:
    assert parse_bare_address(text) is None


def test_a_domain_holds_what_is_below_it() -> None:
    assert is_within_domains("api.example.com", ("Example.com",))
    assert is_within_domains("example.com", ("example.com",))
    assert not is_within_domains("badexample.com", ("example.com",))
