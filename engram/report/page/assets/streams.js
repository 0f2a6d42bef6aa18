// Drift along streams: how far the inputs and the labels of each task are from the first task and from the task before.

function streamsSection() {
  const box = el("div", { class: "card" });
  const draw = () => {
    const stream = data.streams.find(found => found.scenario === state.pick.stream);
    const panel = (what, name, unit) => driftFigure(stream, what, name, unit);
    box.replaceChildren(...[
      el("h3", {}, `${stream.scenario}: ${stream.kind}`),
      el("p", { class: "quiet small" }, stream.reasons.map(([name, reason]) => (name === "repetition" ? `${reason}.` : `${name} ${reason}.`)).join(" ")),
      el("div", { class: "two" }, panel("x", "P(X)", "energy distance, input units"),
        panel("y", "P(Y)", "total variation distance")),
      stream.tasks.length ? classMap(stream) : null,
    ].filter(Boolean));
  };
  const pick = picker("Scenario", "stream", data.streams.map(({ scenario }) => [scenario, scenario]), draw);
  draw();
  return [
    el("p", { class: "quiet" }, "What changes along a stream, measured on its training data by ",
      el("code", { class: "whole" }, "engram describe SCENARIO --json"), ": distances between inputs and between label frequencies."),
    el("div", { class: "tools" }, pick), box,
  ];
}

function driftFigure(stream, what, name, unit) {
  const first = stream[what], before = stream[`${what}_before`], differs = stream[`${what}_differs`];
  const part = stream.stretches ? "stretch" : "task", high = Math.max(...first, ...before, what === "y" ? 1 : 0);
  const draw = width => {
    const whole = ticks(1, first.length, Math.min(first.length - 1, width / 45)).filter(Number.isInteger);
    const x = { low: 1, high: first.length, ticks: whole, label: part };
    const axes = plot({ width, height: 220, x, y: { low: Math.min(0, ...first, ...before), high: high * 1.05 || 1 }, right: 20 });
    const at = (value, i) => [axes.X(i + 1), axes.Y(value)];
    axes.add(svg("path", { class: "line s0", d: path(first.map(at)) }, hint("from the first")));
    axes.add(svg("path", { class: "line dash s1", d: path(before.map((value, i) => at(value, i + 1))) }, hint("from the one before")));
    first.forEach((value, i) => axes.add(svg("circle", { class: "f0", cx: at(value, i)[0], cy: at(value, i)[1], r: 3 },
      hint(`${part} ${i + 1}: ${short(value)} from the first`))));
    before.forEach((value, i) => axes.add(svg("circle", {
      class: differs[i] ? "f1" : "ring s1", cx: at(value, i + 1)[0], cy: at(value, i + 1)[1], r: 4,
    }, hint(`${part} ${i + 2}: ${short(value)} from the one before${differs[i] ? ", differs" : ""}`))));
    return axes.root;
  };
  const changes = differs.filter(Boolean).length;
  return figure({
    title: `${name}: ${unit}`, draw,
    describe: `From the first ${part} to the last: ${short(first.at(-1))}. ${changes} of ${differs.length} neighbours differ.`,
    legend: [["line s0", `from the first ${part}`], ["line s1 dash", "from the one before"], ["dot f1", "differs"], ["ring s1", "does not"]],
    head: [part, "from the first", "from the one before", "differs"],
    rows: () => first.map((value, i) => [String(i + 1), short(value), i ? short(before[i - 1]) : "–",
      i ? (differs[i - 1] ? "yes" : "no") : "–"]),
  });
}

// Which classes each task has.
function classMap(stream) {
  const { tasks } = stream, names = unique(tasks.flatMap(task => task.classes));
  const draw = width => {
    const left = Math.min(Math.max(...names.map(textWidth)) + 10, width * 0.35), pitch = 18;
    const wide = Math.min((width - left - 4) / tasks.length, 44), root = canvasOf(width, names.length * pitch + 40);
    names.forEach((name, i) => {
      root.append(words(left - 6, i * pitch + 13, fitted(name, left - 8), { "text-anchor": "end" }));
      tasks.forEach((task, j) => root.append(svg("rect", {
        class: task.classes.includes(name) ? "f0" : "blank", x: left + j * wide, y: i * pitch, width: wide - 1, height: pitch - 1,
      }, hint(`task ${j + 1}, class ${name}: ${task.classes.includes(name) ? "yes" : "no"}`))));
    });
    for (let j = 0; j < tasks.length; j += Math.ceil(22 / wide)) {
      root.append(words(left + (j + 0.5) * wide, names.length * pitch + 14, j + 1, { "text-anchor": "middle" }));
    }
    root.append(words(left + (tasks.length * wide) / 2, names.length * pitch + 32, "task", { "text-anchor": "middle" }));
    return root;
  };
  return figure({
    title: "Classes of each task", draw,
    describe: `${names.length} classes in ${many(tasks.length, "task")}: ${tasks.map(task => task.classes.join(" ")).join("; ")}.`,
    head: ["task", "classes", "training samples"],
    rows: () => tasks.map((task, j) => [String(j + 1), task.classes.join(", "), count(task.train)]),
  });
}
