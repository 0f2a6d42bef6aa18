// Elements, text and numbers. Text from records becomes text nodes or attribute values, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

const there = value => value !== null && value !== undefined;
const percent = (value, digits = 2) => (there(value) ? value.toFixed(digits).replace("-", "−") : "–");
const signed = (value, digits = 2) => (value > 0 ? "+" : "") + percent(value, digits);
const count = value => (there(value) ? value.toLocaleString("en") : "–");
const whole = value => Number.isInteger(value) && Math.abs(value) < 1e6;
const short = value => (whole(value) ? count(value) : String(Number(value.toPrecision(4))));

const many = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function bytes(value) {
  if (!there(value)) return "–";
  const power = value < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** power;
  return `${power ? Number(scaled.toPrecision(3)) : value} ${["B", "kB", "MB", "GB"][power]}`;
}

function duration(seconds) {
  if (!there(seconds)) return "–";
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  return seconds < 6000 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function mean(values) {
  const found = values.filter(there);
  return found.length ? found.reduce((sum, value) => sum + value, 0) / found.length : null;
}

// The population's, as in papers.
function deviation(values) {
  const found = values.filter(there), middle = mean(found);
  return found.length ? Math.sqrt(mean(found.map(value => (value - middle) ** 2))) : null;
}

const spread = values => (values.length > 1 ? ` ± ${percent(deviation(values))}` : "");
const done = setting => setting.runs.filter(run => run.status === "done" && there(run.average_accuracy));
const unique = values => [...new Set(values)];

// What a setting is called: by its method, and by what tells it from others unless it is the default one.
function titled(setting) {
  if (setting.usual) return setting.title;
  const words = [setting.apart, setting.trial ? "trial" : ""].filter(Boolean).join(", ");
  return words ? `${setting.title} (${words})` : setting.title;
}

// A plain table: numbers to the right, the first column as the head of its row.
function plainTable(head, rows) {
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": head.join(", ") },
    el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, head.map(text => el("th", { scope: "col" }, text)))),
      el("tbody", {}, rows.map(row => el("tr", {},
        row.map((value, i) => (i ? el("td", {}, value) : el("th", { scope: "row" }, value))))))));
}

function copyable(text, label) {
  const code = el("pre", { tabindex: 0, "aria-label": label }, text);
  const button = el("button", { type: "button", onclick: () => copy(text, code, button) }, "Copy");
  return el("div", { class: "copy" }, code, button);
}

async function copy(text, code, button) {
  getSelection().selectAllChildren(code);  // where the clipboard is closed, Ctrl-C takes the selection
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
