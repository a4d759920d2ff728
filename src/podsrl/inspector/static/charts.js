"use strict";
// Curves, drawn by uPlot on a canvas in the colours of the style sheet.

const PALETTES = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9"],
  dark: ["#6bb7e6", "#f09058", "#4fc59b", "#e0a3c4", "#d9b24c", "#a7d5f2"],
};
const WHOLE = [0, 1, 2, 3, 4, 5, 6].flatMap((zeros) => [1, 2, 5].map((first) => first * 10 ** zeros));
const drawnCharts = new Set();

/** What is compared: the method of a run, as its settings call it, else the run itself. */
const methodOf = (run) => run.arm ?? run.name;

/**
 * The colour of a run: one for each method, and a shade for each of its seeds, so that runs that
 * belong together look alike.
 */
function colourOf(place) {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const palette = PALETTES[isDark ? "dark" : "light"];
  const run = state.runs[place];
  const methods = [...new Set(state.runs.map(methodOf))];
  const method = methods.indexOf(methodOf(run));
  const seeds = state.runs.filter((other) => methodOf(other) === methodOf(run));
  const colour = method < palette.length
    ? palette[method]
    : `hsl(${(method * 137.5) % 360} 55% ${isDark ? 68 : 40}%)`; // the golden angle repeats none

  const shade = seeds.indexOf(run) % 4;
  if (!shade) return colour;
  return `color-mix(in oklab, ${colour} ${100 - 22 * shade}%, ${isDark ? "white" : "black"})`;
}

/** The pixels that the numbers of an axis take. */
const widthOf = (_, said) => Math.max(48, 18 + 7 * Math.max(0, ...(said ?? []).map((text) => String(text).length)));

/** Numbers of an axis, with as many digits as tell them apart. */
function ticks(values) {
  for (let digits = 3; digits < 8; digits++) {
    const said = values.map((value) => number(value, digits));
    if (new Set(said).size === said.length) return said;
  }
  return values.map(String);
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Forget the charts that are not on the page, or not any more. */
function forgetCharts() {
  for (const drawn of drawnCharts) {
    if (drawn.plot.root.isConnected) continue;
    drawn.watch.disconnect();
    drawn.plot.destroy();
    drawnCharts.delete(drawn);
  }
}

/** Whether a reader looks at a part of a curve, which a new step should not take away. */
function isZoomed() {
  return [...drawnCharts].some(({ plot }) => {
    const [x] = plot.data;
    return plot.scales.x.min > x[0] || plot.scales.x.max < x[x.length - 1];
  });
}

/**
 * A figure with curves.
 *
 * `lines` are {label, colour, dashed, x, y}, each with its own x; `stacked` fills the space between
 * them. `pick` is called with the x that was clicked.
 */
function chart({ title, lines, unit = "", xLabel, stacked = false, pick, zero = false }) {
  const there = lines.filter((line) => line.y?.some((value) => value !== null));
  if (!there.length) return null;
  const room = element("div", "plot");
  const legend = element("p", "legend");
  for (const [label, colour, dashed] of legendOf(there)) {
    const swatch = element("i", dashed ? "dashed" : "");
    swatch.style.borderColor = colour;
    legend.append(element("span", "", swatch, ` ${label}`));
  }
  const figure = element(
    "figure", "", element("figcaption", "", title, unit && element("small", "", ` ${unit}`)),
    room, legend,
  );

  const data = stacked ? stack(there) : joined(there);
  const axis = () => ({
    stroke: styleOf("--soft"),
    grid: { stroke: styleOf("--line"), width: 1 },
    ticks: { stroke: styleOf("--line"), width: 1 },
    font: "12px system-ui, sans-serif",
  });
  const options = {
    width: 300,
    height: 170,
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: (_, low, high) => rangeOf(low, high, zero) } },
    axes: [
      { ...axis(), incrs: WHOLE, label: xLabel, labelSize: 18, labelFont: "12px system-ui, sans-serif", size: 28 },
      { ...axis(), size: widthOf, values: (_, values) => ticks(values) },
    ],
    series: [
      { label: xLabel },
      ...there.map((line) => ({
        label: line.label,
        stroke: line.colour,
        width: stacked ? 1 : 1.6,
        dash: line.dashed ? [5, 4] : undefined,
        fill: stacked ? line.colour : undefined,
        spanGaps: true,
        points: { show: line.dots || data[0].length < 3, size: 5 },
      })),
    ],
    hooks: { setCursor: [(plot) => tell(plot, figure, there, data, stacked, xLabel)] },
  };

  const plot = new uPlot(options, data, room);
  const watch = new ResizeObserver(() => {
    if (room.clientWidth) plot.setSize({ width: room.clientWidth, height: 170 });
  });
  watch.observe(room);
  drawnCharts.add({ plot, watch });
  const told = element("p", "told", " ");
  figure.append(told);
  if (pick) {
    room.classList.add("picks");
    let pressed = 0;
    plot.over.addEventListener("mousedown", (event) => (pressed = event.clientX));
    plot.over.addEventListener("click", (event) => {
      const dragged = Math.abs(event.clientX - pressed) > 4;
      if (!dragged && plot.cursor.idx !== null) pick(data[0][plot.cursor.idx]);
    });
  }
  return figure;
}

