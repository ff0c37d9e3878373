"""Take the pictures of the dashboard for the docs: a sample day in Chromium, light and dark.

`make screenshots` runs it in the environment of the browser tests. Times and ids differ from run to
run, so the pictures are not checked against the code; a person looks at them.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).resolve().parent.parent / "docs/images"
SIZE = {"width": 1280, "height": 800}
# WebP of this quality is a fourth of a PNG, and its letters are sharp.
QUALITY = 82
# The name of each picture, and the page that it shows.
PAGES = {"dashboard": "/", "decision": "/decisions/{refund}"}


def main() -> int:
    """Serve a sample day, and write each picture; return the exit status."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("error: neither chromium nor google-chrome is on PATH (`apt install chromium`)")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        demur = [sys.executable, "-m", "demur"]
        subprocess.run([*demur, "init"], cwd=folder, check=True, capture_output=True)
        serve = [*demur, "serve", "--sample", "--port", "0", "--json"]
        with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as service:
            try:
                assert service.stdout is not None
                address = str(json.loads(service.stdout.readline())["url"])
                show = [*demur, "show", "--tenant", "sample", "--action", "refund", "--json"]
                options = ["--outcome", "needs_something", "--last", "1"]
                found = subprocess.run(
                    [*show, *options], cwd=folder, check=True, capture_output=True, text=True
                )
                refund = json.loads(found.stdout)["decision_id"]
                with sync_playwright() as engine:
                    browser = engine.chromium.launch(
                        executable_path=chromium, args=["--headless", "--no-sandbox"]
                    )
                    for name, path in PAGES.items():
                        for scheme in ("light", "dark"):
                            data = take(browser, address + path.format(refund=refund), scheme)
                            (FOLDER / f"{name}-{scheme}.webp").write_bytes(data)
                            print(f"wrote {name}-{scheme}.webp: {len(data) // 1024} KiB")
                    browser.close()
            finally:
                service.terminate()
    return 0


def take(browser: Browser, url: str, scheme: str) -> bytes:
    """Return a page as WebP."""
    page = browser.new_page(viewport=SIZE, color_scheme=scheme, locale="en-GB")
    page.goto(url, wait_until="networkidle")
    session = page.context.new_cdp_session(page)
    picture = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    page.close()
    return base64.b64decode(picture["data"])


if __name__ == "__main__":
    sys.exit(main())
