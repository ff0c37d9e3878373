from dashboard_site import HTML, Page, Site


def sent(site: Site, content: bytes, name: str = "a.log") -> Page:
    head = f'Content-Disposition: form-data; name="log"; filename="{name}"'
    body = b"--edge\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n--edge--\r\n"
    headers = {**HTML, "content-type": "multipart/form-data; boundary=edge"}
    answer = site.call("POST", "/triage", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def test_the_counts_of_a_log_are_shown(site: Site) -> None:
    page = sent(site, b"REFUSED: RCE_RISK: x\nREFUSED: MADE_UP: y\n")

    assert "1 refusal in a.log" in page.text
    assert "Not in this number: 1 of codes that no registry knows" in page.text
    assert "/reasons/RCE_RISK" in page.links()
    assert "MADE_UP unknown" in page.text


def test_a_log_without_refusals_shows_what_one_looks_like(site: Site) -> None:
    page = sent(site, b"all fine\n", "<b>.log")

    assert "0 refusals in <b>.log" in page.text
    assert "REFUSED: RCE_RISK" in page.text


def test_the_page_asks_for_a_log(site: Site) -> None:
    page = site.open("/triage")

    assert [one.attrs["name"] for one in page.all("input") if one.attrs["type"] == "file"] == [
        "log"
    ]
    assert site.send("/triage", {}).status_code == 415
