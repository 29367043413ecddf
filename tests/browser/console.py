#!/usr/bin/env python3
"""The console: log in, watch a page live, drain a node by its plan, dark mode, narrow windows, no script, accessibility.

Usage: console.py URL PASSWORD-FILE PROFILE-DIRECTORY [AXE-CORE-SCRIPT]
"""
import base64
import json
import sys
import urllib.request

from checks import AXE, OVERFLOW, require, require_contrast, require_quiet
from webdriver import Browser

ENTER, TAB, SPACE, DOWN, SHIFT = "\ue007", "\ue004", " ", "\ue015", "\ue008"
PAGES = [
    "/console/orgs/o/now",
    "/console/orgs/o/nodes",
    "/console/orgs/o/nodes/edge-1",
    "/console/orgs/o/groups",
    "/console/orgs/o/groups/gate",
    "/console/orgs/o/policies",
    "/console/orgs/o/policies/camera",
    "/console/orgs/o/policies/camera/why",
    "/console/orgs/o/policies/camera/why/try",
    "/console/orgs/o/documents",
    "/console/orgs/o/documents/policies",
    "/console/orgs/o/documents/policies/camera",
    "/console/orgs/o/documents/policies/camera/revisions/1",
    "/console/orgs/o/documents/policies/camera/compare?from=1&to=2",
    "/console/orgs/o/documents/policies/camera/change?revision=2",
    "/console/orgs/o/documents/groups/gate/change",
    "/console/orgs/o/rollouts",
    "/console/orgs/o/events",
    "/console/orgs/o/approvals",
    "/console/orgs/o/do/node-drain?node=edge-1",
    "/console/orgs/o/health",
    "/console/orgs/o/health?policy=camera",
    "/console/orgs/o/audit",
    "/console/orgs/o/audit/verify",
    "/console/orgs/o/users",
    "/console/orgs/o/users/admin",
    "/console/orgs/o/settings",
    "/console/orgs/o/change/user-create",
    "/console/orgs/o/change/user-create?user=ann&email=e&role=deployer&step=plan",
    "/console/orgs/o/change/user-password?user=admin",
    "/console/orgs/o/change/setting?key=readyPeriodSeconds&value=7&step=plan",
    "/console/orgs/o/nodes?state=never-heard",
    "/console/orgs/o/selection?action=drain&scope=all&state=never-heard",
    "/console/orgs/o/selection/done?action=drain&node=edge-1&node=edge-2",
    "/console/orgs/o/views/new?state=never-heard",
    "/console/orgs/o/views/remove?view=new",
    "/console/account",
]


class Api:
    """The API as root."""

    def __init__(self, url, password):
        self.url = url + "/v1"
        self.login = "Basic " + base64.b64encode(f"root/root:{password}".encode()).decode()

    def send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", self.login)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read()
            return json.loads(text) if text else None


def prepare(api):
    """An organization with an administrator, two nodes in a group and a policy."""
    api.send("POST", "/orgs/o", {"label": "", "description": ""})
    api.send("POST", "/orgs/o/users/admin", {"password": "secret", "email": "e", "admin": True})
    for node in ["edge-1", "edge-2"]:
        api.send("PUT", f"/orgs/o/nodes/{node}", {"token": "secret-n", "name": node, "pattern": "", "publicKey": "", "arch": "amd64"})
    api.send("POST", "/orgs/o/hagroups/gate", {"members": ["edge-1", "edge-2"]})
    service = {"label": "camera", "url": "camera", "version": "1.0.0", "arch": "amd64", "sharable": "multiple", "deployment": "", "deploymentSignature": ""}
    api.send("POST", "/orgs/o/services", service)
    deployed = {"name": "camera", "org": "o", "arch": "amd64", "serviceVersions": [{"version": "1.0.0"}]}
    api.send("POST", "/orgs/o/business/policies/camera", {"label": "camera", "service": deployed, "properties": [], "constraints": []})
    printing = {"label": "print", "service": deployed, "properties": [], "constraints": ["printer == true"], "orchestration": {"mode": "replicated", "replicas": 1}}
    api.send("POST", "/orgs/o/business/policies/print", printing)
    for node in ["edge-1", "edge-2"]:
        policy = {"properties": [{"name": "site", "value": "north"}], "constraints": []}
        api.send("PUT", f"/orgs/o/nodes/{node}/policy?noheartbeat=true", policy)
    api.send("PUT", "/orgs/o/agbot/views/new", {"state": "never-heard", "description": "not connected yet"})


