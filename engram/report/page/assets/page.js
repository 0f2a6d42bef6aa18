// The page: sections in their order, light and dark, and news from the server while a sweep runs.

let data = JSON.parse(document.getElementById("data").textContent);
const state = {
  paper: null, search: {}, pick: { against: "adam" }, verdicts: new Set(Object.keys(SIGNS)), telling: false, sort: {}, open: null,
};
const redraws = [];  // tables that are drawn anew when they are sorted

const OF_THE_PAPER = [
  ["tables", "Tables", () => shownTables().length, tablesSection],
  ["claims", "Claims", () => shownClaims().length, claimsSection],
];
const SECTIONS = [
  ["compare", "Compare", () => comparableRows().length > 1, compareSection],
  ["own", "Other runs", () => data.own.length, ownSection],
  ["streams", "Streams", () => data.streams.length, streamsSection],
  ["memory", "Memory", () => finished().length, memorySection],
  ["sensitivity", "Sensitivity", () => data.sensitivities.length, sensitivitySection],
  ["tuning", "Tuning", () => data.tuning.length, tuningSection],
  ["samples", "Samples", () => data.samples.length, samplesSection],
  ["environment", "Environment", () => data.environments.length, environmentSection],
];

function render() {
  redraws.length = 0;
  watcher.disconnect();
  settlePaper();
  const wanted = sections => sections.filter(([, , wanted]) => wanted()), all = wanted([...OF_THE_PAPER, ...SECTIONS]);
  const section = ([id, title, , fill]) =>
    el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), fill());
  const tabs = paperSwitch(), role = tabs && { role: "tabpanel", "aria-labelledby": `tab-${state.paper}` };
  const panel = el("div", { id: "panel", ...role }, paperNotes(), paperTiles(), wanted(OF_THE_PAPER).map(section));
  document.getElementById("main").replaceChildren(...[...intro(), tabs, panel, ...wanted(SECTIONS).map(section)].filter(Boolean));
  document.getElementById("nav").replaceChildren(...all.map(([id, title]) => el("a", { href: `#${id}` }, title)));
  document.getElementById("foot").textContent = `Made by engram ${data.version} from ${data.sources}.`;
  if (state.open) showDetails();
}

function intro() {
  const settings = Object.values(data.settings);
  const failed = settings.flatMap(setting => setting.runs).filter(run => run.status !== "done").length;
  return [
    el("h1", {}, data.records ? many(data.records, "run") : "No records yet"),
    el("p", { class: "quiet" }, `${many(settings.length, "setting")} in `
      + many(unique(settings.map(setting => setting.scenario)).length, "scenario")
      + (failed ? `; ${many(failed, "run")} failed or diverged` : "")
      + (data.skipped ? `; ${many(data.skipped, "record")} not whole, left out` : "")
      + (data.thinned ? `; ${data.thinned}` : "") + "."),
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

// `#cell/table2/ewc/class` and `#run/ID` open what they name, `#paper/NAME` and `#compare/…` choose it.
function openFromAddress() {
  const [what, ...parts] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (what === "cell") state.open = { table: parts[0], row: parts[1], column: parts[2] };
  if (what === "paper") state.paper = parts[0];
  if (what === "cell") state.paper = data.tables.find(table => table.name === parts[0])?.paper ?? null;
  if (what === "compare" && parts.length === 4) {
    Object.assign(state.pick, { one: rowKey(parts[0], parts[1]), other: rowKey(parts[2], parts[3]) });
  }
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
if (location.hash.startsWith("#compare/")) document.getElementById("compare")?.scrollIntoView();
if (data.live) {
  document.getElementById("live").hidden = false;
  news();
}
