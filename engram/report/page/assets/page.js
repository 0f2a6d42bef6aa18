// The page: sections in their order, light and dark, and news from the server while a sweep runs.

let data = JSON.parse(document.getElementById("data").textContent);
const state = {
  search: {}, pick: { against: "adam" }, verdicts: new Set(Object.keys(SIGNS)), telling: false, sort: {}, open: null,
};
const redraws = [];  // tables that are drawn anew when they are sorted

const SECTIONS = [
  ["tables", "Tables", () => data.tables.length, tablesSection],
  ["claims", "Claims", () => data.claims.length, claimsSection],
  ["own", "Other runs", () => data.own.length, ownSection],
  ["memory", "Memory", () => finished().length, memorySection],
  ["sensitivity", "Sensitivity", () => data.sensitivities.length, sensitivitySection],
  ["tuning", "Tuning", () => data.tuning.length, tuningSection],
  ["samples", "Samples", () => data.samples.length, samplesSection],
  ["environment", "Environment", () => data.environments.length, environmentSection],
];

function render() {
  redraws.length = 0;
  watcher.disconnect();
  const shown = SECTIONS.filter(([, , wanted]) => wanted());
  document.getElementById("main").replaceChildren(...intro(), ...shown.map(([id, title, , fill]) =>
    el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), fill())));
  document.getElementById("nav").replaceChildren(...shown.map(([id, title]) => el("a", { href: `#${id}` }, title)));
  document.getElementById("foot").textContent = `Made by engram ${data.version} from ${data.sources}.`;
  if (state.open) showDetails();
}

function intro() {
  const cells = data.tables.flatMap(cellsOf), settings = Object.values(data.settings);
  const number = verdict => cells.filter(cell => cell.verdict === verdict).length;
  const tile = (value, text, look) =>
    el("div", { class: "tile" }, el("b", { class: look }, value), el("span", { class: "quiet small" }, text));
  const failed = settings.flatMap(setting => setting.runs).filter(run => run.status !== "done").length;
  return [
    el("h1", {}, data.records ? many(data.records, "run") : "No records yet"),
    el("p", { class: "quiet" }, `${many(settings.length, "setting")} in `
      + many(unique(settings.map(setting => setting.scenario)).length, "scenario")
      + (data.skipped ? `; ${many(data.skipped, "record")} not whole, left out` : "")
      + (data.thinned ? `; ${data.thinned}` : "") + "."),
    el("div", { class: "tiles" },
      cells.some(cell => cell.verdict) ? [
        tile(number("agrees"), "cells agree with published numbers", "agrees"), tile(number("higher"), "are higher", "higher"),
        tile(number("lower"), "are lower", "lower"), tile(number("missing"), "have no runs yet"),
      ] : null,
      failed ? tile(failed, "runs failed or diverged", "lower") : null),
  ];
}

// Draws tables anew, with the focus where it was.
function refresh() {
  const focus = document.activeElement?.dataset.focus;
  redraws.forEach(draw => draw());
  focusOn(focus);
}

function focusOn(name) {
  const found = [...document.querySelectorAll("[data-focus]")].find(node => node.dataset.focus === name);
  found?.focus({ preventScroll: true });
}

const dark = matchMedia("(prefers-color-scheme: dark)"), themeButton = document.getElementById("theme");

function theme(now) {
  const other = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = now;
  themeButton.textContent = other === "light" ? "☀ Light" : "☾ Dark";
  themeButton.setAttribute("aria-label", `Use ${other} colours`);
}

themeButton.addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));

// `#cell/table2/ewc/class` and `#run/ID` open what they name.
function openFromAddress() {
  const [what, ...parts] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (what === "cell") state.open = { table: parts[0], row: parts[1], column: parts[2] };
  if (what === "run") state.open = { setting: parts[0] };
}

// Asks the server every two seconds whether there is more; keeps place, focus and what is open.
async function news() {
  const status = document.getElementById("live");
  try {
    const answer = await fetch("data.json", { headers: { "If-None-Match": data.tag }, cache: "no-store" });
    if (answer.status === 200) {
      const at = scrollY, focus = document.activeElement?.dataset.focus;
      data = await answer.json();
      render();
      scrollTo({ top: at, behavior: "instant" });
      focusOn(focus);
    } else if (answer.status !== 304) {
      throw new Error(`status ${answer.status}`);
    }
    status.textContent = `live, ${many(data.records, "run")}`;
    status.classList.remove("lost");
  } catch {
    status.textContent = "the server is gone";
    status.classList.add("lost");
  }
  setTimeout(news, 2000);
}

theme(dark.matches ? "dark" : "light");
openFromAddress();
render();
if (data.live) {
  document.getElementById("live").hidden = false;
  news();
}
