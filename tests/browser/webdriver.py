"""A browser without a screen, driven by the W3C WebDriver protocol."""
import json
import os
import subprocess
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1400,1000",
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window."""

    def __init__(self, profile, limit=60, hosts=("127.0.0.1",), is_insecure=False):
        """`hosts` are reached. `is_insecure` accepts certificates of unknown authorities."""
        self.limit = limit
        self.log = open(profile + ".log", "w+", encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.base = f"http://127.0.0.1:{self._port()}"
        # Whatever asks for another machine fails, and is seen.
        rules = ", ".join(["MAP * ~NOTFOUND", *(f"EXCLUDE {host}" for host in hosts)])
        options = {
            "binary": "/usr/bin/chromium",
            "args": [*FLAGS, f"--host-resolver-rules={rules}", f"--user-data-dir={profile}"],
        }
        wanted = {"acceptInsecureCerts": is_insecure, "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = self._post("/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += "/session/" + session["sessionId"]

    def _port(self):
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                return int(line.rstrip().rstrip(".").rsplit(" ", 1)[1])
        raise RuntimeError("the driver of the browser does not start")

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with self.opener.open(request, timeout=self.limit) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {json.load(error)['value']['message']}") from error

    def _post(self, path, body):
        return self._send("POST", path, body)

    def open(self, url):
        self._post("/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a function's body in the page."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def run_later(self, script, *arguments):
        """The value that a function's body in the page hands to its last argument, a function."""
        return self._post("/execute/async", {"script": script, "args": list(arguments)})

    def command(self, name, **parameters):
        """A command of the browser's own protocol, for what the standard does not have."""
        return self._post("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def wait(self, what, script, *arguments):
        """Waits until the body of a function has a true value, and answers it."""
        deadline = time.monotonic() + self.limit
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > deadline:
                raise RuntimeError(f"waited in vain: {what}")
            time.sleep(0.05)

    def find(self, selector):
        self.wait(f"an element {selector}", "return document.querySelector(arguments[0]) !== null", selector)
        return self._post("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        """Scrolls to an element and clicks where it is."""
        self.find(selector)
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center', behavior: 'instant'})", selector)
        self._post(f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self._post(f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, key):
        """Presses and lets go of one key."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def logs(self, kind):
        """What was logged since the last call: `browser` is the console, `performance` the network."""
        return self._post("/se/log", {"type": kind})

    def close(self):
        try:
            self._send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.log.close()
