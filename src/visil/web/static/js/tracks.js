// Both videos as bars with what they share in colour; each bar is a slider.

import { h, svg } from "./dom.js";
import { bars, longest } from "./pictures.js";
import { clock } from "./words.js";

export class Tracks {
  /** seeked(side, time) is told when someone points at a time. */
  constructor(segments, queryLength, targetLength, seeked) {
    this.lengths = { query: queryLength, target: targetLength };
    this.heads = { query: svg("line", { class: "run", y1: 0, y2: 16 }), target: svg("line", { class: "run", y1: 48, y2: 64 }) };
    this.sliders = { query: this.slider("query", seeked), target: this.slider("target", seeked) };
    const drawing = svg("svg", { class: "timeline", viewBox: "0 0 1000 64", preserveAspectRatio: "none", "aria-hidden": "true" },
      bars(longest(segments), queryLength, targetLength, 64, 16), this.heads.query, this.heads.target);
    this.stretches = [...drawing.querySelectorAll("g")];
    this.element = h("div", { class: "tracks" }, drawing,
      this.sliders.query, this.sliders.target);
  }

  slider(side, seeked) {
    const length = this.lengths[side];
    const element = h("div", {
      class: `slider ${side}`, tabindex: "0", role: "slider", "aria-label": `Position in the ${side}`,
      "aria-valuemin": 0, "aria-valuemax": Math.round(length), "aria-valuenow": 0,
    });
    const at = (event) => {
      const { left, width } = element.getBoundingClientRect();
      return Math.min(Math.max((event.clientX - left) / width, 0), 1) * length;
    };
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      seeked(side, at(event));
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) seeked(side, at(event));
    });
    element.addEventListener("keydown", (event) => {
      const now = Number(element.dataset.time ?? 0);
      const step = event.shiftKey ? 5 : 1;
      const to = {
        ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step,
        PageDown: now - length / 10, PageUp: now + length / 10, Home: 0, End: length,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      seeked(side, Math.min(Math.max(to, 0), length));
    });
    return element;
  }

  /** Bring one stretch to the front, or none. */
  mark(number) {
    this.stretches.forEach((stretch, i) => stretch.classList.toggle("back", number >= 0 && i !== number));
    if (number >= 0) this.heads.query.before(this.stretches[number]);
  }

  /** Where the players are. */
  playhead(query, target) {
    for (const [side, time] of [["query", query], ["target", target]]) {
      const x = Math.min(1000, (1000 * time) / Math.max(this.lengths[side], 1e-3));
      this.heads[side].setAttribute("x1", x);
      this.heads[side].setAttribute("x2", x);
      this.sliders[side].dataset.time = String(time);
      this.sliders[side].setAttribute("aria-valuenow", String(Math.round(time)));
      this.sliders[side].setAttribute("aria-valuetext", clock(time, true));
    }
  }
}
