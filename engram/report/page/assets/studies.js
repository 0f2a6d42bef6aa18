// The tables: our numbers and, if there are published ones, those, the verdict, and how far they are apart.

const SIGNS = { agrees: "✓", higher: "↑", lower: "↓", missing: "·" };
const MEANING = {
  agrees: "agrees with the published number", higher: "higher than the published number",
  lower: "lower than the published number", missing: "no runs yet",
};

const cellsOf = table => table.rows.flatMap(row => row.cells).filter(cell => !cell.absent);
const publishedText = cell => percent(cell.paper) + (there(cell.paper_std) ? ` ± ${percent(cell.paper_std)}` : "");
const pText = value => `p ${value.toPrecision(2)}`;

function tablesSection() {
  const tables = shownTables(), box = el("div", {}), shape = table => ["pair", "pair", "pair uneven"][table.columns.length - 2] ?? "";
  const charted = table => table.published && table.rows.some(row => row.cells.some(judged));
  const chart = table => (table.head === "after task" ? alongQueue(table) : agreement(table));
  const draw = () => box.replaceChildren(...tables.map(table =>
    el("div", { class: `card ${charted(table) ? shape(table) : ""}` },
      el("div", {}, studyTable(table), variantTable(table)), charted(table) ? chart(table) : null)));
  const published = tables.some(table => table.published);
  const verdicts = !published ? [] : Object.keys(SIGNS).map(verdict => {
    const cells = tables.flatMap(cellsOf).filter(cell => cell.verdict === verdict);
    const button = el("button", {
      type: "button", "aria-pressed": state.verdicts.has(verdict), "data-focus": `verdict ${verdict}`,
      onclick: () => {
        if (!state.verdicts.delete(verdict)) state.verdicts.add(verdict);
        button.setAttribute("aria-pressed", state.verdicts.has(verdict));
        draw();
      },
    }, `${SIGNS[verdict]} ${verdict} ${cells.length}`);
    return button;
  });
  const telling = el("input", {
    type: "checkbox", checked: state.telling, "data-focus": "telling",
    onchange: () => { state.telling = telling.checked; draw(); },
  });
  const methods = unique(tables.flatMap(table => Object.values(table.tests ?? {}).flatMap(Object.keys)));
  if (state.pick.against && !methods.includes(state.pick.against)) state.pick.against = tables[0]?.baseline_row;
  const against = picker("* differs from", "against", [...methods.map(name => [name, name]), ["", "none"]], draw);
  const measured = picker("Show", "measure", [["", "the table's own"], ...measuresOf(tables).map(name => [name, name])], draw);
  redraws.push(draw);
  draw();
  return [
    el("p", { class: "quiet" }, "Average accuracy over all tasks after the last one, in percent; ± is the population ",
      "standard deviation over the runs. ", published ? ["A cell is telling if its published number differs from the ",
        "baseline's by more than the band within which cells agree: only such cells can show that a method works. "] : "",
      "Open a cell for its runs."),
    el("div", { class: "tools" }, searchField("Filter rows", "studies", draw), verdicts,
      published ? el("label", {}, telling, "telling only") : null, methods.length ? against : null, measured),
    box,
  ];
}

// Other metrics that the runs of some tables have; own ones by their names.
function measuresOf(tables) {
  const settings = unique(tables.flatMap(cellsOf).map(cell => cell.setting)).map(id => data.settings[id]).filter(Boolean);
  return unique(settings.flatMap(setting => [...Object.keys(setting.recorded), ...setting.metrics.map(metric => metric.title)]))
    .filter(name => name !== "average accuracy");
}

// [mean, standard deviation, runs] of the metric that was picked, over the runs behind a cell.
function measured(cell) {
  const setting = data.settings[cell.setting], own = setting?.metrics.find(metric => metric.title === state.pick.measure);
  return own ? [own.mean, own.std, own.n] : setting?.recorded[state.pick.measure];
}

// A cell that shows another metric: there is nothing published to judge it by.
function measureCell(table, row, cell) {
  const [value, std, n] = measured(cell) ?? [null, null, 0];
  const text = there(value) ? short(value) + (n > 1 ? ` ± ${short(std)}` : "") : "–";
  return {
    sort: value, look: "cell", open: () => openCell(table, row, cell),
    label: `${row.title}, ${cell.column}: ${state.pick.measure} ${text}, ${many(n, "run")}`,
    content: [el("span", { class: "ours" }, there(value) ? short(value) : "–"),
      el("span", { class: "spread quiet" }, n > 1 ? ` ± ${short(std)}` : ""), el("span", { class: "below" }, n ? `n = ${n}` : "")],
  };
}

// Whether a cell can be drawn beside a published number.
const judged = cell => there(cell.ours) && there(cell.paper) && there(cell.band);