/** What an axis spans: from 0 if asked to, and between 0 and 1 where all values are one of them. */
function rangeOf(low, high, zero) {
  if (low === null) return [0, 1];
  if (low === high) return [Math.min(0, low), Math.max(1, high)];
  return zero ? [Math.min(0, low), high] : uPlot.rangeNum(low, high, 0.1, true);
}

/** What a legend says: of several runs, whose colours stand above all charts, the kinds of lines. */
function legendOf(lines) {
  const kinds = new Map();
  for (const line of lines) {
    const kind = line.kind ?? line.label;
    const colours = kinds.get(kind)?.colours ?? new Set();
    kinds.set(kind, { dashed: line.dashed, colours: colours.add(line.colour) });
  }
  if (kinds.size === 1 && [...kinds.values()][0].colours.size > 1) return [];
  return [...kinds].map(([kind, { dashed, colours }]) => [
    kind, colours.size > 1 ? styleOf("--soft") : [...colours][0], dashed,
  ]);
}

/** What the curves say where the pointer is. */
function tell(plot, figure, lines, data, stacked, xLabel) {
  const told = figure.querySelector(".told");
  const at = plot.cursor.idx;
  if (!told) return;
  if (at === null || at === undefined) {
    told.textContent = " ";
    return;
  }
  const said = lines.map((line, place) => {
    let value = data[place + 1][at];
    if (stacked && place + 1 < lines.length) value -= data[place + 2][at];
    return `${line.label} ${number(value)}`;
  });
  told.textContent = `${xLabel} ${number(data[0][at], 4)}: ${said.join(" · ")}`;
}

/** Lines with their own x as uPlot wants them: one x for all, null where a line has none. */
function joined(lines) {
  return uPlot.join(lines.map((line) => sorted(line.x, line.y)));
}

/** A line by its x, without places that have no x. */
function sorted(x, y) {
  const pairs = x.map((value, place) => [value, y[place]]).filter(([value]) => value !== null);
  pairs.sort((a, b) => a[0] - b[0]);
  const unique = pairs.filter(([value], place) => place === 0 || value !== pairs[place - 1][0]);
  return [unique.map(([value]) => value), unique.map(([, value]) => value)];
}

/** Each line on top of the later ones, so that the first one's fill is covered by the others. */
function stack(lines) {
  const [x, ...columns] = joined(lines);
  const sums = columns.map(() => []);
  for (let at = 0; at < x.length; at++) {
    let sum = 0;
    for (let place = columns.length - 1; place >= 0; place--) {
      sum += columns[place][at] ?? 0;
      sums[place][at] = sum;
    }
  }
  return [x, ...sums];
}
