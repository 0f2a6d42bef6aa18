// Any two rows side by side, of one table or of two: the differences over the seeds that both have.

const MOST_OTHER_ROWS = 400;

const rowKey = (table, row) => JSON.stringify([table, row]);
const valuesOf = cell => cell.values ?? data.settings[cell.setting]?.values;

// All rows that have runs: {key, group, title, cells: [{column, scenario, values, setting}]}.
function comparableRows() {
  const found = [];
  const add = (table, group, row, title, cells) => {
    const ran = cells.filter(cell => cell.values?.of.length);
    if (ran.length) found.push({ key: rowKey(table, row), table, group, title, cells: ran });
  };
  for (const table of data.tables) {
    const group = `${paperTitle(table.paper)}, ${table.title}`;
    const scenario = name => table.columns.find(column => column.name === name)?.scenario;
    const part = (cell, column = cell.column) =>
      ({ column, scenario: scenario(cell.column), values: valuesOf(cell), setting: cell.setting });
    if (table.head === "after task") {  // its methods are the columns
      table.columns.forEach(({ name }, k) => add(table.name, group, name, name,
        table.rows.map(row => part(row.cells[k], `after task ${row.name}`))));
      continue;
    }
    for (const row of table.rows) add(table.name, group, row.name, row.title, row.cells.map(cell => part(cell)));
    for (const name of unique(table.variants.map(variant => variant.row))) {
      add(table.name, group, name, `${name} (variant)`, table.variants.filter(one => one.row === name).map(one => part(one)));
    }
  }
  for (const id of data.own.slice(0, MOST_OTHER_ROWS)) {
    const { scenario, values } = data.settings[id], title = `${titled(data.settings[id])}, ${scenario}`;
    add("", "Other runs", id, title, [{ column: scenario, scenario, values, setting: id }]);
  }
  return found;
}

// Cells of two rows that belong together: by the name of the column, else by the scenario.
function commonCells(a, b) {
  const used = new Set();
  return a.cells.flatMap(left => {
    const free = b.cells.filter(cell => !used.has(cell));
    const right = free.find(cell => cell.column === left.column)
      ?? (a.table !== b.table || !a.table ? free.find(cell => cell.scenario === left.scenario) : null);
    if (!right) return [];
    used.add(right);
    const same = left.column === right.column && left.scenario === right.scenario;
    return [{ left, right, same, column: left.column === right.column ? left.column : `${left.column} | ${right.column}` }];
  });
}

function rowPicker(label, name, rows, draw) {
  const pick = el("select", { "data-focus": `pick ${name}`, onchange: () => { state.pick[name] = pick.value; draw(); } },
    unique(rows.map(row => row.group)).map(group => el("optgroup", { label: group },
      rows.filter(row => row.group === group).map(row => el("option", { value: row.key }, row.title)))));
  pick.value = state.pick[name];
  return el("label", {}, label, pick);
}

function compareSection() {
  const rows = comparableRows(), box = el("div", { class: "card", "aria-live": "polite" });
  const first = rows.find(row => shownTables().some(table => row.key === rowKey(table.name, table.baseline_row))) ?? rows[0];
  const known = key => rows.some(row => row.key === key);
  if (!known(state.pick.one)) state.pick.one = first.key;
  if (!known(state.pick.other)) state.pick.other = (rows.find(row => row.table === first.table && row !== first) ?? rows[1]).key;
  const draw = () => box.replaceChildren(...comparison(...["one", "other"].map(side =>
    rows.find(row => row.key === state.pick[side]))).filter(Boolean));
  const tools = el("div", { class: "tools rows" });
  const fill = () => {
    tools.replaceChildren(rowPicker("Compare", "one", rows, changed), rowPicker("with", "other", rows, changed), el("button", {
      type: "button", "data-focus": "swap rows", onclick: () => {
        [state.pick.one, state.pick.other] = [state.pick.other, state.pick.one];
        fill();
        changed();
        focusOn("swap rows");
      },
    }, "⇄ Swap"));
  };
  const changed = () => {
    const words = ["one", "other"].flatMap(side => JSON.parse(state.pick[side]));
    history.replaceState(null, "", `#compare/${words.map(encodeURIComponent).join("/")}`);
    draw();
  };
  fill();
  draw();
  const hidden = data.own.length - MOST_OTHER_ROWS;
  return [
    el("p", { class: "quiet" }, "Any two rows, also of two papers or studies: what the second has more, over the seeds that ",
      "both have. The interval has the mean differences that a paired permutation test does not reject at 5 percent, ",
      "column by column; p is that of the test, after Holm's correction over these columns.",
      hidden > 0 ? ` Of the runs outside the tables the first ${MOST_OTHER_ROWS} settings can be chosen.` : ""),
    tools, box,
  ];
}