def log_in(browser, url):
    browser.open(url + "/console/orgs/o/now")
    browser.type("input[name=org]", "o")
    browser.type("input[name=user]", "admin")
    browser.type("input[name=secret]", "wrong" + ENTER)
    browser.find("[role=alert]")
    browser.type("input[name=secret]", "secret" + ENTER)
    browser.wait("the page that was asked for", "return location.pathname === '/console/orgs/o/now'")


def watch(browser, url, api):
    """A page shows what others do, without being loaded again."""
    browser.open(url + "/console/orgs/o/nodes/edge-1")
    browser.run("window.isSame = true")
    browser.wait("the stream", "return performance.getEntriesByType('resource').length >= 0 && document.querySelector('#live').dataset.stream")
    api.send("POST", "/orgs/o/nodes/edge-1/actions/freeze")
    browser.wait("the node as frozen", "return document.querySelector('.facts').textContent.includes('frozen')")
    require(browser.run("return window.isSame === true"), "the page was loaded again")


def drain(browser, url, api):
    """From the list of nodes to a drained one: the plan, then the action."""
    browser.open(url + "/console/orgs/o/now")
    browser.click("a[href='/console/orgs/o/nodes']")
    browser.click("a[href$='/nodes/edge-2']")
    browser.click("a[href$='/do/node-drain?node=edge-2']")
    browser.wait("the plan", "return document.querySelector('pre').textContent.includes('--availability drain')")
    browser.click("main form button")
    browser.find(".state.good")
    spec = api.send("GET", "/orgs/o/nodes/edge-2/orchestration")["spec"]
    require(spec["availability"] == "drain", f"the node is {spec}")


def undo(browser, url, api):
    """From a policy to an earlier revision of it: the revisions, the plan with a reason, then the write."""
    path = "/orgs/o/business/policies/camera"
    changed = {"label": "changed", "service": api.send("GET", path)["businessPolicy"]["o/camera"]["service"]}
    api.send("PUT", path, changed)
    browser.open(url + "/console/orgs/o/policies/camera")
    browser.click("a[href$='/documents/policies/camera']")
    browser.click("a[href$='/change?revision=1']")
    browser.wait("the difference", "return document.querySelector('.diff .added').textContent.includes('camera')")
    browser.type("input[name=reason]", "back to the first")
    browser.click("button[value=plan]")
    browser.wait("the reason in the command", "return document.querySelector('main').textContent.includes(\"--reason 'back to the first'\")")
    browser.click("button[value=apply]")
    browser.wait("the new revision", "return document.querySelector('.state.good').textContent.includes('back to the first')")
    label = api.send("GET", path)["businessPolicy"]["o/camera"]["label"]
    require(label == "camera", f"the label is {label}")


def require_refusal(browser, url):
    """A document that is refused stays in the form, with the message beside it."""
    browser.open(url + "/console/orgs/o/documents/policies/camera/change")
    browser.run("document.querySelector('textarea').value = '{\"label\": }'")
    browser.click("button[value=plan]")
    browser.find("textarea[aria-invalid=true][aria-describedby=problem]")
    text = browser.run("return [document.querySelector('textarea').value, document.querySelector('#problem').textContent]")
    require(text[0] == '{"label": }' and "line 1" in text[1], f"the form is {text}")
    # The refused document is an error of the console of the browser.
    browser.logs("browser")
def focused(browser):
    return browser.run("const at = document.activeElement; return `${at.tagName} ${at.name ?? ''} ${at.value ?? ''} ${at.textContent.trim()}`")


def tab_to(browser, text):
    """Presses Tab until the element with this text has the focus."""
    for _ in range(80):
        browser.press(TAB)
        if text in focused(browser):
            return
    require(False, f"Tab does not reach {text}")


def drain_selection(browser, url, api):
    """Ticks nodes, shows the plan and carries it out, with the keyboard only."""
    for node in ["edge-1", "edge-2"]:
        api.send("PATCH", f"/orgs/o/nodes/{node}/orchestration/spec", {"availability": "active"})
    browser.wait("active nodes", "return fetch('/console/orgs/o/nodes?availability=active').then(page => page.text()).then(text => text.includes('2 nodes match'))")
    browser.open(url + "/console/orgs/o/nodes")
    tab_to(browser, "node edge-1")
    browser.press(SPACE)
    tab_to(browser, "node edge-2")
    browser.press(SPACE)
    require(browser.run("return document.querySelectorAll('input[name=node]:checked').length") == 2, "the nodes are not ticked")
    tab_to(browser, "Show the plan")
    browser.press(ENTER)
    browser.wait("the plan", "return location.pathname.endsWith('/selection') && document.querySelector('pre') !== null")
    require("hzn exchange node each drain --node edge-1 --node edge-2" in browser.run("return document.querySelector('pre').textContent"), "another command")
    tab_to(browser, "Drain the nodes")
    browser.press(ENTER)
    browser.find(".state.good")
    browser.wait("the progress", "return document.querySelector('main').textContent.includes('2 of 2 nodes')")
    for node in ["edge-1", "edge-2"]:
        spec = api.send("GET", f"/orgs/o/nodes/{node}/orchestration")["spec"]
        require(spec["availability"] == "drain", f"{node} is {spec}")


