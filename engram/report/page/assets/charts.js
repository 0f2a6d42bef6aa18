// Scales, axes and marks, and the charts of runs; each chart is a function of the width that it has.

function ticks(low, high, wanted = 5) {
  const raw = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(times => times * power).find(found => found >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

function decades(low, high, most = 6) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), found = [];
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found.length > 1 ? found : [low, high];
}

const canvasOf = (width, height) => svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
const hint = text => svg("title", {}, text);
const words = (x, y, text, attributes = {}) => svg("text", { class: "tick", x, y, ...attributes }, text);
const path = points => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
const between = (x1, y1, x2, y2, look, text) => svg("line", { class: look, x1, y1, x2, y2 }, text ? hint(text) : null);

const pen = document.createElement("canvas").getContext("2d");

function textWidth(text) {
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// As much of a text as fits.
function fitted(text, width) {
  let shown = text;
  while (textWidth(shown) > width && shown.length > 2) shown = `${shown.slice(0, -2)}…`;
  return shown;
}

function scaled(axis, from, to) {
  const turn = axis.log ? Math.log10 : value => value;
  const low = turn(axis.low), range = turn(axis.high) - low || 1;
  return value => from + ((turn(value) - low) / range) * (to - from);
}

// A plot with axes: `x` and `y` are {low, high, log, ticks, text, label}.
function plot({ width, height, x, y, left = 42, right = 14, top = 8, bottom = 40 }) {
  const floor = height - bottom, edge = width - right, root = canvasOf(width, height);
  const X = scaled(x, left, edge), Y = scaled(y, floor, top);
  for (const value of y.ticks ?? ticks(y.low, y.high)) {
    root.append(between(left, Y(value), edge, Y(value), "grid-line"));
    root.append(words(left - 6, Y(value) + 4, (y.text ?? short)(value), { "text-anchor": "end" }));
  }
  for (const value of x.ticks ?? (x.log ? decades(x.low, x.high, width / 60) : ticks(x.low, x.high, width / 70))) {
    root.append(between(X(value), floor, X(value), floor + 4, "axis"));
    root.append(words(X(value), floor + 16, (x.text ?? short)(value), { "text-anchor": "middle" }));
  }
  root.append(between(left, floor, edge, floor, "axis"));
  if (x.label) root.append(words((left + edge) / 2, height - 6, x.label, { "text-anchor": "middle" }));
  return { root, X, Y, left, right: edge, top, bottom: floor, add: (...parts) => root.append(...parts) };
}

// A dot that opens a setting.
function openingDot(look, x, y, text, id) {
  return svg("circle", {
    class: look, cx: x, cy: y, r: 5, tabindex: 0, role: "button", "aria-label": text, onclick: () => openSetting(id),
    onkeydown: event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      openSetting(id);
    },
  }, hint(text));
}

// Cividis in nine steps: the same order for all kinds of colour vision, and in grey.
const CIVIDIS = [
  [0, 34, 78], [26, 56, 111], [66, 78, 108], [96, 100, 111], [125, 124, 120], [156, 148, 119], [190, 174, 110],
  [225, 201, 93], [254, 232, 56],
];

function cividis(share) {
  const at = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1), i = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return CIVIDIS[i].map((from, k) => Math.round(from + (CIVIDIS[i + 1][k] - from) * (at - i)));
}

function colourScale(width) {
  const steps = [...Array(10).keys()], left = width - 138;
  return [
    words(left - 6, 12, "0", { "text-anchor": "end" }),
    ...steps.map(i => svg("rect", { x: left + 10 * i, y: 3, width: 10, height: 10, fill: `rgb(${cividis(i / 9)})` })),
    words(left + 106, 12, "100"),
  ];
}

// accuracy[i][j] as coloured squares: a row after each task, a column for each task.
function heatMap(matrix, width) {
  const across = Math.max(...matrix.map(row => row.length)), down = matrix.length, once = down === 1;
  const left = 42, top = 22, wide = Math.min((width - left - 2) / across, 52), tall = Math.min(wide, 34);
  const height = top + down * tall + 22, root = canvasOf(width, height), gap = wide > 14 ? 1 : 0;
  root.append(words(0, 12, "after"), words(left, 12, "percent on task"));
  root.append(...colourScale(width));
  matrix.forEach((row, i) => {
    const y = top + i * tall, middle = y + tall / 2 + 4;
    if (i % Math.ceil(14 / tall) === 0) {
      root.append(words(left - 6, middle, once ? "all" : i + 1, { "text-anchor": "end" }));
    }
    row.forEach((value, j) => {
      const [r, g, b] = cividis(value / 100), light = 0.299 * r + 0.587 * g + 0.114 * b > 110;
      root.append(svg("rect", {
        x: left + j * wide, y, width: wide - gap, height: tall - gap, fill: `rgb(${r},${g},${b})`,
      }, hint(`task ${j + 1} after task ${once ? across : i + 1}: ${percent(value)} %`)));
      if (wide >= 34) {
        const look = { class: light ? "on-light" : "on-dark", "text-anchor": "middle", "pointer-events": "none" };
        root.append(words(left + (j + 0.5) * wide - gap / 2, middle, percent(value, 1), look));
      }
    });
  });
  for (let j = 0; j < across; j += Math.ceil(22 / wide)) {
    root.append(words(left + (j + 0.5) * wide, height - 6, j + 1, { "text-anchor": "middle" }));
  }
  return root;
}

