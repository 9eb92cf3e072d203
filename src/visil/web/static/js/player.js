// One side of a match: a video that plays, or, where the browser cannot play it, its frames as pictures.

import { h } from "./dom.js";
import { announce } from "./messages.js";
import { Still } from "./still.js";

/** What browsers take as a speed. */
const SLOWEST = 0.0625;
const FASTEST = 16;

export class Player {
  /** side is "query" or "target"; source is what refs.media() gives, or null; seconds is how long it is. */
  constructor(side, name, source, seconds) {
    Object.assign(this, { side, name, source, seconds, moving: false, still: null, at: 0, pending: null });
    this.overlay = h("img", { class: "overlay", alt: "", hidden: true });
    this.overlay.addEventListener("error", () => { this.overlay.hidden = true; });
    this.word = h("p", { class: "faint word", role: "status" });
    this.stage = h("div", { class: "stage" });
    this.element = h("div", { class: "side" }, this.stage, this.word);
    if (source) this.load();
    else this.useStills("This clip is gone, and no copy of it was kept.");
  }

  load() {
    const video = h("video", { preload: "auto", playsinline: true, src: this.source.stream, "aria-label": `${this.side}: ${this.name}` });
    video.muted = true;
    video.disablePictureInPicture = true;
    // Where the browser knows no such codec, a small copy is asked for; where there is none either, single frames.
    const failed = () => {
      if (!this.video) return;
      if (video.src.endsWith(this.source.small)) {
        this.useStills("This browser cannot play the file, so single frames are shown.");
        return;
      }
      this.word.textContent = "This browser cannot play the file. Preparing a small copy without sound …";
      video.src = this.source.small;
    };
    video.addEventListener("error", failed);
    video.addEventListener("loadedmetadata", () => {
      if (!video.videoWidth) {
        failed();
        return;
      }
      this.moving = true;
      if (!this.word.textContent) return;
      this.word.textContent = "A small copy without sound is shown: this browser cannot play the file.";
      video.currentTime = this.at;
    });
    video.addEventListener("seeked", () => {
      if (this.pending === null) return;
      video.currentTime = this.pending;
      this.pending = null;
    });
    this.video = video;
    this.stage.append(video, this.overlay);
  }

  useStills(why) {
    this.moving = false;
    this.video?.removeAttribute("src");
    this.video?.remove();
    this.video = null;
    this.still = new Still(this.source, 480, this.name);
    this.stage.replaceChildren(this.still.element, this.overlay);
    this.word.textContent = why;
    this.still.show(this.at);
    announce(`${this.side}: ${why}`);
  }

  get time() {
    if (!this.video) return this.at;
    return this.pending ?? this.video.currentTime;
  }

  get ended() {
    return this.video?.ended ?? false;
  }

  /** Go to a time; one seek at a time, the latest wins. */
  seek(time) {
    this.at = Math.min(Math.max(time, 0), this.seconds);
    if (!this.video) this.still.show(this.at);
    else if (this.video.seeking) this.pending = this.at;
    else this.video.currentTime = this.at;
  }

  play() {
    // A video at its end would begin anew.
    if (!this.video?.paused || this.ended) return;
    this.video.play().catch(() => {});
  }

  pause() {
    this.video?.pause();
  }

  set rate(value) {
    const rate = Math.min(Math.max(value, SLOWEST), FASTEST);
    if (this.video && Math.abs(this.video.playbackRate - rate) > 1e-3) this.video.playbackRate = rate;
  }

  set sound(on) {
    if (this.video) this.video.muted = !on;
  }

  /** Lay a picture over the frame; null takes it away. */
  set cover(url) {
    if (url && this.overlay.getAttribute("src") !== url) this.overlay.src = url;
    this.overlay.hidden = !url;
  }
}