def complete(browser, url):
    """The filter is completed from known properties, also after the first comparison."""
    browser.open(url + "/console/orgs/o/nodes")
    options = browser.run("return [...document.querySelector('input[name=filter]').list.options].map(one => one.value)")
    require('site == "north"' in options, f"the options are {options}")
    browser.type("input[name=filter]", "cpu > 2 && si")
    options = browser.run("return [...document.querySelector('input[name=filter]').list.options].map(one => one.value)")
    require('cpu > 2 && site == "north"' in options, f"the options are {options}")


def acknowledge(browser, url):
    """What needs a person is acknowledged with a reason, and folded."""
    browser.open(url + "/console/orgs/o/now")
    browser.click("a[href*='/attention/']")
    browser.type("input[name=reason]", "the printer arrives on Monday" + ENTER)
    browser.wait("the overview", "return location.pathname.endsWith('/now') && document.querySelector('details.folded summary') !== null")
    require(not browser.run("return document.querySelector('details.folded').open"), "it is not folded")
    browser.click("details.folded summary")
    text = browser.run("return document.querySelector('details.folded').innerText")
    require("the printer arrives on Monday" in text and "o/admin" in text, text)


def require_pages(browser, url):
    for mode in ["light", "dark"]:
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        for page in PAGES:
            browser.open(url + page)
            title = browser.run("return document.querySelectorAll('h1').length")
            require(title == 1, f"{page} has {title} titles")
            if browser.axe:
                browser.run(browser.axe)
                found = browser.run_later(AXE)
                require(not found, f"{page} in {mode} mode: {found}")
        browser.open(url + "/console/orgs/o/nodes")
        require_contrast(browser, ".badge", "td", "th", ".note", ".contents a", "label")
        browser.open(url + "/console/orgs/o/documents/policies/camera/change?revision=2")
        require_contrast(browser, ".diff .removed", ".diff .added", "textarea", "label", "button")
    browser.command("Emulation.setEmulatedMedia", features=[])
    browser.command("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=False)
    for page in PAGES:
        browser.open(url + page)
        overflow = browser.run(OVERFLOW)
        require(overflow is None, f"{page} is wider than 360 px: {overflow}")
    browser.command("Emulation.clearDeviceMetricsOverride")


def require_without_script(browser, url):
    """A link or a form for everything."""
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url + "/console/orgs/o/nodes/edge-2")
    browser.click("a[href$='/do/node-activate?node=edge-2']")
    browser.click("main form button")
    browser.find(".state.good")
    browser.open(url + "/console/orgs/o/nodes?availability=drain")
    browser.click("input[name=node][value=edge-1]")
    browser.click("#selection select[name=action] option[value=activate]")
    browser.click("#selection button")
    browser.click("form.fields button")
    browser.find(".state.good")
    browser.click("form.session button")
    browser.find("input[name=secret]")
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def main():
    url, password, profile = sys.argv[1:4]
    with open(password, encoding="utf-8") as file:
        api = Api(url, file.read())
    prepare(api)
    browser = Browser(profile)
    browser.axe = None
    if len(sys.argv) > 4:
        with open(sys.argv[4], encoding="utf-8") as file:
            browser.axe = file.read()
    try:
        log_in(browser, url)
        # The refused login is an error of the console of the browser.
        browser.logs("browser")
        watch(browser, url, api)
        drain(browser, url, api)
        undo(browser, url, api)
        require_refusal(browser, url)
        drain_selection(browser, url, api)
        complete(browser, url)
        acknowledge(browser, url)
        require_pages(browser, url)
        require_quiet(browser, url)
        require_without_script(browser, url)
        checked = "accessible by axe-core" if browser.axe else "axe-core is not at hand"
        print(f"{len(PAGES)} pages of the console in both modes and 360 px, live, a policy undone to a revision, a drain with and without script, and of a selection by keyboard; {checked}")
    finally:
        browser.close()


main()
