// One cell or setting, opened: its seeds, its matrix, its curves, its spec as a command.

const dialog = document.getElementById("details");

function openCell(table, row, cell) {
  state.open = { table: table.name, row: row.name, column: cell.column };
  showDetails();
}

function openSetting(id, note = "") {
  state.open = { setting: id, note };
  showDetails();
}

function opened() {
  const table = data.tables.find(found => found.name === state.open.table);
  const row = table?.rows.find(found => found.name === state.open.row);
  const cell = row?.cells.find(found => found.column === state.open.column);
  const id = cell ? cell.setting : state.open.setting;
  return { table, row, cell, id, setting: data.settings[id] };
}

function showDetails() {
  const found = opened(), at = dialog.open ? dialog.scrollTop : 0;
  if (!found.cell && !found.setting) { state.open = null; return; }
  dialog.replaceChildren(heading(found), el("div", { class: "body" }, found.setting ? body(found) : absent(found)));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = at;
  const { table, row, column, setting } = state.open;
  const words = table ? ["cell", table, row, column] : ["run", setting];
  history.replaceState(null, "", `#${words.map(encodeURIComponent).join("/")}`);
}

dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
dialog.addEventListener("close", () => {
  const { table, row, column, setting } = state.open ?? {};
  state.open = null;
  history.replaceState(null, "", location.pathname + location.search);
  const columns = data.tables.find(found => found.name === table)?.columns.map(found => found.name);
  focusOn(table ? `${table} ${row} ${columns.indexOf(column)}` : `own ${setting} 0`);
});

function heading({ table, row, cell, setting }) {
  const where = setting ? setting.scenario : table.columns.find(column => column.name === cell.column).scenario;
  const verdict = cell?.verdict
    && el("span", { class: `word ${cell.verdict}` }, `${SIGNS[cell.verdict]} ${MEANING[cell.verdict]}`);
  return el("div", { class: "head" },
    el("div", {}, el("h2", { id: "details-title" }, cell && table.head !== "after task" ? row.title : titled(setting)),
      el("div", { class: "quiet small" }, where, cell ? `, ${table.title}, ${cell.column} ` : "", verdict)),
    el("button", { type: "button", autofocus: true, onclick: () => dialog.close(), "aria-label": "Close" }, "✕"));
}