function studyTable(table) {
  const passes = cell => !cell.absent && (!cell.verdict || state.verdicts.has(cell.verdict))
    && (!state.telling || cell.telling || !table.published);
  const other = state.pick.measure && table.head !== "after task";
  const rows = table.rows.filter(row => matches("studies", row.name, row.title) && row.cells.some(passes));
  return grid({
    id: table.name,
    caption: [`${table.title} `, el("span", { class: "quiet small" }, other ? state.pick.measure : tally(table))],
    columns: [table.head, ...table.columns.map(column => column.name)].map(title => ({ title })),
    rows: rows.map(row => ({
      id: row.name, head: row.title, sort: row.title,
      cells: row.cells.map(cell => (cell.absent ? noCell(row, cell) : other ? measureCell(table, row, cell) : {
        sort: cell.ours,
        look: `cell ${cell.verdict ?? (there(cell.ours) ? "" : "missing")}${passes(cell) ? "" : " aside"}`,
        label: spoken(row, cell, differs(table, cell)),
        open: () => openCell(table, row, cell),
        content: cellContent(table, cell, differs(table, cell)),
      })),
    })),
  });
}

const noCell = (row, cell) => ({ look: "cell missing", label: `${row.title}, ${cell.column}: no such cell`, content: "–" });

// Rows with some values changed, beside the row, over common seeds.
function variantTable(table) {
  const variants = table.variants.filter(variant => matches("studies", variant.row, variant.of));
  if (!variants.length) return null;
  const heads = ["variant", "column", "variant's", "row's", "difference", "p"];
  return grid({
    id: `${table.name}-variants`,
    caption: ["Variants ", el("span", { class: "quiet small" }, "rows with some values changed; not cells of the table")],
    columns: heads.map((title, i) => ({ title, left: i < 2 })),
    rows: variants.map(variant => {
      const open = () => openSetting(variant.setting, variant.note), name = `${variant.row}, ${variant.column}`;
      const cell = (sort, content, look) => ({ sort, content, look, open, label: `${name}: ${content}` });
      return {
        id: `${variant.row} ${variant.column}`, head: variant.row, sort: variant.row,
        cells: [
          cell(variant.column, variant.column, "left"),
          cell(variant.ours, percent(variant.ours) + (variant.n > 1 ? ` ± ${percent(variant.std)}` : "")),
          cell(variant.of_row, percent(variant.of_row)),
          cell(variant.difference, signed(variant.difference)),
          cell(variant.p, there(variant.p) ? variant.p.toPrecision(2) : "–"),
        ],
      };
    }),
  });
}

function cellContent(table, cell, star) {
  const mark = el("span", { class: "mark" }, SIGNS[cell.verdict] ?? "");
  const below = el("span", { class: "below" }, table.published ? publishedLine(cell) : testLine(cell));
  if (!there(cell.ours)) return [mark, el("span", { class: "ours" }, "no runs"), below];
  return [mark, el("span", { class: "ours" }, percent(cell.ours)), el("sup", {}, star ? "*" : ""),
    el("span", { class: "spread quiet" }, cell.n > 1 ? ` ± ${percent(cell.std)}` : " one run"), below];
}

const publishedLine = cell => (there(cell.paper) ? [el("span", { class: "wordy" }, "paper "), publishedText(cell)] : []);
const testLine = cell => [cell.n ? `n = ${cell.n}` : "", there(cell.p) ? [el("span", { class: "wordy" }, ", "), el("span", { class: "apart" }, pText(cell.p))] : ""];

function spoken(row, cell, star) {
  const around = cell.n > 1 ? ` plus or minus ${percent(cell.std)}` : "";
  const ours = there(cell.ours) ? `${percent(cell.ours)}${around} of ${cell.n} runs` : "no runs";
  const published = there(cell.paper) ? `, published ${percent(cell.paper)}` : "";
  return `${row.title}, ${cell.column}: ${ours}${published}${cell.verdict ? `, ${MEANING[cell.verdict]}` : ""}`
    + (there(cell.p) && !there(cell.paper) ? `, ${pText(cell.p)} against the baseline` : "")
    + (star ? `, differs from ${state.pick.against}` : "");
}

function tally(table) {
  const metric = table.metric === "average accuracy" ? "" : `${table.metric}; `;
  if (!table.published) return metric + (table.baseline ? `p against ${table.baseline}, after Holm's correction` : "") + remarks(table);
  const number = verdict => cellsOf(table).filter(cell => cell.verdict === verdict).length;
  const telling = cellsOf(table).filter(cell => cell.telling && cell.verdict !== "missing");
  return `${metric}${number("agrees")} agree, ${number("higher")} higher, ${number("lower")} lower, ${number("missing")} missing; `
    + `of ${telling.length} telling cells ${telling.filter(cell => cell.verdict === "agrees").length} agree`
    + remarks(table);
}

// What holds for all of its runs.
function remarks(table) {
  return table.remarks.map(text => `; ${text}`).join("");
}

