// Tables that sort, and whose cells open; arrow keys move in them.

// `columns`: [{title, left}], the first for the row heads.
// `rows`: [{id, head, sort, cells: [{content, sort, look, label, open}]}].
function grid({ id, caption, columns, rows }) {
  const order = state.sort[id], key = row => (order.column ? row.cells[order.column - 1].sort : row.sort);
  const sorted = order ? [...rows].sort((a, b) => compared(key(a), key(b), order.sign)) : rows;
  const head = columns.map((column, i) => {
    const direction = order?.column === i ? (order.sign > 0 ? "ascending" : "descending") : "none";
    return el("th", { scope: "col", "aria-sort": direction, class: column.left && "left" },
      el("button", { type: "button", "data-focus": `${id} sort ${i}`, onclick: () => sortBy(id, i) }, column.title));
  });
  const body = sorted.map((row, r) => el("tr", {}, el("th", { scope: "row", title: row.head }, row.head),
    row.cells.map((cell, c) => el("td", {
      class: cell.look, tabindex: r || c ? -1 : 0, "aria-label": cell.label, onclick: cell.open,
      "data-focus": `${id} ${row.id} ${c}`,
    }, cell.content))));
  return el("div", { class: "scroll" }, el("table", { class: "grid", role: "grid", id: `grid-${id}`, onkeydown: moved },
    el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// What is not there stands last, whichever way round.
function compared(a, b, sign) {
  if (!there(a) || !there(b)) return there(b) - there(a);
  return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
}

// First the largest first (names: A first), then the other way round, then the order that it had.
function sortBy(id, column) {
  const order = state.sort[id], first = column ? -1 : 1;
  if (order?.column !== column) state.sort[id] = { column, sign: first };
  else if (order.sign === first) state.sort[id] = { column, sign: -first };
  else delete state.sort[id];
  refresh();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function moved(event) {
  const here = event.target.closest("td, th"), steps = STEPS[event.key];
  if ((event.key === "Enter" || event.key === " ") && here.tagName === "TD") {
    event.preventDefault();
    here.click();
  }
  if (!steps && event.key !== "Home" && event.key !== "End") return;
  event.preventDefault();
  const rows = [...event.currentTarget.rows];
  const stops = row => [...row.cells].map(cell => (cell.hasAttribute("tabindex") ? cell : cell.querySelector("button")));
  let r = here.parentElement.rowIndex, c = here.cellIndex, next = null;
  if (!steps) next = stops(rows[r]).filter(Boolean).at(event.key === "Home" ? 0 : -1);
  while (steps && !next) {
    [r, c] = [r + steps[0], c + steps[1]];
    if (!rows[r]?.cells[c]) return;
    next = stops(rows[r])[c];
  }
  if (next.tagName === "TD") {  // one cell is a stop of the Tab key: the last that was visited
    for (const cell of event.currentTarget.querySelectorAll("td[tabindex='0']")) cell.tabIndex = -1;
    next.tabIndex = 0;
  }
  next.focus();
}

// The names that stand in a table's filter field, and the field.
function searchField(label, name, draw) {
  const field = el("input", {
    type: "search", placeholder: label, "aria-label": label, value: state.search[name], "data-focus": `search ${name}`,
    oninput: () => { state.search[name] = field.value; draw(); },
  });
  return field;
}

const matches = (name, ...texts) => texts.join(" ").toLowerCase().includes((state.search[name] ?? "").toLowerCase());

function picker(label, name, options, draw) {
  const pick = el("select", {
    "data-focus": `pick ${name}`, onchange: () => { state.pick[name] = pick.value; draw(); },
  }, options.map(([value, text]) => el("option", { value }, text)));
  pick.value = state.pick[name];
  if (pick.selectedIndex < 0) pick.selectedIndex = 0;
  state.pick[name] = pick.value;
  return el("label", {}, label, pick);
}
