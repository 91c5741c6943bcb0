"use strict";
(() => {
  const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-Peira-CSRF"] = meta("csrf");
  });

  // On a small screen the filters are folded, unless one is set.
  const folds = matchMedia("(max-width: 46rem)");
  const fold = () => document.querySelectorAll(".filters:not([data-active])").forEach((one) => { one.open = !folds.matches; });
  fold();
  folds.addEventListener("change", fold);

  // What is committed to the store arrives as one message; parts of the page that listen are asked for again.
  const lost = document.getElementById("lost");
  const say = (text) => {
    if (!lost) return;
    lost.hidden = !text;
    lost.textContent = text;
  };
  // At most every so often, and once more after the last message: nothing that was committed is left unseen.
  const paced = (name, least) => {
    let last = 0;
    let waiting = null;
    return () => {
      if (waiting) return;
      waiting = setTimeout(() => {
        waiting = null;
        last = Date.now();
        htmx.trigger(document.body, name);
      }, Math.max(0, last + least - Date.now()));
    };
  };
  const changed = paced("peira:change", 1000);
  const changedSlowly = paced("peira:slow", 3000);
  let source = null;
  const connect = () => {
    source = new EventSource("/live");
    source.addEventListener("change", () => {
      say("");
      changed();
      changedSlowly();
    });
    source.onerror = () => {
      source.close();
      say("The server is not there. This page shows what it knew last, and goes on when the server is back.");
      setTimeout(retry, 1500);
    };
  };
  const retry = async () => {
    try {
      const answer = await fetch("/api/v1/runs?limit=1", { cache: "no-store" });
      if (answer.status === 401) {
        say("The server was started again: open the address that it printed.");
        setTimeout(retry, 3000);
        return;
      }
      connect();
    } catch {
      setTimeout(retry, 1500);
    }
  };
  if (document.querySelector('[hx-trigger*="peira:"]')) connect();
  addEventListener("pagehide", () => source?.close());

  // Acts: what became of them is said, and a run that was started is followed.
  const told = document.getElementById("said");
  const tell = (text, bad) => {
    told.hidden = false;
    told.textContent = text;
    told.classList.toggle("bad", bad);
    clearTimeout(tell.timer);
    tell.timer = setTimeout(() => { told.hidden = true; }, bad ? 15000 : 6000);
  };
  document.addEventListener("htmx:beforeRequest", (event) => event.detail.elt.matches("[data-act], [data-plan], [data-start]") && event.detail.elt.setAttribute("aria-busy", "true"));
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, xhr, successful } = event.detail;
    if (!elt.matches("[data-act], [data-plan], [data-start]")) return;
    elt.removeAttribute("aria-busy");
    let answer = {};
    try {
      answer = JSON.parse(xhr.responseText);
    } catch {
      answer = { error: "the server did not answer" };
    }
    if (!successful) return tell(answer.error ?? "that did not work", true);
    if (elt.matches("[data-plan]")) {
      for (const name of ["plan", "estimate", "design"]) document.getElementById(`plan-${name}`).textContent = answer[name];
      document.getElementById("plan-study").value = answer.study;
      document.getElementById("preview").hidden = false;
      return undefined;
    }
    tell(answer.said ?? elt.dataset.said ?? "done", answer.done === false);
    if (elt.matches("[data-clear]")) elt.reset();
    if (elt.matches("[data-answer]")) {
      htmx.trigger(document.body, "peira:answered");
      return undefined;
    }
    elt.closest(".menu")?.removeAttribute("open");
    if (elt.matches(".tools *") && !standing()) setTimeout(() => location.reload(), 700);
    if (elt.matches("[data-start], [data-follow]")) location.assign(`/runs/${answer.run}`);
    else htmx.trigger(document.body, "peira:change");
    return undefined;
  });

  // A part that could not be had says why, where it was to be.
  document.addEventListener("htmx:responseError", (event) => {
    const { elt, xhr } = event.detail;
    const pending = elt.matches("[data-pending]") ? elt : elt.querySelector("[data-pending]");
    if (!pending) return;
    let why = "the server did not answer";
    try {
      why = JSON.parse(xhr.responseText).error ?? why;
    } catch {
      // no document: the words above stay
    }
    pending.textContent = why;
    pending.classList.add("bad");
  });

  // What can be done depends on how things stand: once that changes, the buttons are asked for again.
  const standing = () => document.querySelector("[data-standing]")?.dataset.standing;
  let stood = standing();
  document.addEventListener("htmx:afterSwap", () => {
    if (standing() === stood) return;
    stood = standing();
    if (document.querySelector(".tools")) htmx.ajax("GET", location.href, { target: ".tools", select: ".tools", swap: "outerHTML" });
  });

  // The inbox: who answers, how long the question was looked at, answers by key.
  let shownAt = Date.now();
  let shownKey = "";
  const question = () => {
    const key = document.querySelector("[data-question]")?.dataset.question ?? "";
    if (key !== shownKey) [shownKey, shownAt] = [key, Date.now()];
    const me = document.getElementById("me");
    if (me && !me.value) me.value = localStorage.getItem("peira-name") ?? "";
  };
  // Who answers is part of the address: what this person has rated already is not shown again.
  const named = () => {
    const name = document.getElementById("me")?.value.trim() ?? "";
    const here = new URL(location.href);
    if (!document.getElementById("me") || (here.searchParams.get("me") ?? "") === name) return;
    localStorage.setItem("peira-name", name);
    if (name) here.searchParams.set("me", name);
    else here.searchParams.delete("me");
    location.replace(here);
  };
  document.addEventListener("change", (event) => event.target.id === "me" && named());
  question();
  named();
  document.addEventListener("htmx:afterSwap", question);
  document.body.addEventListener("peira:change", async () => {
    if (!shownKey) return;
    const open = await fetch("/api/v1/inbox").then((answer) => answer.json()).catch(() => null);
    // Somebody else answered the question that is shown.
    if (open?.questions && !open.questions.some((one) => one.key === shownKey)) htmx.trigger(document.body, "peira:answered");
  });
  document.addEventListener("htmx:configRequest", (event) => {
    if (!event.detail.elt.matches("[data-answer]")) return;
    const name = document.getElementById("me")?.value.trim() ?? "";
    localStorage.setItem("peira-name", name);
    event.detail.parameters.by = name;
    if (event.detail.elt.querySelector("[name=took]")) event.detail.parameters.took = ((Date.now() - shownAt) / 1000).toFixed(1);
  });

  // Plots.
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axes = () => ["x", "y"].map(() => ({ stroke: css("--quiet"), grid: { stroke: css("--line") }, ticks: { stroke: css("--line") } }));
  const lasting = (seconds) => {
    const [many, unit] = seconds < 60 ? [seconds, "s"] : seconds < 7200 ? [seconds / 60, "min"] : [seconds / 3600, "h"];
    return `${Number(many.toFixed(1))} ${unit}`;
  };
  const draw = (where) => {
    const points = JSON.parse(where.dataset.points);
    const size = { width: Math.max(260, where.clientWidth), height: 220 };
    where.textContent = "";
    const [across, up] = axes();
    const columns = [points.map((row) => row[0] - points[0][0]), ...[1, 2].map((at) => points.map((row) => row[at]))];
    const plot = new uPlot({
      ...size,
      axes: [{ ...across, values: (_, times) => times.map(lasting) }, up],
      scales: { x: { time: false } },
      series: [{ label: "after", value: (_, at) => (at === null ? "–" : lasting(at)) }, { label: "done", stroke: css("--accent"), width: 2, fill: css("--accent-back"), points: { show: false } }, { label: "failed", stroke: css("--bad"), width: 2, dash: [6, 4], points: { show: false } }],
    }, columns, where);
    plot.setLegend({ idx: points.length - 1 });
  };
  const drawAll = (root) => root.querySelectorAll("[data-plot]").forEach(draw);
  // What scrolls can be reached by keyboard.
  const reachable = () => document.querySelectorAll("pre, .prose").forEach((one) => {
    const scrolls = one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1;
    if (scrolls) one.tabIndex = 0;
  });
  drawAll(document);
  reachable();
  document.addEventListener("toggle", reachable, true);
  document.addEventListener("htmx:afterSwap", (event) => {
    drawAll(event.detail.target.parentElement ?? document);
    reachable();
  });

  // On paper nothing can be unfolded: everything is printed, and folded again afterwards.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("main details:not([open], .menu, .filters)")];
    unfolded.forEach((one) => { one.open = true; });
  });
  addEventListener("afterprint", () => unfolded.forEach((one) => { one.open = false; }));

  // Keys.
  const keys = document.getElementById("keys");
  document.querySelector("[data-keys]")?.addEventListener("click", () => keys.showModal());
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const follow = (selector) => {
      const link = document.querySelector(selector);
      if (link) {
        event.preventDefault();
        link.click();
      }
    };
    const answer = /^[1-9s]$/.test(event.key)
      ? document.querySelector(`[data-key="${event.key}"]`)
      : /^Arrow/.test(event.key) && document.querySelector(`[data-arrow="${event.key}"]`);
    if (answer) {
      event.preventDefault();
      answer.click();
    } else if (event.key === "j") follow('a[rel="next"]');
    else if (event.key === "k") follow('a[rel="prev"]');
    else if (event.key === "/") {
      event.preventDefault();
      document.querySelector("[data-search]")?.focus();
    } else if (event.key === "?") keys?.showModal();
    else if (before === "g" && event.key === "r") location.assign("/runs");
    before = event.key;
  });
})();