// Whether the paired test shows a difference from the method that was picked.
function differs(table, cell) {
  const test = table.tests?.[cell.column]?.[state.pick.against]?.[cell.row];
  return test?.word === "higher" || test?.word === "lower";
}

// Every cell as a dot: its distance from the published number, in units of the band within which it agrees.
function agreement(table) {
  const rows = table.rows.filter(row => row.cells.some(judged));
  const cells = rows.flatMap(row => row.cells).filter(judged);
  const away = cell => (cell.ours - cell.paper) / cell.band;
  const edge = Math.min(4, Math.max(1.5, ...cells.map(cell => Math.abs(away(cell)))) * 1.08);
  const draw = width => {
    const pitch = 24, top = 6, floor = top + rows.length * pitch, left = Math.min(128, width * 0.36);
    const text = value => signed(value, value % 1 ? 1 : 0);
    const x = { low: -edge, high: edge, label: "ours minus published, in bands", text };
    const axes = plot({ width, height: floor + 42, left, top, bottom: 42, x, y: { low: 0, high: 1, ticks: [] } });
    axes.add(svg("rect", { class: "zone", x: axes.X(-1), width: axes.X(1) - axes.X(-1), y: top, height: floor - top }));
    axes.add(between(axes.X(0), top, axes.X(0), floor, "line thin s6 dash"));
    rows.forEach((row, i) => {
      const y = top + (i + 0.5) * pitch, name = fitted(row.title.replace(/ \(.*/, ""), left - 10);
      axes.add(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, name));
      row.cells.forEach((cell, k) => {
        if (!judged(cell)) return;
        const cx = axes.X(Math.max(-edge, Math.min(edge, away(cell)))), cy = y + (k - (row.cells.length - 1) / 2) * 4.5;
        const said = `ours ${percent(cell.ours)}, published ${percent(cell.paper)}, band ± ${percent(cell.band)}`;
        axes.add(svg("circle", { class: cell.telling ? `f${k}` : `ring s${k}`, cx, cy, r: cell.telling ? 4.5 : 4 },
          hint(`${row.title}, ${cell.column}: ${said}`)));
      });
    });
    return axes.root;
  };
  const within = cells.filter(cell => Math.abs(away(cell)) <= 1).length;
  const columns = table.columns.map((column, k) => [`dot f${k}`, column.name]);
  return figure({
    title: "Distance from the published numbers", draw,
    describe: `Of ${cells.length} cells with runs ${within} lie within the band of agreement.`,
    legend: [...columns, ["ring s6", "not telling"], ["box zone", "agrees"]],
    head: [table.head, "column", "ours", "published", "band", "ours minus published"],
    rows: () => cells.map(cell => [cell.row, cell.column, percent(cell.ours), percent(cell.paper),
      `± ${percent(cell.band)}`, signed(cell.ours - cell.paper)]),
  });
}

// Rows that are numbers of tasks: ours as lines, published numbers as dashed lines.
function alongQueue(table) {
  const tasks = table.rows.map(row => Number(row.name));
  const series = table.columns.map((column, k) => ({ k, name: column.name, cells: table.rows.map(row => row.cells[k]) }));
  const draw = width => {
    const some = tasks.filter((_, i) => width > 500 || i % 2 === 0), height = Math.min(380, Math.max(280, width * 0.4));
    const x = { low: tasks[0], high: tasks.at(-1), ticks: some, label: table.head };
    const axes = plot({ width, height, x, y: { low: 40, high: 100 }, right: 20 });
    for (const { k, name, cells } of series) {
      const line = of => path(cells.map((cell, i) => [axes.X(tasks[i]), axes.Y(of(cell))]));
      axes.add(svg("path", { class: `line thin dash s${k}`, d: line(cell => cell.paper) }, hint(`${name}, published`)));
      if (!there(cells[0].ours)) continue;
      axes.add(svg("path", { class: `line s${k}`, d: line(cell => cell.ours) }, hint(name)));
      cells.forEach((cell, i) => {
        const said = `${name} after task ${tasks[i]}: ours ${percent(cell.ours)}, published ${percent(cell.paper)}`;
        axes.add(svg("circle", { class: `f${k}`, cx: axes.X(tasks[i]), cy: axes.Y(cell.ours), r: 3.5 }, hint(said)));
      });
    }
    return axes.root;
  };
  const last = series.map(({ name, cells }) => `${name} ${percent(cells.at(-1).ours)} (${percent(cells.at(-1).paper)} published)`);
  return figure({
    title: `Average accuracy over the tasks seen${remarks(table)}`, draw,
    describe: `After task ${tasks.at(-1)}: ${last.join("; ")}.`,
    legend: [...series.map(({ k, name }) => [`line s${k}`, name]), ["line s6 dash thin", "published"]],
    head: [table.head, ...series.flatMap(({ name }) => [name, "published"])],
    rows: () => table.rows.map(row => [row.title, ...row.cells.flatMap(cell => [percent(cell.ours), percent(cell.paper)])]),
  });
}
