#!/usr/bin/env python3
"""The page that shows the API document: everything is there, nothing comes from elsewhere, an operation can be tried.

Usage: api_document.py URL ROOT-PASSWORD-FILE PROFILE-DIRECTORY
"""
import json
import sys
import urllib.request

from checks import require, require_contrast, require_quiet
from webdriver import Browser

METHODS = {"get", "put", "post", "patch", "delete"}
TAB = "\ue004"


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
        require_contrast(browser, ".info .title", ".opblock-summary-path", ".opblock-summary-description")
        log_in(browser, password)
        status, text = try_out(browser)
        require(status == "200" and '"IBM"' in text, f"an operation answers {status}: {text[:200]}")
        asked = require_quiet(browser, url)
        require(any("/v1/orgs" in one for one in asked), "no request was seen")
        print(f"{len(found)} operations shown, one tried; {len(asked)} requests, all to the hub; the console is clean")
    finally:
        browser.close()


main()
