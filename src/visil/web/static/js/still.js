// One frame of a video as a picture, and the two under the cross-hair of a matrix.

import { debounce, h } from "./dom.js";
import { clock } from "./words.js";

/** Asked for many times a second, it fetches one picture at a time and then the latest wanted. */
export class Still {
  /** source is what refs.media() gives, or null; label names the video to those who cannot see it. */
  constructor(source, width, label) {
    Object.assign(this, { source, width, label, wanted: null, busy: false, shown: null });
    this.image = h("img", { class: "still", alt: "", hidden: true, draggable: "false" });
    this.word = h("span", { class: "faint" }, source ? "" : "No picture");
    this.element = h("div", { class: "frame" }, this.image, this.word);
    this.image.addEventListener("load", () => this.arrived(true));
    this.image.addEventListener("error", () => this.arrived(false));
  }

  /** Show the frame at a time. */
  show(at) {
    if (!this.source) return;
    this.wanted = at.toFixed(2);
    if (!this.busy) this.fetch();
  }

  fetch() {
    if (this.wanted === this.shown) return;
    this.busy = true;
    this.shown = this.wanted;
    this.image.src = this.source.thumbnail(Number(this.wanted), this.width);
  }

  arrived(well) {
    this.busy = false;
    this.image.hidden = !well;
    this.image.alt = well ? `${this.label} at ${this.shown} seconds` : "";
    this.word.textContent = well ? "" : "No picture";
    this.fetch();
  }
}

/** The two frames under the cross-hair, with their times and how alike they are. */
export class Lens {
  constructor(query, target) {
    this.stills = { query: new Still(query, 240, "query"), target: new Still(target, 240, "target") };
    this.times = { query: h("span", { class: "time" }), target: h("span", { class: "time" }) };
    this.value = h("p", { class: "faint" }, "Point at the matrix to see both frames.");
    // Read out once the cross-hair rests.
    this.spoken = h("p", { class: "unseen", "aria-live": "polite" });
    this.say = debounce(500, (text) => { this.spoken.textContent = text; });
    const one = (side) => h("div", {}, h("p", { class: "label" }, `${side} `, this.times[side]), this.stills[side].element);
    this.element = h("aside", { class: "lens", "aria-label": "Under the cross-hair" }, one("query"), one("target"), this.value, this.spoken);
  }

  /** Show the frames at two times; value is how alike they are, where that is known. */
  show(query, target, value) {
    this.stills.query.show(query);
    this.stills.target.show(target);
    this.times.query.textContent = clock(query, true);
    this.times.target.textContent = clock(target, true);
    this.value.textContent = value === null ? "" : `value ${value.toFixed(2)}`;
    this.say(`query ${clock(query, true)}, target ${clock(target, true)}${value === null ? "" : `, value ${value.toFixed(2)}`}`);
  }
}
