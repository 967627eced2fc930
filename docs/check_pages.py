"""Check the built pages: internal links, and pages that do not fit a screen of 390 pixels.

    make docs
    python docs/check_pages.py

A link is broken if there is no such page, file or anchor. A page does not fit if an element
sticks out and cannot be scrolled within its box; this needs Chromium, and is left out without.
Prints what is wrong, and ends with code 1 if anything is.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

BUILT = Path(__file__).parent / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--virtual-time-budget=600000",
    "--dump-dom",
)
# Loads each page in a frame of that width, one after the other.
HARNESS = """<!doctype html><pre id="found"></pre><script>
const pages = PAGES, width = WIDTH, found = {};
const frame = document.createElement("iframe");
frame.style.cssText = `width: ${width}px; height: 844px; border: 0`;
document.body.append(frame);
function next() {
  const page = pages.shift();
  if (page === undefined) {
    document.getElementById("found").textContent = JSON.stringify(found);
    return;
  }
  frame.onload = () => {
    const scrolls = (e) => ["auto", "scroll"].includes(
      frame.contentWindow.getComputedStyle(e).overflowX);
    const fits = (e) => {
      if (e.getBoundingClientRect().right <= width + 1) return true;
      for (let box = e.parentElement; box.tagName != "ARTICLE"; box = box.parentElement)
        if (scrolls(box)) return true;
      return scrolls(e);
    };
    const wide = [...frame.contentDocument.querySelectorAll("article *")].filter(e => !fits(e));
    if (wide.length)
      found[page] = wide[0].tagName.toLowerCase() + ": " + wide[0].textContent.trim().slice(0, 60);
    next();
  };
  frame.src = "/" + page;
}
next();
</script>"""


class Page(HTMLParser):
    """The links of a page, and the anchors that it has."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links |= {found[key] for key in ("href", "src") if found.get(key)}


def broken_links(folder, paths):
    """Return the broken internal links of each page, by its path."""
    pages = {path: Page(path) for path in paths}
    found = {}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_broken = not target.exists()
            if not is_broken and parts.fragment and target in pages:
                is_broken = unquote(parts.fragment) not in pages[target].anchors
            if is_broken:
                found.setdefault(str(path.relative_to(folder)), []).append(link)
    return found


class Handler(SimpleHTTPRequestHandler):
    """Serves the built pages, and the harness as ``/harness``."""

    def __init__(self, *args, harness, **kwargs):
        self.harness = harness
        super().__init__(*args, **kwargs)

    def do_GET(self):
        if self.path != "/harness":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.harness.encode())

    def log_message(self, *args):
        """Say nothing."""


def wide_elements(browser, folder, paths, width):
    """Return what sticks out of each page, by its path."""
    names = [str(path.relative_to(folder)) for path in paths]
    harness = HARNESS.replace("PAGES", json.dumps(names)).replace("WIDTH", str(width))
    handler = partial(Handler, directory=str(folder), harness=harness)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/harness"
        done = subprocess.run(
            [browser, *OPTIONS, address], capture_output=True, text=True, check=True
        )
        server.shutdown()
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL).group(1)
    return json.loads(html.unescape(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILT, help="of the built pages")
    parser.add_argument("--width", type=int, default=390, help="of the screen, in pixels")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    paths = sorted(folder.rglob("*.html"))
    broken = broken_links(folder, paths)
    for page, links in broken.items():
        print(f"{page}: broken links {', '.join(links)}")
    print(f"broken links on {len(broken)} of {len(paths)} pages")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("no Chromium: widths were not checked")
        sys.exit(bool(broken))
    wide = wide_elements(browser, folder, paths, arguments.width)
    for page, element in wide.items():
        print(f"{page}: too wide is {element}")
    print(f"{len(wide)} of {len(paths)} pages do not fit {arguments.width} pixels")
    sys.exit(bool(broken or wide))


if __name__ == "__main__":
    main()
