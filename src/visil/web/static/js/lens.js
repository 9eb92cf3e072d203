// The two frames under the cross-hair, with their times and how alike they are.

import { debounce, h } from "./dom.js";
import { Still } from "./still.js";
import { clock } from "./words.js";

export class Lens {
  constructor(query, target) {
    this.stills = { query: new Still(query, 240, "query"), target: new Still(target, 240, "target") };
    this.times = { query: h("span", { class: "time" }), target: h("span", { class: "time" }) };
    this.value = h("p", { class: "faint" }, "Move over the matrix to see both frames.");
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