// From blue for the first task to amber for the last.
function shade(j, tasks) {
  return `color-mix(in srgb, var(--c4) ${tasks > 1 ? Math.round((100 * j) / (tasks - 1)) : 0}%, var(--c0))`;
}

// Accuracy of each task after each task, and their average.
function taskCurves(matrix, width) {
  const tasks = matrix.length, lowest = Math.min(...matrix.flat().filter(there));
  const whole = ticks(1, tasks, Math.min(tasks - 1, width / 45)).filter(Number.isInteger);
  const axes = plot({
    width, height: 250, x: { low: 1, high: tasks, label: "after task", ticks: whole },
    y: { low: lowest > 60 ? Math.floor(lowest / 10) * 10 : 0, high: 100 },
  });
  for (let j = 0; j < tasks; j++) {
    const points = matrix.slice(j).filter(row => there(row[j])).map((row, k) => [axes.X(j + k + 1), axes.Y(row[j])]);
    axes.add(svg("path", { class: "line thin", d: path(points), stroke: shade(j, tasks) }, hint(`task ${j + 1}`)));
    if (tasks > 20) continue;
    points.forEach(([cx, cy], k) => axes.add(svg("circle", { cx, cy, r: 3, fill: shade(j, tasks) },
      hint(`task ${j + 1} after task ${j + k + 1}: ${percent(matrix[j + k][j])} %`))));
  }
  const average = path(matrix.map((row, i) => [axes.X(i + 1), axes.Y(mean(row))]));
  axes.add(svg("path", { class: "line bold dash", d: average }, hint("average over the tasks seen")));
  return axes.root;
}

// Within tasks: the current task and the first, step by step. An entry is [step, task, current, first].
function stepCurves(curve, width) {
  const x = { low: 0, high: curve.at(-1)[0], label: "step" };
  const axes = plot({ width, height: 220, x, y: { low: 0, high: 100 }, right: 24 });
  curve.forEach((at, i) => {
    if (i && at[1] !== curve[i - 1][1]) axes.add(between(axes.X(at[0]), axes.top, axes.X(at[0]), axes.bottom, "grid-line"));
  });
  for (const [index, name, look] of [[2, "the current task", "s0"], [3, "the first task", "s1"]]) {
    const points = curve.filter(at => there(at[index])).map(at => [axes.X(at[0]), axes.Y(at[index])]);
    axes.add(svg("path", { class: `line thin ${look}`, d: path(points) }, hint(name)));
  }
  return axes.root;
}

// The runs of a cell as dots, beside the published number and the band around it.
function seedStrip(values, cell, width) {
  const band = cell ? [cell.paper - cell.band, cell.paper + cell.band] : [];
  const low = Math.min(...values, ...band), high = Math.max(...values, ...band), pad = (high - low || 1) * 0.08;
  const x = { low: low - pad, high: high + pad, label: "average accuracy, percent" };
  const axes = plot({ width, height: 84, left: 14, top: 6, bottom: 38, x, y: { low: 0, high: 1, ticks: [] } });
  if (cell) {
    const from = axes.X(band[0]), wide = axes.X(band[1]) - from, at = axes.X(cell.paper);
    axes.add(svg("rect", { class: "zone", x: from, width: wide, y: axes.top, height: axes.bottom - axes.top },
      hint(`a mean of these runs agrees between ${percent(band[0])} and ${percent(band[1])}`)));
    axes.add(between(at, axes.top, at, axes.bottom, "line s6 dash", `published: ${percent(cell.paper)}`));
  }
  const middle = axes.X(mean(values));
  axes.add(between(middle, axes.top + 6, middle, axes.bottom - 6, "line s7", `mean: ${percent(mean(values))}`));
  values.forEach((value, i) => {
    const cy = axes.Y(0.28 + 0.44 * ((i * 0.618) % 1));  // spread, so that equal runs are both seen
    axes.add(svg("circle", { class: "f0", "fill-opacity": 0.75, cx: axes.X(value), cy, r: 4.5 }, hint(percent(value))));
  });
  return axes.root;
}
