// A matrix to look into: the query's time downwards, the target's to the right, with a cross-hair.

import { matrix } from "./api.js";
import { h, svg } from "./dom.js";
import { COLOURS, longest } from "./pictures.js";
import { clock } from "./words.js";

const PIXELS = 640;
/** A matrix is drawn at most this much longer one way than the other. */
const FLATTEST = 2.5;
/** Beyond so many cells the ready-made picture is shown, and single values are not. */
const MOST_CELLS = 2 ** 24;

export class Heatmap {
  /** found is the comparison; which is "frame_matrix" or "output_matrix"; looked(q, t, value) and picked(q, t) are told. */
  constructor(found, which, { title, note, fixed = null, looked, picked }) {
    Object.assign(this, { which, looked, picked, fixed, source: found[which] });
    this.rows = edges(found.query_times, this.source.rows);
    this.columns = edges(found.target_times, this.source.columns);
    const frames = [edges(found.query_times, found.query_times.length), edges(found.target_times, found.target_times.length)];
    this.box = { top: frames[0][0], bottom: frames[0].at(-1), left: frames[1][0], right: frames[1].at(-1) };
    this.cross = { row: 0, column: 0 };
    this.segments = longest(found.segments);
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.marks = svg("svg", { class: "marks", viewBox: "0 0 1000 1000", preserveAspectRatio: "none", "aria-hidden": "true" });
    this.field = h("div", {
      class: "field", tabindex: "0", role: "application", "aria-roledescription": "matrix", id: which,
      "aria-label": `${title}. Arrow keys move the cross-hair, Enter takes both videos there.`,
    }, this.canvas, this.marks);
    this.scale = h("span", { class: "faint" });
    const { top, bottom, left, right } = this.box;
    const shape = Math.min(Math.max((right - left) / (bottom - top), 1 / FLATTEST), FLATTEST);
    this.field.style.setProperty("aspect-ratio", String(shape));
    this.size = shape > 1 ? [PIXELS, Math.round(PIXELS / shape)] : [Math.round(PIXELS * shape), PIXELS];
    this.element = h("figure", { class: shape < 0.8 ? "matrix tall" : "matrix" },
      h("figcaption", {}, h("strong", {}, title), h("span", { class: "faint" }, note)),
      this.field,
      h("div", { class: "line" }, h("span", {}, clock(left)), h("span", {}, "→ target"), h("span", {}, clock(right))),
      h("p", { class: "line" }, this.scale));
    this.drawMarks();
    this.listen();
  }

  /** Fetch the values and draw them. */
  async load(signal) {
    if (this.source.rows * this.source.columns > MOST_CELLS) {
      this.canvas.replaceWith(h("img", { class: "ready", src: this.source.url_png, alt: "" }));
      return;
    }
    this.values = await matrix(this.source.url_bin, signal);
    const { top, bottom, left, right } = this.box;
    const [width, height] = this.size;
    const ends = this.fixed ?? limits(this.values.values);
    paint(this.canvas, this.values, bins(this.rows, top, bottom, height), bins(this.columns, left, right, width), ends);
    this.scale.append(`dark ${ends[0].toFixed(1)}`, h("span", { class: "scale" }), `light ${ends[1].toFixed(1)}`);
  }

  drawMarks() {
    const { top, bottom, left, right } = this.box;
    const x = (time) => 1000 * Math.min(Math.max((time - left) / (right - left), 0), 1);
    const y = (time) => 1000 * Math.min(Math.max((time - top) / (bottom - top), 0), 1);
    Object.assign(this, { x, y });
    this.lines = [svg("line", { class: "cross", x1: 0, x2: 1000 }), svg("line", { class: "cross", y1: 0, y2: 1000 })];
    this.run = [svg("line", { class: "run", x1: 0, x2: 1000 }), svg("line", { class: "run", y1: 0, y2: 1000 })];
    this.rectangles = this.segments.map((segment, i) => svg("rect", {
      class: `s${i % COLOURS}`, x: x(segment.target[0]), y: y(segment.query[0]),
      width: Math.max(8, x(segment.target[1]) - x(segment.target[0])), height: Math.max(8, y(segment.query[1]) - y(segment.query[0])),
    }));
    this.marks.append(...this.rectangles, ...this.run, ...this.lines);
  }

