"""Headless Chromium driven over its own pipe (Chrome DevTools Protocol), with no other package."""

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

BINARY = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--remote-debugging-pipe",
]

# what no page may run
HOSTILE = (
    "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>"
    "<svg onload='window.ran = 3'><!--<script> &lt;b&gt; \u2028 <a href='javascript:window.ran=4'>"
)


class Chromium:
    """One page in a fresh profile; every request, console message and exception is recorded."""

    def __init__(self, profile: Path, width: int = 1200, height: int = 900, theme: str = "light"):
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        # the protocol's pipes are file descriptors 3 and 4
        shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        own_flags = [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        browser = [BINARY, *_FLAGS, *own_flags, "about:blank"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "chromium", *browser],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)

        self._buffer = b""
        self._next = 0
        self._session = None
        self.events = []

        self._session = self._session_of_the_page()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.look_as(width, height, theme)

    def _session_of_the_page(self):
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        return attached["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)

    def send(self, method, **parameters):
        """Call a method of the protocol and return its result."""
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session

        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]

        while True:
            answer = self._receive()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        while b"\0" not in self._buffer:
            chunk = os.read(self._read, 1 << 16)
            assert chunk, "Chromium ended"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def open(self, where: Path | str):
        """Open a file, or an address, and wait until it has loaded."""
        url = where if isinstance(where, str) else where.resolve().as_uri()
        self.send("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression in the page."""
        result = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, condition, seconds=30.0):
        """Wait until an expression in the page is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"still not true in the page: {condition}"
            time.sleep(0.05)

    def choose(self, element, value):
        """Set a form field as a reader would, as soon as it is there."""
        self.wait_for(f"document.getElementById({json.dumps(element)})")
        self.run(
            f"(() => {{ const e = document.getElementById({json.dumps(element)});"
            f" e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    def click(self, selector):
        """Click on the first element of a selector, as soon as it is there.

        A page may add a button after it is drawn, such as the one that unfolds a long text.
        """
        found = f"document.querySelector({json.dumps(selector)})"
        self.wait_for(found)
        self.run(f"{found}.click()")

    def press(self, key):
        """Press a key where the page has its focus."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def look_as(self, width, height=900, theme="light"):
        """Go on as a window of another size, or in the other theme."""
        size = {"width": width, "height": height}
        self.send(
            "Emulation.setDeviceMetricsOverride",
            **{**size, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        preference = {"name": "prefers-color-scheme", "value": theme}
        self.send("Emulation.setEmulatedMedia", features=[preference])

    def screenshot(self, path: Path):
        """Write what the window shows as PNG."""
        data = self.send("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def wait_for_event(self, method, is_wanted, seconds=30.0):
        """Wait until an event of a kind was recorded for which `is_wanted(parameters)` is true."""
        end = time.monotonic() + seconds
        while not any(map(is_wanted, self.of_kind(method))):
            assert time.monotonic() < end, f"no such event: {self.of_kind(method)}"
            time.sleep(0.05)
            self.run("0")  # its answer comes after the events before it

    def of_kind(self, method):
        """The parameters of the recorded events of a kind."""
        return [event["params"] for event in self.events if event.get("method") == method]


def texts(browser, selector):
    """What all elements of a selector say."""
    query = f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)"
    return browser.run(query)


def assert_quiet(browser, server="file:"):
    """No error, no refused request, none but to `server`, nothing ran that is not ours."""
    assert browser.run("window.ran") is None
    exceptions = browser.of_kind("Runtime.exceptionThrown")
    assert exceptions == [], exceptions
    assert browser.of_kind("Runtime.consoleAPICalled") == []
    assert browser.of_kind("Log.entryAdded") == []
    sent = [event["request"]["url"] for event in browser.of_kind("Network.requestWillBeSent")]
    assert sent
    of_the_page = (server, "data:", "blob:")
    assert [url for url in sent if not url.startswith(of_the_page)] == []
