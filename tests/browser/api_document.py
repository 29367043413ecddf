#!/usr/bin/env python3
"""The page that shows the API document: everything is there, nothing comes from elsewhere, an operation can be tried.

Usage: api_document.py URL ROOT-PASSWORD-FILE PROFILE-DIRECTORY
"""
import json
import sys
import urllib.parse
import urllib.request

from webdriver import Browser

METHODS = {"get", "put", "post", "patch", "delete"}
TAB = "\ue004"
# Contrast that WCAG 2.1 level AA asks of text.
LEAST_CONTRAST = 4.5

CONTRAST = """
function channels(color) { return color.match(/[\\d.]+/g).map(Number); }
function luminance([red, green, blue]) {
    const [r, g, b] = [red, green, blue].map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(element) {
    for (let at = element; at; at = at.parentElement) {
        const found = channels(getComputedStyle(at).backgroundColor);
        if (found.length < 4 || found[3] > 0.9) { return found; }
    }
    return [255, 255, 255];
}
return [...document.querySelectorAll(arguments[0])].map(element => {
    const shades = [luminance(channels(getComputedStyle(element).color)), luminance(behind(element))];
    return (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
});
"""


def require(condition, message):
    if not condition:
        sys.exit(f"the page of the API document: {message}")


def documented(url):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/v1/api-docs/swagger.json", timeout=60) as answer:
        paths = json.load(answer)["paths"]
    return {f"{method} {path}" for path, item in paths.items() for method in METHODS & item.keys()}


def shown(browser):
    script = """
        return [...document.querySelectorAll('.opblock')].map(block =>
            block.querySelector('.opblock-summary-method').textContent.toLowerCase() + ' ' +
            block.querySelector('.opblock-summary-path, .opblock-summary-path__deprecated').dataset.path)
    """
    return set(browser.run(script))


def log_in(browser, password):
    browser.click(".auth-wrapper .authorize")
    browser.type(".modal-ux input[name=username], .modal-ux #auth-basic-username, .modal-ux input[type=text]", "root/root")
    browser.type(".modal-ux input[type=password]", password)
    browser.click(".modal-ux button.authorize")
    browser.click(".modal-ux button.btn-done")


def try_out(browser):
    """Sends one operation from the page; answers the status that the page shows."""
    block = ".opblock[id$='-list_organizations']"
    browser.click(f"{block} .opblock-summary-control")
    browser.click(f"{block} .try-out__btn")
    browser.click(f"{block} .execute")
    script = "const found = document.querySelector(arguments[0]); return found && found.textContent.trim()"
    status = browser.wait("an answer", script, f"{block} .live-responses-table tbody .response-col_status")
    text = browser.wait("its body", script, f"{block} .live-responses-table tbody .response-col_description")
    return status[:3], text


def requests(browser):
    """The address of everything that the page asked for."""
    for entry in browser.logs("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def main():
    url, password_file, profile = sys.argv[1:]
    with open(password_file, encoding="utf-8") as file:
        password = file.read().strip()
    expected = documented(url)
    browser = Browser(profile)
    try:
        browser.open(url + "/docs/")
        count = "return document.querySelectorAll('.opblock').length >= arguments[0]"
        browser.wait(f"{len(expected)} operations", count, len(expected))
        found = shown(browser)
        require(found == expected, f"differs from the document: {sorted(found ^ expected)[:5]}")
        browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        focused = set()
        for _ in range(12):
            browser.press(TAB)
            focused.add(browser.run("const at = document.activeElement; return at.tagName + '.' + at.className + at.id"))
        require(len(focused) >= 8, f"the keyboard reaches only {sorted(focused)}")
        for selector in (".info .title", ".opblock-summary-path", ".opblock-summary-description"):
            ratios = browser.run(CONTRAST, selector)
            require(ratios and min(ratios) >= LEAST_CONTRAST, f"{selector} has a contrast of {min(ratios or [0]):.1f}")
        log_in(browser, password)
        status, text = try_out(browser)
        require(status == "200" and '"IBM"' in text, f"an operation answers {status}: {text[:200]}")
        asked = list(requests(browser))
        require(any("/v1/orgs" in one for one in asked), "no request was seen")
        home = urllib.parse.urlsplit(url)
        for one in asked:
            parts = urllib.parse.urlsplit(one)
            # The first empty page is the browser's own.
            is_inside = parts.scheme in {"data", "blob", "chrome"}
            is_home = (parts.scheme, parts.netloc) == (home.scheme, home.netloc)
            require(is_inside or is_home, f"it asks {parts.scheme}://{parts.netloc}")
        errors = [entry["message"] for entry in browser.logs("browser") if entry["level"] == "SEVERE"]
        require(not errors, f"errors in the console: {errors}")
        print(f"{len(found)} operations shown, one tried; {len(asked)} requests, all to the hub; the console is clean")
    finally:
        browser.close()


main()
