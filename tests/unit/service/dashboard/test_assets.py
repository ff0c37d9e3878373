from dashboard_site import Site

from demur.service.dashboard.assets import load_assets, asset_path


def test_a_static_file_is_kept_for_ever_under_a_name_of_its_content(site: Site) -> None:
    answer = site.get(asset_path("app.css"))

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["etag"].strip('"') in asset_path("app.css")


def test_a_browser_that_has_the_file_gets_nothing_again(site: Site) -> None:
    etag = site.get(asset_path("live.js")).headers["etag"]
    again = site.get(asset_path("live.js"), **{"if-none-match": etag})

    assert again.status_code == 304
    assert again.content == b""


def test_other_names_are_not_found(site: Site) -> None:
    for name in ("app.css", "app.0000000000000000.css", "..%2fassets.py", "%2e%2e/pages.py"):
        assert site.call("GET", f"/static/{name}").status_code == 404


def test_every_script_and_style_is_our_own_and_loads_nothing_from_elsewhere() -> None:
    for name, asset in load_assets().items():
        text = asset.content.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "https://" not in text, name
        assert "@import" not in text, name
        assert "innerHTML" not in text, name
        assert "eval(" not in text, name
