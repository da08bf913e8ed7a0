"""A headless Chromium driven through chromedriver's own protocol (W3C WebDriver over HTTP), without other packages."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

TAB, ARROW_RIGHT, SPACE, ENTER = "\ue004", "\ue014", " ", "\ue007"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-sync", "--hide-scrollbars"),
)


def chromium():
    """Return the browser's path, None where browser or driver is missing."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    return found if shutil.which("chromedriver") else None


class Browser:
    """One window; use it in a `with` block."""

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._base = f"http://127.0.0.1:{port}"
        options = {"binary": chromium(), "args": [*_FLAGS, f"--user-data-dir={self._profile.name}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        started = self._until_ready({"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{started['sessionId']}"
        return self

    def __exit__(self, *_):
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)
            self._profile.cleanup()

    def open(self, path, width, height=900, dark=False, script=True, fragment=""):
        """Load a file at a window size, in the light or the dark scheme of the system; with a fragment anew."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.devtools("Emulation.setScriptExecutionDisabled", value=not script)
        if fragment:  # the same document with another fragment would not be loaded again
            self._call("POST", "/url", {"url": "about:blank"})
        self._call("POST", "/url", {"url": path.resolve().as_uri() + fragment})
        for _ in range(200):  # on a busy machine the driver may answer before the document is there
            if self.ask("location.protocol + document.readyState + !!document.title") == "file:completetrue":
                break
            time.sleep(0.05)

    def ask(self, expression):
        """Return the value of a JavaScript expression."""
        return self._call("POST", "/execute/sync", {"script": f"return {expression}", "args": []})

    def press(self, *keys):
        """Press keys, one after another, where the focus is."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def devtools(self, command, **parameters):
        """Run one command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def console(self):
        """Return what was logged since the last call."""
        return self._call("POST", "/se/log", {"type": "browser"})

    def screenshot(self, path):
        """Write what the window shows as a PNG file."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def _until_ready(self, capabilities):
        for _ in range(100):
            try:
                return self._call("POST", "/session", capabilities)
            except urllib.error.URLError as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not answer")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
