// What a search spent on each method, and what it found.

function tuningSection() {
  const name = one => `${one.scenario}, selected on ${one.selected_on}`;
  return [
    el("p", { class: "quiet" }, "Every method of a search gets the same number of trials; the best values are then run ",
      "on all training data and reported. A look at test data is a run that was scored on it."),
    unique(data.tuning.map(name)).map(found => search(found, data.tuning.filter(one => name(one) === found))),
  ];
}

function search(name, methods) {
  const bars = (title, what, text) => barFigure(`${title}, ${methods[0].scenario}`, methods.map(one => ({
    name: one.method,
    parts: [
      { name: "trials", value: one.trials[what], look: "f0" }, { name: "reported runs", value: one.finals[what], look: "f5" },
    ],
  })), text, [["box f0", "trials"], ["box f5", "reported runs"]]);
  const point = values => Object.entries(values).map(([field, value]) => `${field} ${value}`).join(", ");
  const head = ["method", "best values", "best", "median", "worst", "unfinished", "reported", "runs"];
  return el("div", { class: "card" }, el("h3", {}, name),
    plainTable(head, methods.map(one => [
      one.method, point(one.point), percent(one.best), percent(one.median), percent(one.worst), String(one.unfinished),
      there(one.final) ? `${percent(one.final)} ± ${percent(one.final_std)}` : "–", String(one.n),
    ])),
    el("div", { class: "two" }, bars("Gradient steps", "steps", count),
      bars("Seconds", "seconds", value => count(Math.round(value))),
      bars("Runs", "runs", count), bars("Looks at test data", "looks", count)));
}
