// Keyboard, folding, copying and the choice of light or dark. Pages work without it.
"use strict";

const root = document.documentElement;
const saidBox = () => document.getElementById("said");
let hide;

function say(text) {
  saidBox().textContent = text;
  clearTimeout(hide);
  hide = setTimeout(() => { saidBox().textContent = ""; }, 2500);
}

// Light or dark -----------------------------------------------------------------------------------
const KEY = "mcp-bench-theme";
try { if (localStorage.getItem(KEY)) root.dataset.theme = localStorage.getItem(KEY); } catch { /* from a disk */ }

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* from a disk */ }
}

// What stays at the top ---------------------------------------------------------------------------
// Links lead below it: its height is known only here, as it depends on the width.
function measure() {
  const height = (selector) => {
    const bar = document.querySelector(selector);
    return bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
  };
  const top = height(".top");
  root.style.setProperty("--top", `${top}px`);
  root.style.setProperty("--stuck", `${top + height(".headline")}px`);
}

const below = () => parseFloat(getComputedStyle(root).scrollPaddingTop) || 0;

// Rows and turns ----------------------------------------------------------------------------------
const shown = (element) => element.offsetParent !== null;

function move(step) {
  const all = [...document.querySelectorAll("[data-row]")].filter(shown);
  if (!all.length) return;
  let at = all.findIndex((row) => row.classList.contains("here"));
  if (at < 0) {
    const first = all.findIndex((row) => row.getBoundingClientRect().bottom > below());
    at = (first < 0 ? all.length : first) - (step > 0 ? 1 : 0);
  }
  go(all, Math.min(all.length - 1, Math.max(0, at + step)));
}

function go(all, at) {
  all.forEach((row) => row.classList.remove("here"));
  all[at].classList.add("here");
  const link = all[at].matches("section, summary") ? all[at] : all[at].querySelector("a");
  if (link) link.focus({ preventScroll: true });
  all[at].scrollIntoView({ block: all[at].matches("section") ? "start" : "nearest" });
}

function nextFailed() {
  const failed = [...document.querySelectorAll("details.call.failed")];
  if (!failed.length) { say("no call failed"); return; }
  const after = failed.find((call) => call.getBoundingClientRect().top > below() + 20) ?? failed[0];
  after.open = true;
  after.scrollIntoView({ block: "start" });
  after.querySelector("summary").focus({ preventScroll: true });
}

function foldAll() {
  const calls = [...document.querySelectorAll("details.call")];
  const open = !calls.some((call) => call.open);
  calls.forEach((call) => { call.open = open; });
  const button = document.querySelector("[data-fold]");
  if (button) button.textContent = open ? "Fold all" : "Unfold all";
}

// Only turns, and parts of turns, of one kind -------------------------------------------------------
const chips = () => [...document.querySelectorAll("[data-show]")];

function showOnly(kind, aloud = true) {
  const box = document.getElementById("conversation");
  box.dataset.only = kind;
  chips().forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.show === kind)));
  if (kind === "reasoning") box.querySelectorAll("details.reasoning").forEach((one) => { one.open = true; });
  sift(aloud);
}

// Hide turns that are not of the chosen kind, or do not have the words that are looked for.
function sift(aloud = true) {
  const box = document.getElementById("conversation");
  const kind = box.dataset.only ?? "";
  const looked = box.querySelector("[data-find]").value.trim();
  const words = looked.toLowerCase();
  const having = new Set();
  const turns = [...box.querySelectorAll(".turn")];
  turns.forEach((turn) => { if (!words || turn.textContent.toLowerCase().includes(words)) having.add(turn.id); });
  box.querySelectorAll("[data-kinds]").forEach((one) => {
    const turn = one.id || one.querySelector("a").hash.slice(1);
    one.hidden = (kind !== "" && !one.dataset.kinds.split(" ").includes(kind)) || !having.has(turn);
  });
  if (aloud && (kind || words)) say(`${turns.filter((one) => !one.hidden).length} of ${turns.length} turns`);
  highlight(turns.filter((one) => !one.hidden), looked);
}

