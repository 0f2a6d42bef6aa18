// Classes of a setting: what each was taken for at the end, and its accuracy, over all runs that were asked for it.

function classFigures(setting, id) {
  const { matrices, most } = setting.classes;
  if (!matrices?.length) return null;
  const box = el("div", {}), names = matrices.map(one => (one.task ? `task ${one.task}` : "all tasks"));
  const draw = () => {
    const one = matrices[Math.max(0, names.indexOf(state.pick[`classes ${id}`]))], where = names[matrices.indexOf(one)];
    box.replaceChildren(...(one.predicted.length ? [confusionFigure(one, where)] : [el("p", { class: "small" },
      `More than ${most} classes were predicted: accuracy per class alone is shown.`)]), classBars(one, where));
  };
  const pick = picker("Show", `classes ${id}`, names.map(name => [name, name]), draw);
  draw();
  return [el("h3", {}, "Classes"), el("p", { class: "quiet small" }, "At the end, over all runs that measured it: a row per ",
    "right class, with the percentages of what it was taken for."), el("div", { class: "tools" }, pick), box];
}

function confusionFigure({ predicted, rows }, where) {
  const draw = width => {
    const names = rows.map(row => row.right), longest = Math.max(...names.map(textWidth), ...predicted.map(textWidth));
    const left = Math.min(longest + 26, width * 0.34), wide = Math.min((width - left - 2) / predicted.length, 52);
    const tall = Math.max(16, Math.min(wide, 30)), slanted = Math.max(...predicted.map(textWidth)) > wide - 4;
    const below = slanted ? Math.min(longest, 90) + 12 : 20, top = 22, root = canvasOf(width, top + rows.length * tall + below + 18);
    root.append(words(0, 12, "right"), ...colourScale(width));
    rows.forEach((row, i) => {
      const y = top + i * tall;
      root.append(words(left - 6, y + tall / 2 + 4, fitted(row.right, left - 10), { "text-anchor": "end" }));
      row.shares.forEach((share, j) => {
        const [r, g, b] = cividis(share / 100), light = 0.299 * r + 0.587 * g + 0.114 * b > 110;
        root.append(svg("rect", { x: left + j * wide, y, width: wide - 1, height: tall - 1, fill: `rgb(${r},${g},${b})` },
          hint(`${row.right} taken for ${predicted[j]}: ${percent(share)} %`)));
        if (wide >= 30 && share > 0) {
          root.append(words(left + (j + 0.5) * wide, y + tall / 2 + 4, percent(share, share < 99.95 ? 1 : 0),
            { class: light ? "on-light" : "on-dark", "text-anchor": "middle", "pointer-events": "none" }));
        }
      });
    });
    const floor = top + rows.length * tall;
    predicted.forEach((name, j) => {
      const x = left + (j + 0.5) * wide;
      const turn = slanted ? { "text-anchor": "end", transform: `rotate(-60 ${x} ${floor + 12})` } : { "text-anchor": "middle" };
      root.append(words(x, floor + (slanted ? 12 : 14), fitted(name, 90), turn));
    });
    root.append(words(left + (predicted.length * wide) / 2, floor + below + 14, "predicted", { "text-anchor": "middle" }));
    return root;
  };
  const worst = rows.flatMap(row => row.shares.map((share, j) => [share, row.right, predicted[j]]))
    .filter(([, right, guess]) => right !== guess).sort((a, b) => b[0] - a[0])[0];
  const said = worst?.[0] ? ` Most often wrong: ${percent(worst[0], 1)} % of ${worst[1]} taken for ${worst[2]}.` : "";
  return figure({
    title: `Confusion matrix, ${where}`, draw,
    describe: `${rows.length} right classes, ${predicted.length} predicted.${said}`,
    head: ["right", "samples", ...predicted.map(name => `as ${name}`)],
    rows: () => rows.map(row => [row.right, count(row.n), ...row.shares.map(share => percent(share, 1))]),
  });
}

function classBars({ rows }, where) {
  return barFigure(`Accuracy per class, ${where}`, rows.map(row =>
    ({ name: row.right, parts: [{ name: "accuracy", value: row.accuracy, look: "f0" }] })), value => `${percent(value, 1)} %`, null, 100);
}

// Metrics on logits along the tasks: after each task, the mean over the tasks seen.
function metricFigures(setting) {
  return setting.metrics.filter(metric => metric.along.length > 1).map(({ title, along }) => {
    const low = Math.min(0, ...along), high = Math.max(...along, low + 1e-9);
    const draw = width => {
      const whole = ticks(1, along.length, Math.min(along.length - 1, width / 45)).filter(Number.isInteger);
      const x = { low: 1, high: along.length, label: "after task", ticks: whole };
      const axes = plot({ width, height: 180, x, y: { low, high: high + (high - low) * 0.05 } });
      axes.add(svg("path", { class: "line s0", d: path(along.map((value, i) => [axes.X(i + 1), axes.Y(value)])) }));
      along.forEach((value, i) => axes.add(svg("circle", { class: "f0", cx: axes.X(i + 1), cy: axes.Y(value), r: 3.5 },
        hint(`after task ${i + 1}: ${short(value)}`))));
      return axes.root;
    };
    return figure({
      title: `${title}, over the tasks seen`, draw,
      describe: `After each task: ${along.map(short).join(", ")}.`,
      head: ["after task", title], rows: () => along.map((value, i) => [String(i + 1), short(value)]),
    });
  });
}
