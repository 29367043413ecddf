#!/usr/bin/env python3
"""Logs in to the console with a real identity provider: role by group, sessions, logout, replayed responses, users without a role.

Usage: oidc.py PROGRAM SCRATCH-DIRECTORY [AXE-CORE-SCRIPT]

The hub has TLS and the provider is another site for the browser, so that the rules for cookies are those of real installations.
"""
import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from checks import AXE, OVERFLOW, require, require_contrast
from provider import Provider, free_port
from webdriver import Browser

ENTER = "\ue007"
CLIENT = "evenkeel"
SECRET = "secret-of-the-client"
PASSWORD = "browser-root-secret"
CONFIGURATION = """
tls = "auto"

[oidc]
issuer = "{issuer}"
audiences = ["{client}"]

[oidc.console]
name = "Plant login"
client-id = "{client}"
client-secret-file = "{secret_file}"
public-url = "{hub}"

[[oidc.roles]]
group = "plant-admins"
role = "org-admin"
organization = "plant"

[[oidc.roles]]
group = "plant-staff"
role = "user"
organization = "plant"
"""


# The provider's page draws its buttons anew at any time: it is found and clicked in one step.
PRESS = """
    const button = [...document.querySelectorAll('button')].find(one => one.textContent.trim() === arguments[0] && !one.disabled);
    if (button) { button.click(); }
    return !!button;
"""


class Hub:
    """A hub that knows the provider."""

    def __init__(self, program, directory, provider):
        os.makedirs(directory)
        self.url = f"https://127.0.0.1:{free_port()}"
        files = {"password": PASSWORD, "client-secret": SECRET}
        paths = {name: os.path.join(directory, name) for name in [*files, "hub.toml", "log"]}
        files["hub.toml"] = CONFIGURATION.format(
            issuer=provider.issuer, client=CLIENT, secret_file=paths["client-secret"], hub=self.url
        )
        for name, content in files.items():
            with open(paths[name], "w", encoding="utf-8") as file:
                file.write(content)
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.log = open(paths["log"], "w", encoding="utf-8")
        listen = self.url.removeprefix("https://")
        self.process = subprocess.Popen(
            [program, "up", "--data-dir", os.path.join(directory, "hub"), "--listen", listen, "--config", paths["hub.toml"],
             "--root-password-file", paths["password"], "--log", "info,sqlx=warn"],
            stdout=self.log, stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                self.send("GET", "/readyz")
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the hub does not become ready: {self.read_log()}") from error
                time.sleep(0.1)

    def read_log(self):
        with open(self.log.name, encoding="utf-8") as log:
            return log.read()

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        login = base64.b64encode(f"root/root:{PASSWORD}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
        request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)
        )
        with opener.open(request, timeout=30) as response:
            text = response.read()
            return json.loads(text) if text and path.startswith("/v1") else None

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def text(browser):
    return browser.run("return document.body.innerText")


def wait_for_page(browser, address):
    browser.wait(f"the page {address}", "return location.href === arguments[0] && document.readyState === 'complete'", address)


def go_to_provider(browser, hub, page):
    """Opens a page of the console, which asks for a login, and follows the link to the provider."""
    browser.open(hub.url + page)
    require("Log in with Plant login" in text(browser), f"the login page names the provider: {text(browser)}")
    browser.click("a[href^='/console/login/oidc']")


def log_in_at_provider(browser, provider, name):
    """Logs in at the provider, and permits the hub to know who that is, because it asks for the first time."""
    browser.wait("the form of the provider", "return location.origin === arguments[0] && !!document.querySelector('#password')", provider.url)
    browser.type("#username", name)
    browser.type("#password", f"password of {name}")
    browser.press(ENTER)
    browser.wait("the permission", PRESS, "Grant access")
    browser.wait("the way back", PRESS, "Continue")


def find_callback(browser, hub):
    """The address to which the provider has sent the browser."""
    for entry in browser.logs("performance"):
        message = json.loads(entry["message"])["message"]
        address = message.get("params", {}).get("request", {}).get("url", "")
        if address.startswith(f"{hub.url}/console/login/oidc/callback?") and "code=" in address:
            return address
    raise RuntimeError("the provider has not sent the browser back")


def check_cookies(browser):
    cookies = browser.command("Network.getAllCookies")["cookies"]
    sessions = [cookie for cookie in cookies if cookie["name"].startswith("__Secure-evenkeel-console")]
    require(len(sessions) == 1, f"a session: {cookies}")
    session = sessions[0]
    require(session["secure"] and session["httpOnly"] and session["sameSite"] == "Strict", f"its cookie: {session}")
    require(not any(cookie["name"].startswith("__Host-") for cookie in cookies), "the attempt is over")