function facts(entries) {
  return el("dl", { class: "facts" }, entries.filter(([, value]) => there(value)).map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

function absent({ table, row, cell }) {
  const call = `${table.command} --rows ${row.name} --columns ${cell.column}`;
  return [facts([["published", there(cell.paper) ? publishedText(cell) : null]]), el("h3", {}, "To make its runs"),
    copyable(call, "command")];
}

function body({ table, row, cell, setting, id }) {
  const runs = done(setting), failed = setting.runs.length - runs.length;
  const of = name => runs.map(run => run[name]).filter(there);
  const metric = (label, name) => [label, of(name).length ? percent(mean(of(name))) + spread(of(name)) : null];
  return [
    facts([
      metric("average accuracy", "average_accuracy"),
      ["published", there(cell?.paper) ? publishedText(cell) : null],
      ["agrees within", there(cell?.band) ? `± ${percent(cell.band)}, ${cell.telling ? "telling" : "not telling"}` : null],
      ["against the baseline", cell && !table.published && there(cell.difference)
        ? signed(cell.difference) + (there(cell.p) ? `, ${pText(cell.p)}` : "") : null],
      ["runs", failed ? `${runs.length}, and ${failed} that failed or diverged` : String(runs.length)],
      metric("forgetting", "forgetting"),
      metric("backward transfer", "backward_transfer"),
      metric("forward transfer", "forward_transfer"),
      metric("intransigence", "intransigence"),
      metric("average incremental accuracy", "average_incremental_accuracy"),
      ...setting.metrics.map(({ title, mean, std, n }) =>
        [title, short(mean) + (n > 1 ? ` ± ${short(std)}` : "") + (n < runs.length ? ` (${many(n, "run")})` : "")]),
      ["kept across tasks", bytes(setting.kept)],
      ["steps per run", runs.length ? count(Math.round(mean(of("steps")))) : null],
      ["time per run", runs.length ? duration(mean(of("seconds"))) : null],
    ]),
    [cell?.note, state.open.note].filter(Boolean).map(text => el("p", { class: "small" }, text)),
    setting.scores.length ? el("p", { class: "small" }, "Scores in percent: ",
      setting.scores.map((score, i) => `task ${i + 1} by ${score}`).join(", "), ". Averages are means of these scores.") : null,
    el("h3", {}, "Repeat it"), copyable(setting.command, "command"),
    el("details", {}, el("summary", {}, "Spec"), copyable(JSON.stringify(JSON.parse(setting.spec), null, 1), "spec")),
    runs.length ? runFigures(runs, cell, id, table?.head === "after task" ? Number(row.name) : null) : null,
    el("h3", {}, "Seeds"), seedTable(setting),
    metricFigures(setting),
    classFigures(setting, id),
    cell ? comparisons(table, row, cell) : null,
    cell && table.head !== "after task" ? compareButton(table, row) : null,
    memoryTable(setting),
    samplesOf(id),
    setting.runs.filter(run => run.error).map(run =>
      el("details", {}, el("summary", {}, `Error of seed ${run.seed}`), el("pre", {}, run.error))),
    el("h3", {}, "Environment"), environmentTable(unique(setting.runs.map(run => run.environment))),
  ];
}

// `after`: in tables whose rows are numbers of tasks, a cell is the average over the first tasks.
function runFigures(runs, cell, id, after) {
  const whole = runs.filter(run => run.accuracy?.every(row => row.length));
  const values = after ? whole.map(run => mean(run.accuracy[after - 1])) : runs.map(run => run.average_accuracy);
  const beside = cell && judged(cell) ? cell : null;
  const around = beside ? [["line s6 dash", "published"], ["box zone", "where a mean agrees"]] : [];
  const strip = figure({
    title: after ? `The runs after task ${after}` : "The runs", draw: width => seedStrip(values, beside, width),
    describe: `Average accuracy of ${runs.length} runs: ${values.map(value => percent(value)).join(", ")}.`,
    legend: [["dot f0", "a run"], ["line s7", "their mean"], ...around],
  });
  if (!whole.length) return [strip];
  const box = el("div", {}), seeds = whole.map(run => [String(run.seed), `seed ${run.seed}`]);
  const fill = () => {
    const run = whole.find(found => String(found.seed) === state.pick[`seed ${id}`]);
    const curve = run ? run.curve : whole.find(found => found.curve)?.curve;  // of one run: steps are not averaged
    box.replaceChildren(...matrixFigures(run ? run.accuracy : averaged(whole), curve));
  };
  const pick = picker("Show", `seed ${id}`, [["mean", `mean of ${whole.length} runs`], ...seeds], fill);
  fill();
  return [strip, el("div", { class: "tools" }, pick), box];
}

// Entry by entry, over the runs that have it.
function averaged(runs) {
  const longest = runs.reduce((a, b) => (b.accuracy.length > a.accuracy.length ? b : a)).accuracy;
  return longest.map((row, i) => row.map((_, j) => mean(runs.map(run => run.accuracy[i]?.[j]))));
}

function matrixFigures(matrix, curve) {
  const said = matrix.map((row, i) => `after task ${i + 1}: ${row.map(value => percent(value, 1)).join(", ")}`).join("; ");
  const found = [figure({
    title: "Accuracy matrix", describe: `Percent on each task, ${said}.`, draw: width => heatMap(matrix, width),
    head: ["after task", ...matrix.at(-1).map((_, j) => `task ${j + 1}`)],
    rows: () => matrix.map((row, i) => [String(i + 1), ...row.map(value => percent(value))]),
  })];
  if (matrix.length > 1) {
    const average = matrix.map(row => percent(mean(row), 1)).join(", ");
    found.push(figure({
      title: "Learning and forgetting", draw: width => taskCurves(matrix, width),
      describe: `Average accuracy over the tasks seen: ${average}. By task, ${said}.`,
      legend: [["line s0", "first task"], ["line s4", "last task"], ["line bold dash", "average over the tasks seen"]],
      head: ["after task", "average over the tasks seen"],
      rows: () => matrix.map((row, i) => [String(i + 1), percent(mean(row))]),
    }));
  }
  if (curve) {
    found.push(figure({
      title: "Within tasks", draw: width => stepCurves(curve, width),
      describe: `Accuracy at ${curve.length} moments; at the end ${percent(curve.at(-1)[2])} on the current task, `
        + `${percent(curve.at(-1)[3])} on the first.`,
      legend: [["line s0", "the current task"], ["line s1", "the first task"]],
      head: ["step", "task", "current task", "first task"],
      rows: () => curve.map(([step, task, current, first]) => [count(step), String(task), percent(current), percent(first)]),
    }));
  }
  return found;
}

function seedTable(setting) {
  return plainTable(["seed", "average accuracy", "forgetting", "steps", "time", "status", "key"], setting.runs.map(run => [
    String(run.seed), percent(run.average_accuracy), percent(run.forgetting), count(run.steps), duration(run.seconds),
    run.status + (run.resumed ? ", resumed" : ""), run.key,
  ]));
}

// Takes the row to the section where any two are compared.
function compareButton(table, row) {
  return el("p", {}, el("button", {
    type: "button", onclick: () => {
      dialog.close();
      state.pick.one = rowKey(table.name, row.name);
      render();
      document.getElementById("compare").scrollIntoView();
      focusOn("pick other");
    },
  }, `Compare ${row.title} with any other row`));
}

const SEEN_FROM_HERE = { higher: "this is lower", lower: "this is higher" };

function comparisons(table, row, cell) {
  const tests = table.tests?.[cell.column]?.[row.name];
  if (!tests) return null;
  const title = name => table.rows.find(found => found.name === name)?.title ?? name;
  return [
    el("h3", {}, "Against the other rows of the column"),
    el("p", { class: "quiet small" }, "Mean difference over common seeds; p of a paired permutation test, after ",
      "Holm's correction over these comparisons."),
    plainTable(["row", "this minus that", "pairs", "p", ""], Object.entries(tests).map(([name, test]) => [
      title(name), signed(-test.difference), String(test.n), there(test.p) ? test.p.toPrecision(2) : "–",
      SEEN_FROM_HERE[test.word] ?? test.word,
    ])),
  ];
}

function memoryTable(setting) {
  const parts = Object.entries(setting.memory).flatMap(([part, sizes]) =>
    Object.entries(sizes).filter(([, size]) => size).map(([what, size]) => [what, part, bytes(size)]));
  return parts.length ? [el("h3", {}, "Memory"), plainTable(["what", "kept or working", "size"], parts)] : null;
}

function samplesOf(id) {
  const found = data.samples.filter(sample => sample.setting === id);
  return found.length ? [el("h3", {}, "Samples"), el("div", { class: "pictures" }, found.map(picture))] : null;
}
