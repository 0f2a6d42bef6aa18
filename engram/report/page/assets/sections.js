// Other parts of the page: runs outside the tables, claims, sensitivity, samples, environment.

function ownSection() {
  const box = el("div", { class: "card" });
  const heads = ["setting", "scenario", "accuracy", "forgetting", "kept", "steps", "time", "runs"];
  const draw = () => {
    const chosen = data.own.filter(id => {
      const setting = data.settings[id];
      return matches("own", titled(setting), setting.method, setting.scenario);
    });
    const caption = many(chosen.length, "setting");
    box.replaceChildren(grid(state.pick.own === "table" ? ownTable(chosen, caption) : {
      id: "own", caption, columns: heads.map(title => ({ title, left: title === "setting" || title === "scenario" })),
      rows: chosen.map(ownRow),
    }));
  };
  const shape = picker("as", "own", [["list", "a list"], ["table", "a table by scenario"]], draw);
  redraws.push(draw);
  draw();
  return [
    el("p", { class: "quiet" }, "Settings that are in none of the tables: other values, other scenarios, ",
      "methods of your own."),
    el("div", { class: "tools" }, searchField("Filter runs", "own", draw), shape), box,
  ];
}

// A row per name, a column per scenario: average accuracy.
function ownTable(chosen, caption) {
  const scenarios = unique(chosen.map(id => data.settings[id].scenario)), rows = new Map();
  for (const id of chosen) {
    const name = titled(data.settings[id]);
    rows.set(name, { ...rows.get(name), [data.settings[id].scenario]: id });
  }
  const cell = (name, scenario, id) => {
    if (!id) return { look: "cell missing", content: "–", label: `${name}, ${scenario}: no runs` };
    const { mean, std, values } = data.settings[id], n = values.of.length;
    const text = there(mean) ? percent(mean) + (n > 1 ? ` ± ${percent(std)}` : "") : data.settings[id].runs[0].status;
    return {
      sort: mean, look: "cell", label: `${name}, ${scenario}: ${text}, ${many(n, "run")}`, open: () => openSetting(id),
      content: [el("span", { class: "ours" }, text), el("span", { class: "below" }, `n = ${n}`)],
    };
  };
  return {
    id: "own", caption, columns: ["setting", ...scenarios].map(title => ({ title })),
    rows: [...rows].map(([name, by]) => ({
      id: name, head: name, sort: name, cells: scenarios.map(scenario => cell(name, scenario, by[scenario])),
    })),
  };
}

function ownRow(id) {
  const setting = data.settings[id], runs = done(setting), of = name => mean(runs.map(run => run[name]));
  const name = titled(setting), failed = setting.runs.length - runs.length;
  const cell = (sort, content, look) => ({ sort, content, look, open: () => openSetting(id), label: `${name}: ${content}` });
  const accuracies = runs.map(run => run.average_accuracy);
  return {
    id, head: name, sort: name,
    cells: [
      cell(setting.scenario, setting.scenario, "left"),
      cell(setting.mean, runs.length ? percent(setting.mean) + spread(accuracies) : setting.runs[0].status),
      cell(of("forgetting"), percent(of("forgetting"))),
      cell(setting.kept, bytes(setting.kept)),
      cell(of("steps"), runs.length ? count(Math.round(of("steps"))) : "–"),
      cell(of("seconds"), duration(of("seconds"))),
      cell(setting.runs.length, failed ? `${runs.length}, ${failed} failed` : String(runs.length)),
    ],
  };
}

function sensitivitySection() {
  const scenarios = unique(data.sensitivities.map(curve => curve.scenario)), box = el("div", { class: "several" });
  const draw = () => box.replaceChildren(...data.sensitivities.filter(curve => curve.scenario === state.pick.sensitivity)
    .map(curve => el("div", { class: "card" }, sensitivity(curve))));
  const number = name => data.sensitivities.filter(curve => curve.scenario === name).length;
  state.pick.sensitivity ??= [...scenarios].sort((a, b) => number(b) - number(a))[0];
  const pick = picker("Scenario", "sensitivity", scenarios.map(name => [name, name]), draw);
  draw();
  return [
    el("p", { class: "quiet" }, "Settings that differ in one value only: average accuracy against that value; ",
      "bars are one standard deviation, a filled dot is the default setting."),
    el("div", { class: "tools" }, pick), box,
  ];
}

