// Figures: a chart with its title, its words for those who do not see it, its numbers, and a button that saves it.

const drawers = new WeakMap();
const watcher = new ResizeObserver(entries => {
  for (const { target, contentRect } of entries) {
    const drawer = drawers.get(target);
    if (drawer && Math.abs(drawer.width - contentRect.width) >= 1) drawer.draw(contentRect.width);
  }
});

// `draw(width)` gives an SVG; `describe` says what it shows; `head` and `rows()` are its numbers as a table.
function figure({ title, describe, draw, head, rows, legend }) {
  const canvas = el("div", { class: "canvas" });
  const drawer = {
    width: 0,
    draw(width) {
      drawer.width = width;
      if (width < 40) return;
      const root = draw(Math.floor(width));
      const focusable = root.querySelector("[tabindex]");  // an image has no parts for those who listen
      filled(root, { role: focusable ? "group" : "img", "aria-label": `${title}. ${describe}` }, []);
      root.prepend(svg("desc", {}, describe));
      canvas.replaceChildren(root);
    },
  };
  drawers.set(canvas, drawer);
  watcher.observe(canvas);
  const save = el("button", {
    type: "button", class: "plain", "aria-label": `Save as SVG: ${title}`,
    onclick: () => saveSvg(canvas.querySelector("svg"), title),
  }, "Save SVG");
  const numbers = el("details", {
    ontoggle: () => {
      if (numbers.open && numbers.childElementCount === 1) numbers.append(plainTable(head, rows()));
    },
  }, el("summary", {}, "Numbers"));
  return el("figure", {}, el("figcaption", {}, el("b", {}, title), save), legend ? legendOf(legend) : null, canvas,
    rows ? numbers : null);
}

const MARKS = {
  dot: look => svg("circle", { cx: 9, cy: 5.5, r: 4.5, class: look }),
  ring: look => svg("circle", { cx: 9, cy: 5.5, r: 4, class: `ring ${look}` }),
  line: look => svg("line", { x1: 0, x2: 18, y1: 5.5, y2: 5.5, class: `line ${look}` }),
  box: look => svg("rect", { x: 2, y: 0, width: 14, height: 11, class: look }),
};

// `entries`: ["dot f0", "what it stands for"].
function legendOf(entries) {
  return el("ul", { class: "legend" }, entries.map(([look, text]) => {
    const [mark, ...classes] = look.split(" ");
    return el("li", {}, svg("svg", { width: 18, height: 11, "aria-hidden": "true" }, MARKS[mark](classes.join(" "))), text);
  }));
}

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "fill-opacity", "opacity",
  "paint-order", "font-family", "font-size", "font-weight"];
// What the style sheet gives to parts of a drawing is written into the parts, so that the file stands alone.
function saveSvg(shown, title) {
  const page = document.documentElement, theme = page.dataset.theme;
  page.dataset.theme = "light";  // files go into papers
  const copied = shown.cloneNode(true), from = [...shown.querySelectorAll("*")], to = [...copied.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of STYLED) to[i].setAttribute(name, plainColour(style.getPropertyValue(name)));
    for (const name of ["class", "tabindex", "role"]) to[i].removeAttribute(name);
  });
  copied.prepend(svg("rect", { width: "100%", height: "100%", fill: "#ffffff" }));
  page.dataset.theme = theme;
  const text = new XMLSerializer().serializeToString(copied), name = title.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  el("a", { href: address, download: `${name}.svg` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// Mixed colours as every program reads them.
function plainColour(value) {
  const mixed = /^color\(srgb ([\d.]+) ([\d.]+) ([\d.]+)/.exec(value);
  return mixed ? `rgb(${mixed.slice(1).map(part => Math.round(255 * part)).join(",")})` : value;
}