function comparison(a, b) {
  const common = commonCells(a, b);
  if (!common.length) return [el("p", {}, `${a.title} and ${b.title} have no column and no scenario in common.`)];
  const found = common.map(pair => {
    const { seeds, differences } = pairedDifferences(pair.left.values, pair.right.values);
    return { ...pair, seeds, differences, ...pairedTest(differences), interval: pairedInterval(differences) };
  });
  correctTests(found);
  const summary = values => percent(mean(values.of)) + spread(values.of) + ` (${values.of.length})`;
  const span = interval => (interval ? `${signed(interval[0])} to ${signed(interval[1])}` : "–");
  const p = test => (test.least < ALPHA ? (test.adjusted ?? test.p).toPrecision(2) : "–");
  const names = a.title === b.title ? [a, b].map(row => `${row.title} (${row.group})`) : [a.title, b.title];
  const table = plainTable(["column", "difference", "95 % interval", "pairs", "p", "", ...names.map(name => `${name} (runs)`)],
    found.map(test => [test.column, test.n ? signed(test.difference) : "–", span(test.interval), String(test.n), p(test),
      pairedWord(test), summary(test.left.values), summary(test.right.values)]));
  table.querySelector("table").prepend(el("caption", {}, `${names[1]} minus ${names[0]}`));
  const apart = found.filter(pair => !pair.same).map(({ left, right }) =>
    (left.scenario === right.scenario ? left.scenario : `${left.scenario} | ${right.scenario}`));
  return [
    table,
    apart.length ? el("p", { class: "small" }, "Not the same column of one table: ", unique(apart).join(", "),
      ". Pairs share the seed, but perhaps not the tasks.") : null,
    found.some(test => test.n) ? differenceFigure(names, found.filter(test => test.n)) : null,
    settingDifferences(names, found),
  ];
}

// The difference of every pair as a dot, their mean and its interval as a bar, column by column.
function differenceFigure(names, tests) {
  const ends = tests.flatMap(test => [...test.differences, ...(test.interval ?? [])]);
  const low = Math.min(0, ...ends), high = Math.max(0, ...ends), pad = (high - low || 1) * 0.05;
  const draw = width => {
    const pitch = 34, top = 6, floor = top + tests.length * pitch, left = Math.min(150, width * 0.3);
    const x = { low: low - pad, high: high + pad, label: `${names[1]} minus ${names[0]}, points`, text: value => signed(value, value % 1 ? 1 : 0) };
    const axes = plot({ width, height: floor + 42, left, top, bottom: 42, x, y: { low: 0, high: 1, ticks: [] } });
    axes.add(between(axes.X(0), top, axes.X(0), floor, "line thin s6 dash"));
    tests.forEach((test, i) => {
      const y = top + (i + 0.5) * pitch;
      axes.add(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, fitted(test.column, left - 10), hint(test.column)));
      test.differences.forEach((d, k) => axes.add(svg("circle", {
        class: "f0", "fill-opacity": 0.55, cx: axes.X(d), cy: y - 7 + 5 * ((k * 0.618) % 1), r: 3.5,
      }, hint(`${test.column}, seed ${test.seeds[k]}: ${signed(d)}`))));
      if (test.interval) axes.add(between(axes.X(test.interval[0]), y + 8, axes.X(test.interval[1]), y + 8, "line s7"));
      axes.add(svg("circle", { class: "f7", cx: axes.X(test.difference), cy: y + 8, r: 4 },
        hint(`${test.column}, mean: ${signed(test.difference)}`)));
    });
    return axes.root;
  };
  return figure({
    title: "Paired differences", draw,
    describe: `${tests.map(test => `${test.column}: mean ${signed(test.difference)} of ${test.n} pairs`).join("; ")}.`,
    legend: [["dot f0", "a seed"], ["dot f7", "mean"], ["line s7", "its 95 % interval"]],
    head: ["column", "seed", "difference"],
    rows: () => tests.flatMap(test => test.differences.map((d, k) => [test.column, String(test.seeds[k]), signed(d)])),
  });
}

// `{"net": {"name": "mlp"}}` as [["net.name", "mlp"]].
function flatFields(value, name = "") {
  if (value === null || typeof value !== "object" || (Array.isArray(value) && !value.some(part => part && typeof part === "object"))) {
    return [[name, JSON.stringify(value)]];
  }
  return Object.entries(value).flatMap(([key, part]) => flatFields(part, name ? `${name}.${key}` : key));
}

// What two settings do not share, from their specs.
function settingDifferences(names, tests) {
  const rows = tests.flatMap(({ column, left, right }) => {
    const [a, b] = [left, right].map(side => data.settings[side.setting]?.spec).map(spec => new Map(spec ? flatFields(JSON.parse(spec)) : []));
    if (!a.size || !b.size) return [];
    return unique([...a.keys(), ...b.keys()]).filter(field => a.get(field) !== b.get(field))
      .map(field => [field, column, a.get(field) ?? "–", b.get(field) ?? "–"]);
  });
  if (!rows.length) return null;
  const box = el("details", { ontoggle: () => {
    if (box.open && box.childElementCount === 1) box.append(plainTable(["field", "column", ...names], rows));
  } }, el("summary", {}, "What differs in their specs"));
  return box;
}
