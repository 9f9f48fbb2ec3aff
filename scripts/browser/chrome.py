"""A headless Chromium, driven over its DevTools pipe. Nothing but Python's own library is needed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find():
    """The browser: PTXINSPECT_CHROMIUM, or one on PATH; None where there is none."""
    named = os.environ.get("PTXINSPECT_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell"]
    return next((found for found in map(shutil.which, names) if found), None)


class Chrome:
    def __init__(self, path):
        self.profile = tempfile.TemporaryDirectory(prefix="ptxinspect-browser-")
        theirs_in, self.write_to = os.pipe()
        self.read_from, theirs_out = os.pipe()

        def pipes():
            # The browser reads 3 and writes 4; the ends must not be overwritten while they are moved there.
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            while a in (3, 4):
                a = os.dup(a)
            while b in (3, 4):
                b = os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", "--hide-scrollbars",
                 "--disable-background-networking", "--force-color-profile=srgb", f"--user-data-dir={self.profile.name}", "about:blank"]
        self.child = subprocess.Popen([path, *flags], preexec_fn=pipes, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.buffer, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.child.wait(10)
        except Exception:
            self.child.kill()
            self.child.wait()
        os.close(self.write_to)
        os.close(self.read_from)
        self.profile.cleanup()

    def receive(self, until):
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.read_from], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self.read_from, 1 << 20)
            if not got:
                raise ConnectionError("the browser is gone")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, timeout=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.write_to, data):]
        until = time.monotonic() + timeout
        while True:
            answer = self.receive(until)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, url, width=1280, height=800, dark=False):
        return Page(self, url, width, height, dark)


class Page:
    """One tab."""

    def __init__(self, chrome, url, width, height, dark):
        self.chrome = chrome
        target = chrome.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = chrome.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)
        self.theme(dark)
        started = time.monotonic()
        self.call("Page.navigate", url=url)
        # A page without a program is ready when it is there.
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank' && "
                  "(document.documentElement.dataset.ready === 'true' || document.scripts.length === 0)")
        self.settle()
        self.seconds = time.monotonic() - started

    def call(self, method, **params):
        return self.chrome.call(method, session=self.session, **params)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def run(self, script):
        """The value of an expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition, seconds=30):
        until = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"never: {condition}")
            time.sleep(0.02)

    def settle(self):
        """Two frames: what was asked for is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key):
        printable = len(key) == 1
        down = {"type": "keyDown" if printable else "rawKeyDown", "key": key}
        if printable:
            down["text"] = key
        self.call("Input.dispatchKeyEvent", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def type(self, text):
        for letter in text:
            self.key(letter)

    def click(self, selector, x=0.5, y=0.5):
        box = self.run(f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()")
        at = {"x": box[0] + box[2] * x, "y": box[1] + box[3] * y, "button": "left", "clickCount": 1}
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **at)
        self.settle()

    def hover(self, selector):
        box = self.run(f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; }})()")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0] + box[2] / 2, y=box[1] + box[3] / 2)
        self.settle()

    def complaints(self):
        """What the console said that it should not, and what was asked of the network."""
        said = []
        for event in self.chrome.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                said.append(params["exceptionDetails"].get("exception", {}).get("description", str(params)))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                said.append(str(params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                said.append(params["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                said.append(f"a dialog: {params['message']}")
            elif method == "Network.requestWillBeSent" and not params["request"]["url"].startswith(("file:", "data:")):
                said.append(f"asked for {params['request']['url']}")
        return said

    def screenshot(self, path):
        self.settle()
        shot = self.call("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        self.chrome.call("Target.closeTarget", targetId=self.target)
