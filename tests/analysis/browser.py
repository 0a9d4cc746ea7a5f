"""Headless Chromium over its DevTools protocol: what a page shows, requests and complains about."""

import asyncio
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from tornado.websocket import websocket_connect

EXECUTABLE = shutil.which("chromium") or shutil.which("google-chrome")

# The text of a page with all its shadow roots, which innerText leaves out.
DEEP_TEXT = """
(function walk(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (["STYLE", "SCRIPT", "TEMPLATE"].includes(node.nodeName)) return "";
  const children = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
  return children.map(walk).join("\\n");
})(document.body)
"""


class Page:
    """One tab; `requests` are the addresses it asked for, `errors` what it complained about."""

    def __init__(self, socket):
        self._socket = socket
        self._ids = itertools.count(1)
        self.requests, self.errors = [], []

    async def send(self, method, **parameters):
        number = next(self._ids)
        await self._socket.write_message(
            json.dumps({"id": number, "method": method, "params": parameters})
        )
        while True:
            message = json.loads(await self._socket.read_message())
            if message.get("id") == number:
                return message["result"]
            self._note(message)

    def _note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"]["text"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])

    async def open(self, url):
        """Load a page afresh, also when only its #fragment differs."""
        await self.send("Page.navigate", url="about:blank")
        await self.send("Page.navigate", url=url)

    async def text(self, *wanted, within=30):
        """Wait until all the wanted texts are there; return all text of the page."""
        end = time.monotonic() + within
        while True:
            result = await self.send("Runtime.evaluate", expression=DEEP_TEXT)
            text = " ".join((result["result"].get("value") or "").split())
            missing = [part for part in wanted if part not in text]
            if not missing:
                return text
            assert time.monotonic() < end, f"{missing} not in the page: {text[:3000]}"
            await asyncio.sleep(0.3)


def visit(profile: Path, steps):
    """Run `await steps(page)` in a browser of its own."""
    flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]
    size, port = "--window-size=1400,900", "--remote-debugging-port=0"
    command = [EXECUTABLE, *flags, size, port, f"--user-data-dir={profile}"]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, "about:blank"], stdout=quiet, stderr=quiet)
    try:
        return asyncio.run(_visit(profile, steps))
    finally:
        process.terminate()
        process.wait(timeout=20)


async def _visit(profile, steps):
    ports = profile / "DevToolsActivePort"
    end = time.monotonic() + 30
    while not ports.exists() or not ports.read_text():
        assert time.monotonic() < end, "Chromium didn't start"
        await asyncio.sleep(0.1)
    port = ports.read_text().split()[0]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as answer:
        (tab,) = (tab for tab in json.load(answer) if tab["type"] == "page")
    socket = await websocket_connect(tab["webSocketDebuggerUrl"], max_message_size=1 << 28)
    page = Page(socket)
    for domain in ("Page", "Runtime", "Log", "Network"):
        await page.send(f"{domain}.enable")
    return await steps(page)