// Mark the words where they stand, and unfold what they stand in.
function highlight(turns, words) {
  if (!globalThis.CSS?.highlights) return;
  CSS.highlights.delete("found");
  if (!words) return;
  const ranges = [];
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu"); // İ is longer in lower case
  for (const turn of turns) {
    const texts = document.createTreeWalker(turn, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node && ranges.length < 2000; node = texts.nextNode()) {
      for (const found of node.data.matchAll(pattern)) {
        const range = new Range();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        ranges.push(range);
        for (let one = node.parentElement.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}

function nextFilter() {
  const all = chips();
  if (!all.length) return;
  const at = all.findIndex((chip) => chip.getAttribute("aria-pressed") === "true");
  showOnly(all[(at + 1) % all.length].dataset.show);
}

function toggleOutline() {
  const outline = document.getElementById("outline");
  if (!outline) return;
  outline.open = !outline.open;
  if (!outline.open) return;
  outline.scrollIntoView({ block: "nearest" });
  outline.querySelector("li:not([hidden]) a")?.focus({ preventScroll: true });
}

function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (document.querySelector('[data-only]:not([data-only=""])') || target.closest("[hidden]")) { // it may be hidden
    document.querySelector("[data-find]").value = "";
    showOnly("");
  }
  for (let one = target; one; one = one.parentElement) if (one.matches("details")) one.open = true;
  target.scrollIntoView({ block: "start" });
}

// Reviews -----------------------------------------------------------------------------------------
function mark(verdict) {
  const form = document.querySelector("[data-review]");
  const choice = form?.querySelector(`input[value="${verdict}"]`);
  if (!choice) return;
  choice.checked = true;
  form.requestSubmit();
  say(`marked ${verdict}`);
}

// Copying -----------------------------------------------------------------------------------------
async function copy(text) {
  await navigator.clipboard.writeText(text);
  say("copied");
}

async function copyFrom(target) {
  target.closest(".menu")?.removeAttribute("open");
  if (target.dataset.copyText) return copy(target.dataset.copyText);
  if (target.dataset.copyAddress) return copy(location.origin + target.dataset.copyAddress);
  const answer = await fetch(target.href).catch(() => null);
  return answer?.ok ? copy(await answer.text()) : say("not copied: no answer from the viewer");
}

// Live pages --------------------------------------------------------------------------------------
// What the reader unfolded, chose, typed or loaded stays so when the page is updated.
const KEPT = "form.filter, .annotate form, [data-review], [data-find], #frames, #effects, .asked";

if (globalThis.Idiomorph) {
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node.nodeType === Node.ELEMENT_NODE && node.matches(KEPT));
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
    !(name === "data-only" || (name === "open" && node.matches("details")));
}

function siftAgain() {
  const find = document.querySelector("[data-find]");
  const kind = document.getElementById("conversation")?.dataset.only ?? "";
  if (find && (kind || find.value)) showOnly(kind, false);
}

// Printing: what is folded on the screen is on the paper ------------------------------------------
let folded = [];

addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open], .menu, .choice, .annotate, .outline)")];
  folded.forEach((one) => { one.open = true; });
});

addEventListener("afterprint", () => folded.forEach((one) => { one.open = false; }));

// Events ------------------------------------------------------------------------------------------
document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-theme-button], [data-keys-button], [data-fold], [data-show], [data-copy], [data-copy-text], [data-copy-address], [data-confirm]");
  document.querySelectorAll(".menu[open]").forEach((menu) => { if (!menu.contains(event.target)) menu.open = false; });
  if (!target) return;
  if (target.matches("[data-theme-button]")) switchTheme();
  else if (target.matches("[data-keys-button]")) document.getElementById("keys").showModal();
  else if (target.matches("[data-fold]")) foldAll();
  else if (target.matches("[data-show]")) showOnly(target.dataset.show);
  else if (target.matches("[data-confirm]")) { if (!confirm(target.dataset.confirm)) event.preventDefault(); }
  else if (navigator.clipboard) {
    event.preventDefault();
    await copyFrom(target);
  }
});

document.addEventListener("input", (event) => { if (event.target.matches("[data-find]")) sift(); });

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  n: nextFailed,
  e: foldAll,
  f: nextFilter,
  o: toggleOutline,
  m: () => document.querySelector("a[data-raw]")?.click(),
  s: () => document.querySelector("[data-find]")?.focus(),
  g: () => mark("good"),
  b: () => mark("bad"),
  u: () => (document.querySelector("[data-up]") ?? document.querySelector(".top .name")).click(),
  "[": () => document.querySelector("a[rel=prev]")?.click(),
  "]": () => document.querySelector("a[rel=next]")?.click(),
  "/": () => document.querySelector("main .filter input, .top .search input")?.focus(),
  "?": () => document.getElementById("keys").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input:not([type=radio], [type=checkbox]), textarea, select")) {
    if (event.key === "Escape") {
      if (event.target.matches("[data-find]")) { // browsers clear the field, and not all of them say so
        event.target.value = "";
        sift();
      }
      event.target.blur();
    }
    return;
  }
  if (event.key === "Escape") document.querySelectorAll(".menu[open]").forEach((menu) => { menu.open = false; });
  if (document.querySelector("dialog[open]") || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

addEventListener("resize", measure);
document.addEventListener("htmx:afterSettle", () => { measure(); siftAgain(); });
addEventListener("hashchange", openTarget);
measure();
openTarget();
