"""What holds for every page that is shown in a browser."""
import json
import sys
import urllib.parse

# Contrast that WCAG 2.2 level AA asks of text.
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

OVERFLOW = """
    const root = document.documentElement;
    const wide = [...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1
        && !one.closest('.scroll, pre'));
    return root.scrollWidth > root.clientWidth ? [root.scrollWidth, ...wide.slice(0, 3).map(one => one.outerHTML.slice(0, 100))] : null
"""
AXE = """
    const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(
        found => done(found.violations.filter(one => ['serious', 'critical'].includes(one.impact)).map(one =>
            one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html.slice(0, 150)).join(' | '))),
        error => done([String(error)]));
"""


def require(condition, message):
    if not condition:
        sys.exit(f"{sys.argv[0]}: {message}")


def require_contrast(browser, *selectors):
    for selector in selectors:
        ratios = browser.run(CONTRAST, selector)
        require(ratios and min(ratios) >= LEAST_CONTRAST, f"{selector} has a contrast of {min(ratios or [0]):.1f}")


def requests(browser):
    """The address of everything that the page asked for."""
    for entry in browser.logs("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def require_quiet(browser, url):
    """Requires that nothing was asked of other hosts and the console has no error; returns what was asked."""
    asked = list(requests(browser))
    home = urllib.parse.urlsplit(url)
    for one in asked:
        parts = urllib.parse.urlsplit(one)
        # The first empty page is the browser's own.
        is_inside = parts.scheme in {"data", "blob", "chrome"}
        is_home = (parts.scheme, parts.netloc) == (home.scheme, home.netloc)
        require(is_inside or is_home, f"it asks {parts.scheme}://{parts.netloc}")
    errors = [entry["message"] for entry in browser.logs("browser") if entry["level"] == "SEVERE"]
    require(not errors, f"errors in the console: {errors}")
    return asked
