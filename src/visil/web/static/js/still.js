// One frame of a video as a picture. Asked for many times a second, it fetches one at a time and then the latest wanted.

import { h } from "./dom.js";

export class Still {
  /** source is what refs.media() gives, or null; label names the video to those who cannot see it. */
  constructor(source, width, label) {
    Object.assign(this, { source, width, label, wanted: null, busy: false, shown: null });
    this.image = h("img", { class: "still", alt: "", hidden: true, draggable: "false" });
    this.word = h("span", { class: "faint" }, source ? "" : "no picture");
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
    this.word.textContent = well ? "" : "no picture";
    this.fetch();
  }
}