function sensitivity(curve) {
  const points = curve.points.map(([value, id]) => ({ value, id, setting: data.settings[id] }));
  const first = points[0].value, last = points.at(-1).value, least = points.find(point => point.value > 0)?.value ?? last;
  const log = least < last && first >= 0 && last / least >= 8, zero = least / (last / least) ** 0.2;
  const low = first > 0 ? least : zero, pad = (last - first) * 0.05;
  const x = log
    ? { log, low: low / 1.3, high: last * 1.3, ticks: first > 0 ? undefined : [zero, ...decades(least, last, 4)] }
    : { low: first - pad, high: last + pad };
  const draw = width => {
    const text = value => (value === zero && first === 0 ? "0" : short(value));
    const axes = plot({ width, height: 210, right: 20, x: { ...x, text, label: curve.field }, y: { low: 0, high: 100 } });
    const at = ({ value, setting }) => [axes.X(log && value === 0 ? zero : value), axes.Y(setting.mean)];
    const look = FAMILY[points[0].setting.family];
    axes.add(svg("path", { class: `line s${look}`, d: path(points.map(at)) }));
    for (const point of points) {
      const { value, id, setting } = point, [px, py] = at(point), away = setting.std;
      const [top, bottom] = [Math.min(100, setting.mean + away), Math.max(0, setting.mean - away)].map(axes.Y);
      axes.add(between(px, top, px, bottom, `line thin s${look}`));
      const said = `${curve.field} ${value}: ${percent(setting.mean)} of ${done(setting).length} runs`;
      axes.add(openingDot(setting.usual ? `f${look}` : `ring s${look}`, px, py, said, id));
    }
    return axes.root;
  };
  const names = [points[0].setting.title, curve.field, curve.apart, points[0].setting.trial && "trials"];
  const said = points.map(({ value, setting }) => `${short(value)}: ${percent(setting.mean)}`).join("; ");
  return figure({
    title: names.filter(Boolean).join(", "), draw, describe: `Average accuracy: ${said}.`,
    head: [curve.field, "average accuracy", "standard deviation", "runs"],
    rows: () => points.map(({ value, setting }) =>
      [String(value), percent(setting.mean), percent(setting.std), String(done(setting).length)]),
  });
}

const OUTCOMES = { holds: "agrees", fails: "lower" };
const outcome = word => el("span", { class: `word ${OUTCOMES[word] ?? "missing"}` }, word);

function claimsSection() {
  const side = ({ outcome: word, counts }) =>
    el("td", { class: "left" }, outcome(word), el("div", { class: "quiet small" }, counts));
  const parts = claim => el("details", {}, el("summary", {}, many(claim.parts.length, "comparison")),
    el("ul", { class: "parts small" }, claim.parts.map(([text, isPublished, published, isOurs, ours]) => el("li", {}, text,
      el("div", {}, el("span", { class: `word ${OUTCOMES[isPublished] ?? "missing"}` }, "published"), ` ${published}`),
      el("div", {}, el("span", { class: `word ${OUTCOMES[isOurs] ?? "missing"}` }, "ours"), ` ${ours}`)))));
  const head = () => ["claim", "published", "our runs"].map(text => el("th", { scope: "col", class: "left" }, text));
  return [
    el("p", { class: "quiet" }, "What a paper concludes, tested on its published numbers and on our runs. Below ",
      "each outcome: comparisons that hold / fail / are undecided."),
    shownClaims().map(paper => el("div", { class: "card" }, el("div", { class: "scroll" }, el("table", { class: "claims" },
      el("caption", {}, `What ${paper.paper} concludes`), el("thead", {}, el("tr", {}, head())),
      el("tbody", {}, paper.claims.map(claim => el("tr", {},
        el("th", { scope: "row", class: "wrap" }, `${claim.number}. ${claim.text}`, parts(claim),
          claim.notes.length ? el("div", { class: "quiet small" }, `Ours: ${claim.notes.join("; ")}.`) : null),
        side(claim.print), side(claim.ours)))))),
    el("p", { class: "quiet small" }, paper.how))),
  ];
}

function picture(sample) {
  const setting = data.settings[sample.setting], safe = sample.uri.startsWith("data:image/png;base64,");
  const run = setting && `${titled(setting)}, ${setting.scenario}, seed ${sample.seed}, after task ${sample.task}`;
  const text = run ?? sample.name;
  return el("figure", {}, safe ? el("img", { src: sample.uri, alt: `Samples: ${text}` }) : null,
    el("figcaption", { class: "small quiet" }, text));
}

function samplesSection() {
  return [
    el("p", { class: "quiet" }, "What generative methods draw of the tasks that they have seen."),
    el("div", { class: "card pictures" }, data.samples.map(picture)),
  ];
}

function environmentTable(indices) {
  const runs = Object.values(data.settings).flatMap(setting => setting.runs);
  const names = unique(indices.flatMap(i => Object.keys(data.environments[i])));
  const text = (name, value) => {
    if (!there(value)) return "–";
    if (typeof value === "object") return Object.entries(value).map(pair => pair.join(" ")).join(", ");
    return name === "commit" ? String(value).slice(0, 12) : String(value);
  };
  return plainTable(["", ...indices.map(i => many(runs.filter(run => run.environment === i).length, "run"))],
    names.map(name => [name, ...indices.map(i => text(name, data.environments[i][name]))]));
}

function environmentSection() {
  return [
    el("p", { class: "quiet" }, "What made the records: code, versions, machine, and the content of the datasets."),
    el("div", { class: "card" }, environmentTable([...data.environments.keys()])),
  ];
}
