"use strict";
// Renews a page when something has happened; every page works without it.
(() => {
  const live = document.querySelector("#live");
  if (!live?.dataset.stream) return;
  // At most one request a second, however much happens.
  const PAUSE = 1000;
  let stream, timer, isBusy = false, last = 0;

  const isEdited = () => document.activeElement?.closest("form") !== null && document.activeElement !== document.body
    || live.querySelector("input[type=checkbox]:checked") !== null;
  // What the reader has unfolded stays so.
  const beforeAttributeUpdated = (name, element) => !(name === "open" && element.matches("details"));
  const renew = async () => {
    timer = undefined;
    // What somebody types stays, and a plan changes only when it is asked for again.
    if (isBusy || isEdited() || document.querySelector("form[method=post].fields")) return;
    isBusy = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      // A session that has ended leads to the login.
      if (response.redirected) return location.assign(response.url);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const next = page.querySelector("#live");
      if (response.ok && next) {
        Idiomorph.morph(live, next.innerHTML, { morphStyle: "innerHTML", callbacks: { beforeAttributeUpdated } });
        report(false);
      }
    } catch {
      // The next event tries again.
    } finally {
      isBusy = false;
      last = Date.now();
    }
  };
  const schedule = () => { timer ??= setTimeout(renew, Math.max(0, last + PAUSE - Date.now())); };

  // The same words as those of the server.
  const ago = (seconds) => {
    if (seconds < 2) return "just now";
    if (seconds < 120) return `${seconds} s ago`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min ago`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`;
    return `${Math.floor(seconds / 86400)} days ago`;
  };
  setInterval(() => {
    for (const time of live.querySelectorAll("time[datetime]")) {
      const at = Date.parse(time.dateTime);
      if (!Number.isNaN(at)) time.textContent = ago(Math.floor((Date.now() - at) / 1000));
    }
  }, 1000);

  // Completes the last comparison of a constraint; without script the list completes a whole one.
  live.addEventListener("input", ({ target }) => {
    if (!target.matches("input[name=filter][list]")) return;
    const [before] = target.value.match(/^(?:.*(?:&&|\|\||\bAND\b|\bOR\b|\())?\s*/s);
    for (const option of target.list.options) {
      option.dataset.comparison ??= option.value;
      option.value = before + option.dataset.comparison;
    }
  });

  // A page that cannot be renewed says so.
  let seen = new Date();
  const notice = Object.assign(document.createElement("p"), { className: "lost", hidden: true });
  notice.setAttribute("role", "status");
  live.before(notice);
  const report = (isLost) => {
    if (isLost) notice.textContent = `The hub does not respond. This page is as of ${seen.toLocaleTimeString()}.`;
    else seen = new Date();
    notice.hidden = !isLost;
  };

  // One stream for each page that is seen.
  const follow = () => {
    if (document.hidden) {
      stream?.close();
      stream = undefined;
      return;
    }
    if (stream) return;
    stream = new EventSource(live.dataset.stream);
    stream.addEventListener("change", schedule);
    stream.addEventListener("open", () => { if (!notice.hidden) schedule(); });
    stream.addEventListener("error", () => {
      report(true);
      // A session that has ended, or is renewed, closes the stream for good.
      if (stream?.readyState === EventSource.CLOSED) schedule();
    });
  };
  document.addEventListener("visibilitychange", () => { follow(); if (!document.hidden) schedule(); });
  addEventListener("pagehide", () => stream?.close());
  follow();
})();
