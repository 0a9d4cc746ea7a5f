"""Headless Chromium over its DevTools protocol, and TensorBoard for it to look at."""

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import sys
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

    async def resize(self, width, height):
        """Show the page in a window of this size."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def photograph(self, file, width, height):
        """Save the page's upper left corner as a PNG."""
        size = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = await self.send("Page.captureScreenshot", clip=size)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def tensorboard(folder, ready, cwd=None):
    """TensorBoard's address, once `ready(address)` is true: it loads runs in its own time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", *where], stdout=quiet, stderr=quiet, cwd=cwd
    )
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 90
        while not ready(address):
            assert time.monotonic() < end, "TensorBoard didn't load the runs"
            time.sleep(0.3)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)


def ask(address, path, body=None):
    """What TensorBoard answers to a request for data; None while it doesn't."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


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
