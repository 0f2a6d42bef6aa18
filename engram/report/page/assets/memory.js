// What methods keep, and what they score with it.

const FAMILY = {
  plain: 6, penalty: 0, distillation: 4, rehearsal: 1, "gradient memory": 3, generative: 2, offline: 7, "own or combined": 5,
  structural: 8, "frozen features": 9,
};

const finished = () => Object.entries(data.settings).filter(([, setting]) => there(setting.mean) && !setting.trial);

function memorySection() {
  const scenarios = unique(finished().map(([, setting]) => setting.scenario));
  const box = el("div", { class: "card" });
  const draw = () => {
    const here = finished().filter(([, setting]) => setting.scenario === state.pick.memory);
    box.replaceChildren(...[accuracyAgainstBytes(here), memoryLedger(here)].filter(Boolean));
  };
  state.pick.memory ??= scenarios.find(name => name.endsWith("/class"));
  const pick = picker("Scenario", "memory", scenarios.map(name => [name, name]), draw);
  draw();
  return [
    el("p", { class: "quiet" }, "What a method keeps across tasks beyond the network and its optimiser, and what it ",
      "scores with that. Settings of one method are joined by a line."),
    el("div", { class: "tools" }, pick), box,
  ];
}

function accuracyAgainstBytes(here) {
  const bounds = here.filter(([, setting]) => setting.method === "offline");
  const points = here.filter(([, setting]) => setting.method !== "offline");
  if (!points.length) return null;
  const kept = points.map(([, setting]) => setting.kept).filter(value => value > 0);
  const low = 10 ** Math.floor(Math.log10(Math.min(...kept, 1e6)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...kept, 1e6)) + 0.02), zero = low / 4;
  const x = {
    log: true, low: zero / 1.8, high, ticks: [zero, ...decades(low, high)], label: "bytes kept across tasks",
    text: value => (value === zero ? "0" : bytes(value)),
  };
  const draw = width => {
    const height = Math.min(420, Math.max(300, width * 0.5));
    const axes = plot({ width, height, right: 24, x, y: { low: 0, high: 100 } });
    const at = ([, setting]) => [axes.X(setting.kept > 0 ? setting.kept : zero), axes.Y(setting.mean)], placed = [];
    for (const [, setting] of bounds) {
      const y = axes.Y(setting.mean);
      axes.add(between(axes.left, y, axes.right, y, "line thin s7 dash", `${titled(setting)}: ${percent(setting.mean)}`));
      placed.push([axes.left, y - 2, axes.right, y + 2]);
    }
    for (const method of unique(points.map(([, setting]) => setting.method))) {
      const same = points.filter(([, setting]) => setting.method === method && setting.kept > 0);
      same.sort((a, b) => a[1].kept - b[1].kept);
      const look = `line thin s${FAMILY[same[0]?.[1].family]}`;
      if (same.length > 1) axes.add(svg("path", { class: look, d: path(same.map(at)) }));
    }
    for (const point of points) {
      const [px, py] = at(point), [id, setting] = point;
      const text = `${titled(setting)}: ${percent(setting.mean)} with ${bytes(setting.kept)}`;
      axes.add(openingDot(`f${FAMILY[setting.family]}`, px, py, text, id));
      placed.push([px - 6, py - 6, px + 6, py + 6]);
    }
    const alone = setting => points.every(([, other]) => other === setting || other.method !== setting.method);
    const name = setting => (alone(setting) || setting.usual ? titled(setting) : setting.apart);
    for (const { x, y, names } of clusters(points.map(point => [...at(point), name(point[1])]))) {
      labelBeside(axes, placed, x, y, fitted(names.join(", "), Math.min(width * 0.45, 190)));
    }
    return axes.root;
  };
  const families = unique(points.map(([, setting]) => setting.family));
  return figure({
    title: `Accuracy against kept bytes, ${state.pick.memory}`, draw,
    describe: `${points.map(([, s]) => `${titled(s)} ${percent(s.mean)} percent with ${bytes(s.kept)}`).join("; ")}.`,
    legend: [...families.map(family => [`dot f${FAMILY[family]}`, family]), ...bounds.map(() => ["line s7 dash", "offline"])],
    head: ["setting", "kept", "average accuracy", "runs"],
    rows: () => here.map(([, s]) => [titled(s), bytes(s.kept), percent(s.mean), String(done(s).length)]),
  });
}