  listen() {
    const { field } = this;
    field.addEventListener("pointermove", (event) => this.look(...this.under(event)));
    field.addEventListener("click", (event) => {
      this.look(...this.under(event));
      this.pick();
    });
    field.addEventListener("focus", () => this.look(this.cross.row, this.cross.column));
    field.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 10 : 1;
      const way = { ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step] }[event.key];
      if (way) this.look(this.cross.row + way[0], this.cross.column + way[1]);
      else if (event.key === "Enter" || event.key === " ") this.pick();
      else return;
      event.preventDefault();
    });
  }

  under(event) {
    const { left, top, width, height } = this.field.getBoundingClientRect();
    const { box } = this;
    const query = box.top + ((event.clientY - top) / height) * (box.bottom - box.top);
    const target = box.left + ((event.clientX - left) / width) * (box.right - box.left);
    return [cellAt(this.rows, query), cellAt(this.columns, target)];
  }

  /** The cross-hair to a cell; tells of it. */
  look(row, column) {
    const { rows, columns } = this.source;
    this.cross = { row: Math.min(Math.max(row, 0), rows - 1), column: Math.min(Math.max(column, 0), columns - 1) };
    const [query, target] = this.times();
    this.put(this.lines, query, target);
    this.looked(query, target, this.values?.values[this.cross.row * columns + this.cross.column] ?? null);
  }

  // Where a cell's frame is: when it begins, as the frame on display is the one that began last.
  times() {
    return [this.rows[this.cross.row], this.columns[this.cross.column]];
  }

  pick() {
    this.picked(...this.times());
  }

  put([across, down], query, target) {
    const [x, y] = [this.x(target), this.y(query)];
    for (const [line, name, value] of [[across, "y", y], [down, "x", x]]) {
      line.setAttribute(`${name}1`, value);
      line.setAttribute(`${name}2`, value);
    }
  }

  /** Bring one stretch to the front, or none. */
  mark(number) {
    this.rectangles.forEach((rectangle, i) => rectangle.classList.toggle("chosen", i === number));
    if (number >= 0) this.run[0].before(this.rectangles[number]);
  }

  /** Where the players are. */
  playhead(query, target) {
    this.put(this.run, query, target);
  }

  /** The cross-hair where another matrix has its own. */
  point(query, target) {
    this.cross = { row: cellAt(this.rows, query), column: cellAt(this.columns, target) };
    this.put(this.lines, query, target);
  }
}

// ------------------------------------------------------------------ when each cell begins and ends, in seconds

/** How many frames the network's output folds into one cell. */
const STRIDE = 4;

/** The edges of cells, one more than there are, from the times of the frames; the last frame lasts as long as most. */
export function edges(times, cells) {
  const steps = times.slice(1).map((time, i) => time - times[i]).sort((a, b) => a - b);
  const step = steps.length ? (steps[steps.length >> 1] + steps[(steps.length - 1) >> 1]) / 2 : 1;
  const all = [...times, times[times.length - 1] + step];
  const stride = cells === times.length ? 1 : STRIDE;
  return Float64Array.from({ length: cells + 1 }, (_, i) => all[Math.min(i * stride, times.length)]);
}

/** The cell at a time; the first or last where it is outside. */
export function cellAt(edge, time) {
  let [low, high] = [0, edge.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edge[middle] <= time) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** For each of so many even steps of time between start and end, the cells on display in it, as [first, after last]. */
export function bins(edge, start, end, steps) {
  const slack = (1e-6 * (end - start)) / steps;
  return Array.from({ length: steps }, (_, i) => {
    const [from, to] = [start + ((end - start) * i) / steps, start + ((end - start) * (i + 1)) / steps];
    if (from >= edge[edge.length - 1] - slack) return [0, 0];
    return [cellAt(edge, from + slack), cellAt(edge, to - slack) + 1];
  });
}

// ------------------------------------------------------------------ colours

// From dark to light in even steps of lightness, the same as in the report and the figures.
const STOPS = [[12, 15, 36], [23, 48, 92], [31, 95, 139], [63, 151, 168], [140, 203, 181], [244, 251, 232]];

/** 256 colours as bytes: red, green, blue, red … */
export const HEAT = (() => {
  const table = new Uint8ClampedArray(3 * 256);
  for (let i = 0; i < 256; i += 1) {
    const place = (i / 255) * (STOPS.length - 1);
    const at = Math.min(Math.floor(place), STOPS.length - 2);
    for (let c = 0; c < 3; c += 1) table[3 * i + c] = Math.round(STOPS[at][c] + (place - at) * (STOPS[at + 1][c] - STOPS[at][c]));
  }
  return table;
})();

/** The values drawn darkest and lightest, far enough apart that noise does not look like a match. */
export function limits(values) {
  const step = Math.max(1, Math.floor(values.length / 2e5));
  const some = [];
  let highest = -Infinity;
  for (let i = 0; i < values.length; i += 1) {
    if (values[i] > highest) highest = values[i];
    if (i % step === 0) some.push(values[i]);
  }
  some.sort((a, b) => a - b);
  const low = some[Math.floor(0.05 * (some.length - 1))];
  return [low, Math.max(highest, Math.min(1, low + 0.6), low + 0.05)];
}

/** Draw a matrix: each pixel has the highest value of the cells in it, so that a thin line stays one. */
export function paint(canvas, { columns, values }, rowBins, columnBins, [low, high]) {
  canvas.width = columnBins.length;
  canvas.height = rowBins.length;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const strip = new Float32Array(columns);
  let [place, before] = [0, null];
  for (const [top, bottom] of rowBins) {
    if (before?.[0] !== top || before[1] !== bottom) highest(values, columns, top, bottom, strip);
    before = [top, bottom];
    for (const [left, right] of columnBins) {
      let value = -Infinity;
      for (let c = left; c < right; c += 1) if (strip[c] > value) value = strip[c];
      if (top < bottom && left < right) {
        const level = 3 * Math.max(0, Math.min(255, Math.round((255 * (value - low)) / (high - low))));
        image.data[place] = HEAT[level];
        image.data[place + 1] = HEAT[level + 1];
        image.data[place + 2] = HEAT[level + 2];
        image.data[place + 3] = 255;
      }
      place += 4;
    }
  }
  context.putImageData(image, 0, 0);
}

function highest(values, columns, top, bottom, into) {
  into.fill(-Infinity);
  for (let row = top; row < bottom; row += 1) {
    const start = row * columns;
    for (let c = 0; c < columns; c += 1) if (values[start + c] > into[c]) into[c] = values[start + c];
  }
}
