"""A headless Chromium that a test drives by its DevTools protocol, over two pipes.

Nothing here sleeps: a test waits for an answer, or for a condition of the page, until DEADLINE_S.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE_S = 120
NAMES = ("chromium", "chromium-browser", "google-chrome")

# Resolves once `condition` holds: checked now and after every change of the document.
WAIT = """new Promise(done => {
  const look = () => { if (%s) { watcher.disconnect(); done(true); } };
  const watcher = new MutationObserver(look);
  watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
  look();
})"""


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """`with Browser() as browser`: one page. What the page complains of is in `errors`."""

    def __init__(self):
        path = find_browser()
        assert path, "there is no chromium; tools/install-packages installs it"
        self.profile = tempfile.TemporaryDirectory(
            prefix="dslide-browser-", ignore_cleanup_errors=True
        )  # its helpers may still write
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        ours = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_browser, from_browser)]

        def as_three_and_four():
            os.dup2(ours[0], 3)
            os.dup2(ours[1], 4)

        command = [
            path,
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={self.profile.name}",
            "about:blank",
        ]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # which root cannot have
        self.process = subprocess.Popen(  # pylint: disable=subprocess-popen-preexec-fn
            command,
            preexec_fn=as_three_and_four,
            pass_fds=(3, 4),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": self.profile.name},
        )
        for fd in (to_browser, from_browser, *ours):
            os.close(fd)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors = []
        self.loaded = set()  # documents, by loader
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.session = None
            self.send("Browser.close")
        try:
            self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
        os.close(self.out)
        os.close(self.into)
        self.profile.cleanup()

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, deadline - time.monotonic()))
            assert ready, "chromium does not answer"
            received = os.read(self.into, 1 << 20)
            assert received, "chromium has ended"
            self.buffer += received
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Page.lifecycleEvent" and parameters["name"] == "load":
            self.loaded.add(parameters["loaderId"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(
                f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}"
            )
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.errors.append(str(parameters["args"]))

    def send(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")

    def call(self, method, **parameters):
        self.send(method, **parameters)
        deadline = time.monotonic() + DEADLINE_S
        while True:
            message = self.receive(deadline)
            self.note(message)
            if message.get("id") == self.number:
                assert "error" not in message, message["error"]
                return message["result"]

    def size(self, width, height, scheme="light"):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, url):
        result = self.call("Page.navigate", url=url)
        assert "errorText" not in result, result
        deadline = time.monotonic() + DEADLINE_S
        while result["loaderId"] not in self.loaded:
            self.note(self.receive(deadline))

    def evaluate(self, expression):
        """The value of a JavaScript expression, or of the promise that it gives."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition):
        assert self.evaluate(WAIT % condition)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def texts(self, selector):
        return self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(node => node.innerText)"
        )

    def key(self, name):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole, format="png")[
            "data"
        ]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