// Points that lie on each other share a label.
function clusters(points) {
  const found = [];
  for (const [x, y, name] of points) {
    const near = found.find(other => Math.abs(other.x - x) < 8 && Math.abs(other.y - y) < 7);
    if (near) near.names.push(name);
    else found.push({ x, y, names: [name] });
  }
  return found;
}

// Beside its point where there is room, else nowhere: the name is under the pointer and in the numbers.
function labelBeside(axes, placed, x, y, text) {
  const wide = textWidth(text);
  const places = [[9, 4, 0], [-9, 4, 1], [0, -10, 0.5], [0, 18, 0.5], [9, -8, 0], [9, 16, 0], [-9, -8, 1], [-9, 16, 1]];
  for (const [right, down, share] of places) {
    const from = x + right - share * wide, base = y + down, box = [from, base - 11, from + wide, base + 3];
    const inside = box[0] > axes.left && box[2] < axes.right + 20 && box[1] > 0 && box[3] < axes.bottom;
    const free = placed.every(o => box[0] > o[2] || box[2] < o[0] || box[1] > o[3] || box[3] < o[1]);
    if (inside && free) {
      placed.push(box);
      axes.add(svg("text", { class: "halo", x: from, y: base, "pointer-events": "none" }, text));
      return;
    }
  }
}

function memoryLedger(here) {
  const sizes = setting => ["kept", "working"].flatMap(part =>
    Object.entries(setting.memory[part] ?? {}).filter(([, size]) => size > 0).map(([what, size]) => [part, what, size]));
  const rows = here.filter(([, setting]) => sizes(setting).length).map(([, setting]) => setting);
  if (!rows.length) return null;
  const all = rows.flatMap(sizes), most = Math.max(...all.map(([, , size]) => size));
  const parts = unique(all.filter(([, , size]) => size >= most / 200).map(([, what]) => what)).slice(0, 7);
  const look = what => `f${parts.includes(what) ? parts.indexOf(what) : 7}`;
  const bars = rows.map(setting => ({
    name: titled(setting),
    parts: sizes(setting).map(([part, what, value]) => ({
      name: `${what}, ${part}`, value, look: look(what) + (part === "working" ? " faint" : ""),
    })),
  }));
  return barFigure(`Memory ledger, ${state.pick.memory}`, bars, bytes, [
    ...parts.map(what => [`box ${look(what)}`, what]), ["box f7", "other"], ["box f6 faint", "lighter: working, not kept"],
  ]);
}

// `bars`: [{name, parts: [{name, value, look}]}], stacked from left to right; the axis ends at `least` or beyond.
function barFigure(title, bars, text, legend, least = 1) {
  const flat = bars.flatMap(bar => bar.parts.map(part => [bar.name, part.name, text(part.value)]));
  const most = Math.max(...bars.map(bar => bar.parts.reduce((sum, part) => sum + part.value, 0)), least);
  const draw = width => {
    const pitch = 26, left = Math.min(230, width * 0.36), height = 4 + bars.length * pitch + 26;
    const x = { low: 0, high: most, text, ticks: ticks(0, most, Math.max(2, width / 200)) };
    const axes = plot({ width, height, left, top: 4, right: 66, bottom: 26, x, y: { low: 0, high: 1, ticks: [] } });
    bars.forEach((bar, i) => {
      const y = 8 + i * pitch;
      let from = 0;
      axes.add(svg("text", { x: left - 8, y: y + 13, "text-anchor": "end" }, fitted(bar.name, left - 10), hint(bar.name)));
      for (const part of bar.parts) {
        const wide = Math.max(axes.X(from + part.value) - axes.X(from), part.value > 0 ? 1 : 0);
        axes.add(svg("rect", { class: part.look, x: axes.X(from), y, height: pitch - 9, width: wide },
          hint(`${bar.name}, ${part.name}: ${text(part.value)}`)));
        from += part.value;
      }
      axes.add(words(axes.X(from) + 6, y + 13, text(from)));
    });
    return axes.root;
  };
  return figure({
    title, draw, describe: `${flat.map(row => row.join(" ")).join("; ")}.`, legend, head: ["setting", "part", "size"],
    rows: () => flat,
  });
}
