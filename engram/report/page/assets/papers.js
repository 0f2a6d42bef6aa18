// The switch between papers and studies of one's own: their tables and claims are shown one at a time.

const OWN = "own";
const paperTitle = name => ({ own: "Own studies", engram: "engram's studies" }[name] ?? name);
const tablesOf = name => data.tables.filter(table => table.paper === name);
const papersShown = () => data.papers.filter(paper => tablesOf(paper.name).length);
const shownTables = () => tablesOf(state.paper);
const shownClaims = () => data.claims.filter(paper => paper.paper === state.paper);

// The paper that is picked, or the first that has tables.
function settlePaper() {
  const names = papersShown().map(paper => paper.name);
  if (!names.includes(state.paper)) state.paper = names[0] ?? null;
}

function countText(name) {
  const tables = tablesOf(name), cells = tables.flatMap(cellsOf).filter(cell => there(cell.paper));
  if (!cells.length) return many(tables.length, "table");
  const number = passes => cells.filter(passes).length, missing = number(cell => cell.verdict === "missing");
  const few = number(cell => !cell.verdict);  // no published spread, and fewer than three runs of ours
  return `${number(cell => cell.verdict === "agrees")} of ${cells.length - missing - few} cells agree`
    + (few ? `, ${few} with too few runs` : "") + (missing ? `, ${missing} without runs` : "");
}

function paperSwitch() {
  const papers = papersShown();
  if (papers.length < 2) return null;
  const pick = name => {
    state.paper = name;
    const at = scrollY;
    render();
    scrollTo({ top: at, behavior: "instant" });
    focusOn(`paper ${name}`);
  };
  const moved = event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const names = papers.map(paper => paper.name), here = names.indexOf(state.paper);
    const next = step ? (here + step + names.length) % names.length : { Home: 0, End: names.length - 1 }[event.key];
    if (!there(next)) return;
    event.preventDefault();
    pick(names[next]);
  };
  return el("div", { class: "switch", role: "tablist", "aria-label": "Papers and studies", onkeydown: moved },
    papers.map(({ name }) => el("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", "aria-selected": name === state.paper,
      tabindex: name === state.paper ? 0 : -1, "data-focus": `paper ${name}`, onclick: () => pick(name),
    }, el("b", {}, paperTitle(name)), el("span", { class: "small quiet" }, countText(name)))));
}

// Where the numbers come from, and which tables have no runs yet.
function paperNotes() {
  const paper = data.papers.find(found => found.name === state.paper);
  const empty = paper?.name === OWN ? [] : paper?.missing ?? [];
  const rest = data.papers.filter(found => found.citation && !tablesOf(found.name).length && data.claims.length);
  return [
    paper?.citation ? el("p", { class: "quiet" }, paper.citation) : null,
    empty.length ? el("p", { class: "quiet small" }, "No runs yet: ", empty.map(({ title, command }, i) =>
      [i ? "; " : "", `${title} (`, el("code", {}, command), ")"]), ".") : null,
    rest.length ? el("p", { class: "quiet small" }, "Papers without runs here: ",
      rest.map(found => found.name).join(", "), ".") : null,
  ];
}

function paperTiles() {
  const cells = shownTables().flatMap(cellsOf).filter(cell => cell.verdict);
  const number = verdict => cells.filter(cell => cell.verdict === verdict).length;
  return cells.length ? el("div", { class: "tiles" },
    tile(number("agrees"), "cells agree with published numbers", "agrees"), tile(number("higher"), "are higher", "higher"),
    tile(number("lower"), "are lower", "lower"), tile(number("missing"), "have no runs yet")) : null;
}

function tile(value, text, look) {
  return el("div", { class: "tile" }, el("b", { class: look }, value), el("span", { class: "quiet small" }, text));
}