def check_first_login(browser, hub, provider):
    go_to_provider(browser, hub, "/console/orgs/plant/nodes")
    cookies = browser.command("Network.getAllCookies")["cookies"]
    attempts = [cookie for cookie in cookies if cookie["name"].startswith("__Host-evenkeel-login")]
    require(len(attempts) == 1 and attempts[0]["sameSite"] == "Lax" and attempts[0]["path"] == "/", f"{attempts}")
    log_in_at_provider(browser, provider, "ann")
    # A redirection would have ended at the login page: the cookie of the session is not sent along it.
    wait_for_page(browser, f"{hub.url}/console/orgs/plant/nodes")
    check_cookies(browser)
    callback = find_callback(browser, hub)
    browser.open(f"{hub.url}/console/account")
    require("plant/ann" in text(browser) and "User of the organization." in text(browser), text(browser))
    require("this one" in text(browser), "the session is listed")
    user = hub.send("GET", "/v1/orgs/plant/users/ann")["users"]["plant/ann"]
    require(not user["admin"] and user["email"] == "ann@plant.example", f"{user}")
    return callback


def check_logout(browser, hub, provider, callback):
    browser.open(f"{hub.url}/console/account")
    browser.click("form[action='/console/logout'] button")
    wait_for_page(browser, f"{hub.url}/console/login?left=1")
    require("You have logged out of the console." in text(browser), text(browser))
    require(browser.run("return document.querySelector('a[href*=\"end_session\"]') !== null"), "the session at the provider is named")
    # The response of the provider is worth nothing a second time, although the browser still has its address.
    browser.open(callback)
    require("has been used already" in text(browser), text(browser))
    browser.open(f"{hub.url}/console/account")
    require(browser.run("return location.pathname") == "/console/login", "the session has ended")
    # The session at the provider goes on: no password is needed.
    go_to_provider(browser, hub, "/console/account")
    browser.wait("the way back", PRESS, "Continue")
    wait_for_page(browser, f"{hub.url}/console/account")
    browser.click("form[action='/console/account/sessions/end'] input[value=all] + button")
    wait_for_page(browser, f"{hub.url}/console/login?left=1")
    keys = hub.send("GET", "/v1/orgs/plant/users/ann")["users"]["plant/ann"]["apikeys"]
    require(keys == [], f"no key is left: {keys}")


def check_pages(browser, hub, rules):
    """The login page on a narrow and dark screen, and the page of a refusal."""
    for page in ["/console/login", "/console/login/oidc/callback?code=a&state=b"]:
        browser.open(hub.url + page)
        browser.command("Emulation.setDeviceMetricsOverride", width=360, height=640, deviceScaleFactor=1, mobile=True)
        overflow = browser.run(OVERFLOW)
        require(overflow is None, f"{page} is wider than 360 px: {overflow}")
        browser.command("Emulation.clearDeviceMetricsOverride")
        for scheme in ["light", "dark"]:
            browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            require_contrast(browser, "main a", "main p", "h1")
        if rules:
            with open(rules, encoding="utf-8") as script:
                browser.run(script.read())
            found = browser.run_later(AXE)
            require(not found, f"{page}: {found}")


def check_other_users(program, scratch, hub, provider):
    browser = open_browser(os.path.join(scratch, "profile-chief"))
    try:
        go_to_provider(browser, hub, "/console")
        log_in_at_provider(browser, provider, "chief")
        wait_for_page(browser, f"{hub.url}/console/orgs/plant/now")
        browser.open(f"{hub.url}/console/account")
        require("Administrator of the organization." in text(browser), text(browser))
    finally:
        browser.close()
    browser = open_browser(os.path.join(scratch, "profile-guest"))
    try:
        go_to_provider(browser, hub, "/console")
        log_in_at_provider(browser, provider, "guest")
        browser.wait("the page of the refusal", "return document.title.includes('Not logged in')")
        require("none of the groups of 'guest' has a role here" in text(browser), text(browser))
        time.sleep(1)
        require(browser.run("return location.pathname") == "/console/login/oidc/callback", "the page stays")
    finally:
        browser.close()


def open_browser(profile):
    return Browser(profile, hosts=["127.0.0.1", "localhost"], is_insecure=True)


def main():
    program, scratch, *rules = sys.argv[1:]
    # The processes end with this one, also at the end of its time.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    provider = Provider(os.path.join(scratch, "provider"))
    try:
        hub = Hub(program, os.path.join(scratch, "oidc-hub"), provider)
        try:
            hub.send("POST", "/v1/orgs/plant", {"label": "", "description": ""})
            provider.add_client(CLIENT, SECRET, f"{hub.url}/console/login/oidc/callback")
            for name, groups in [("ann", ["others", "plant-staff"]), ("chief", ["plant-admins"]), ("guest", ["others"])]:
                provider.add_user(name, groups)
            browser = open_browser(os.path.join(scratch, "profile-ann"))
            try:
                callback = check_first_login(browser, hub, provider)
                check_logout(browser, hub, provider, callback)
                check_pages(browser, hub, rules[0] if rules else None)
            finally:
                browser.close()
            check_other_users(program, scratch, hub, provider)
            code = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query))["code"]
            require(code not in hub.read_log() and SECRET not in hub.read_log(), "no secret is logged")
        except BaseException:
            print(hub.read_log()[-4000:], provider.read_log()[-4000:], file=sys.stderr)
            raise
        finally:
            hub.close()
    finally:
        provider.close()
    print("logins with the identity provider: role, session, logout, replay and refusal are as they should be")


if __name__ == "__main__":
    main()
