"use strict";
// Comfort for readers; every page works without it.
(() => {
  const MOST_HITS = 12;
  // Long pages with many headings do not displace the page about a word.
  const MOST_OF_HEADINGS = 36;
  const box = document.querySelector(".search input");
  const form = box?.form;
  let index;

  // The lines of the index: a page (P), a heading (H), words that are not searched (C), or a word with the pages that contain it (W).
  const read = (text) => {
    const pages = [], headings = [], words = [], common = new Set();
    for (const line of text.split("\n")) {
      const [kind, first, second, third] = line.split("\t");
      if (kind === "P") pages.push({ href: first, title: second, section: third });
      if (kind === "H") headings.push({ page: Number(first), id: second, text: third });
      if (kind === "C") first.split(" ").forEach((word) => common.add(word));
      if (kind === "W") words.push([first, second]);
    }
    return { pages, headings, words, common };
  };
  const load = () => {
    index ??= fetch(form.dataset.index).then((response) => {
      if (!response.ok) throw new Error(`the index: ${response.status}`);
      return response.text();
    }).then(read);
    index.catch(() => { index = undefined; });
    return index;
  };
  const wordsOf = (text) => [...new Set(text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [])];

  // The same weights as the result page of the server.
  const weigh = ({ pages, headings, words }, query) => {
    const weights = new Map();
    const add = (page, weight) => weights.set(page, (weights.get(page) ?? 0) + weight);
    const count = (text, exact, part) => wordsOf(text).reduce((sum, word) => sum + (word === query ? exact : word.startsWith(query) ? part : 0), 0);
    for (const [word, found] of words) {
      if (!word.startsWith(query)) continue;
      for (const one of found.split(" ")) {
        const [page, times] = one.split(":");
        add(Number(page), Number(times ?? 1) * (word === query ? 2 : 1));
      }
    }
    pages.forEach((page, number) => { const weight = count(page.title, 60, 30); if (weight) add(number, weight); });
    const ofHeadings = new Map();
    for (const heading of headings) {
      const weight = count(heading.text, 12, 6);
      if (weight) ofHeadings.set(heading.page, (ofHeadings.get(heading.page) ?? 0) + weight);
    }
    ofHeadings.forEach((weight, page) => add(page, Math.min(weight, MOST_OF_HEADINGS)));
    return weights;
  };
  const search = (from, text) => {
    const words = wordsOf(text).filter((word) => !from.common.has(word)).slice(0, 10);
    if (words.length === 0) return [];
    const each = words.map((word) => weigh(from, word));
    const pages = [...each[0].keys()].filter((page) => each.every((weights) => weights.has(page)));
    const sum = (page) => each.reduce((total, weights) => total + weights.get(page), 0);
    const hits = pages.map((page) => ({ page, weight: sum(page) })).sort((a, b) => b.weight - a.weight || a.page - b.page);
    return hits.map(({ page }) => {
      const has = (heading) => words.every((word) => wordsOf(heading.text).some((one) => one.startsWith(word)));
      const heading = from.headings.find((one) => one.page === page && has(one));
      return { ...from.pages[page], heading };
    });
  };

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const show = (hits) => {
    const shown = hits.slice(0, MOST_HITS).map(({ href, title, section, heading }) => {
      const place = heading ? `${section} › ${heading.text}` : section;
      const link = element("a", { href: heading ? `${href}#${heading.id}` : href }, element("strong", {}, title), element("span", {}, place));
      return element("li", {}, link);
    });
    const count = hits.length === 1 ? "1 page" : `${hits.length} pages`;
    const status = hits.length === 0 ? "No page has all these words." : `${count}. Arrow keys choose, Enter shows all.`;
    found.replaceChildren(element("p", { role: "status" }, status), element("ul", { className: "hits" }, ...shown));
    found.hidden = false;
  };
  let found;
  const close = () => { found.hidden = true; };

  if (form?.dataset.index) {
    found = element("div", { className: "found", hidden: true });
    form.append(found);
    box.addEventListener("focus", () => { load().catch(() => {}); });
    box.addEventListener("input", async () => {
      const text = box.value;
      if (text.trim() === "") return close();
      try {
        const from = await load();
        if (box.value === text) show(search(from, text));
      } catch {
        // Without the index, Enter still leads to the result page of the server.
        close();
      }
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { close(); box.focus(); return; }
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || found.hidden) return;
      event.preventDefault();
      const stops = [box, ...found.querySelectorAll("a")];
      const at = stops.indexOf(document.activeElement);
      stops[(at + step + stops.length) % stops.length].focus();
    });
    document.addEventListener("click", (event) => { if (!form.contains(event.target)) close(); });
    form.addEventListener("focusout", (event) => { if (event.relatedTarget && !form.contains(event.relatedTarget)) close(); });
    found.addEventListener("click", (event) => { if (event.target.closest("a")) close(); });
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && box && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      box.focus();
      box.select();
    }
    if (event.key === "Escape" && location.hash === "#contents") location.hash = "#main";
  });

  // What scrolls by itself can be reached by the keyboard.
  const scrollers = document.querySelectorAll(".scroll, .text pre");
  const mark = () => scrollers.forEach((one) => {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0; else one.removeAttribute("tabindex");
  });
  addEventListener("resize", mark);
  mark();

  // The current page of a long column is in sight.
  const current = document.querySelector(".contents [aria-current]");
  const column = current?.closest(".contents");
  if (column) column.scrollTop = Math.max(0, current.offsetTop - column.clientHeight / 2);
})();
