#!/usr/bin/env python3
"""The start page and the manual: search by keyboard, dark mode, narrow windows, no script, accessibility.

Usage: manual.py URL PROFILE-DIRECTORY [AXE-CORE-SCRIPT]
"""
import json
import sys
import urllib.parse

from checks import AXE, OVERFLOW, require, require_contrast, require_quiet
from webdriver import Browser

DOWN, ENTER, ESCAPE, TAB = "\ue015", "\ue007", "\ue00c", "\ue004"
PAGES = [
    "/",
    "/manual",
    "/manual/tutorial/five-minutes",
    "/manual/reference/cli",
    "/manual/reference/settings",
    "/manual/reference/benchmarks",
    "/manual/explanation/architecture",
    "/manual/explanation/ha-groups",
    "/manual/how-to/use-the-console",
    "/manual/design/exchange-api/routes",
    "/manual/adr/README",
    "/manual/search?q=drain+node",
]
HITS = """
    return [...document.querySelectorAll(arguments[0] + ' .hits a')].map(one => new URL(one.href).pathname + new URL(one.href).hash)
"""


def focus(browser):
    return browser.run("const at = document.activeElement; return at.tagName + '.' + at.className + '#' + (at.name ?? at.id)")


def search_by_keyboard(browser, url):
    """From the start page to a page of the manual without a mouse."""
    browser.open(url + "/")
    browser.press(TAB)
    require("skip" in focus(browser), f"the first stop is {focus(browser)}")
    browser.press("/")
    require(focus(browser) == "INPUT.#q", f"the key leads to {focus(browser)}")
    for letter in "drain":
        browser.press(letter)
    browser.wait("results", "return document.querySelectorAll('.found .hits a').length > 1")
    browser.press(DOWN)
    first = browser.run(HITS, ".found")[0]
    require(first == "/manual/how-to/drain-a-node", f"the first result is {first}")
    browser.press(ENTER)
    browser.wait("the page", "return location.pathname === arguments[0] && document.readyState === 'complete'", first)
    title = browser.run("return document.querySelector('h1').firstChild.textContent")
    require(title == "Drain a node for maintenance", f"the page is {title}")
    browser.press("/")
    browser.press("x")
    browser.wait("results", "return document.querySelector('.found').hidden === false")
    browser.press(ESCAPE)
    require(browser.run("return document.querySelector('.found').hidden"), "Escape leaves the results open")


def compare_with_server(browser, url):
    """The script finds what the server finds, in the same order."""
    for query in ["drain", "ha group", "lease sequencer", "hzn node", "MINIMUM available", "how to drain a node", "409", "nothing-of-this-sort"]:
        browser.open(f"{url}/manual/search?" + urllib.parse.urlencode({"q": query}))
        served = browser.run(HITS, ".searched")[:12]
        browser.press("/")
        browser.type(".search input", query)
        found = "const found = document.querySelector('.found'); return !found.hidden && found.textContent"
        browser.wait("results", found)
        # The results of the last letter, not those of the letters before.
        is_same = "return JSON.stringify((function () {" + HITS + "})('.found')) === arguments[0]"
        browser.wait(f"the results of the server for {query}: {served}", is_same, json.dumps(served, separators=(",", ":")))


def require_narrow(browser, url):
    """No page is wider than a small telephone."""
    browser.command("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=False)
    for page in PAGES:
        browser.open(url + page)
        overflow = browser.run(OVERFLOW)
        require(overflow is None, f"{page} is wider than 360 px: {overflow}")
    browser.open(url + "/manual/tutorial/five-minutes")
    browser.click(".menu")
    browser.wait("the contents", "return document.querySelector('#contents').checkVisibility()")
    browser.press(ESCAPE)
    browser.wait("the page", "return !document.querySelector('#contents').checkVisibility()")
    browser.command("Emulation.clearDeviceMetricsOverride")


def require_colors(browser, url):
    """Text has contrast in both modes, which differ."""
    grounds = set()
    for mode in ["light", "dark"]:
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        browser.open(url + "/")
        require_contrast(browser, ".state p", ".lead", ".cards a", ".cards strong", ".areas a", ".foot p")
        browser.open(url + "/manual/tutorial/five-minutes")
        require_contrast(browser, ".text p", ".text pre", ".text a", ".text pre span", ".contents a", ".outline a", ".place")
        grounds.add(browser.run("return getComputedStyle(document.documentElement).backgroundColor"))
        if browser.axe:
            for page in PAGES:
                browser.open(url + page)
                browser.run(browser.axe)
                found = browser.run_later(AXE)
                require(not found, f"{page} in {mode} mode: {found}")
    require(len(grounds) == 2, f"the ground is always {grounds}")
    browser.command("Emulation.setEmulatedMedia", features=[])


def require_without_script(browser, url):
    """The search is a form, and every page is a link."""
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(url + "/")
    browser.type(".search input", "drain" + ENTER)
    browser.find(".searched .hits a")
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def require_pictures(browser, url):
    """Pictures and drawings are shown, and drawings follow the dark style."""
    for page, least in [("/manual/how-to/use-the-console", 4), ("/manual/explanation/ha-groups", 3)]:
        browser.open(url + page)
        browser.run("for (const one of document.images) { one.scrollIntoView(); }")
        browser.wait(f"pictures of {page}", "return document.images.length >= arguments[0] && [...document.images].every(one => one.naturalWidth > 0)", least)
    shades = []
    for mode in ["light", "dark"]:
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        browser.open(url + "/manual/explanation/ha-groups")
        browser.wait("the drawing", "return document.querySelector('img[src$=\"claim.svg\"]').naturalWidth > 0")
        shades.append(browser.run("""
            const image = document.querySelector('img[src$="claim.svg"]'), canvas = document.createElement('canvas');
            canvas.width = canvas.height = 4;
            const context = canvas.getContext('2d');
            context.drawImage(image, 0, 0, 4, 4, 0, 0, 4, 4);
            return context.getImageData(1, 1, 1, 1).data[0];
        """))
    browser.command("Emulation.setEmulatedMedia", features=[])
    require(shades[0] > 200 and shades[1] < 60, f"the ground of a drawing is {shades}")


def main():
    url, profile = sys.argv[1:3]
    browser = Browser(profile)
    browser.axe = None
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as file:
            browser.axe = file.read()
    try:
        search_by_keyboard(browser, url)
        compare_with_server(browser, url)
        require_narrow(browser, url)
        require_colors(browser, url)
        require_pictures(browser, url)
        asked = require_quiet(browser, url)
        indexes = [one for one in asked if "/assets/index-" in one]
        require(indexes, "the index was never asked for")
        require_without_script(browser, url)
        checked = "accessible by axe-core" if browser.axe else "axe-core is not at hand"
        print(f"{len(PAGES)} pages shown in both modes and 360 px, searched by keyboard and without script; {checked}; the console is clean")
    finally:
        browser.close()


main()
