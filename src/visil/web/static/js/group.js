// One group of duplicates: the same moments of all its videos one under another, and keep or drop for every file.

import { bdi, h, replace } from "./dom.js";
import { pairRow } from "./pairs.js";
import { facts } from "./pictures.js";
import { address } from "./router.js";
import { bytes, capital, clock, count } from "./words.js";

const OPEN_PAIRS = 3;
const MOST_PAIRS = 200;
const WIDTH = 200;

export class GroupView {
  /** review decides; it is told what is pressed. */
  constructor(group, review) {
    Object.assign(this, { review });
    this.element = h("section", { class: "sheet group", "aria-labelledby": `group-${group.key}` });
    this.redraw(group);
  }

  redraw(group) {
    this.group = group;
    const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
    const place = new Map(group.videos.map((video, i) => [video.id, { number: i + 1, video }]));
    replace(this.element,
      this.heading(),
      h("div", { class: "members" }, group.videos.map((video, i) => this.member(video, i + 1))),
      this.pairs(place));
    if (focused) this.element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  heading() {
    const { group, review } = this;
    const { files, videos } = group;
    const going = files.filter((file) => file.action === "drop");
    const freed = going.reduce((sum, file) => sum + file.bytes, 0);
    const said = [count(videos.length, "video"), files.length > videos.length && count(files.length, "file"),
      going.length ? `${count(going.length, "file")} to drop, ${bytes(freed)}` : "nothing to drop"];
    const step = (words, by, key) => h("button", { class: "quiet", "aria-keyshortcuts": key, "data-key": words, onclick: () => review.go(by) }, words);
    return h("div", { class: "head" },
      h("div", {},
        h("h2", { id: `group-${group.key}`, tabindex: "-1" }, `Group ${group.id}`, group.reviewed && h("span", { class: "badge keep" }, "Reviewed")),
        h("p", { class: "faint" }, said.filter(Boolean).join(" · "))),
      h("div", { class: "acts across" },
        review.view === "one" && review.total > 1 && [step("Previous", -1, "p"), step("Next", 1, "n")],
        group.reviewed
          ? h("button", { "data-key": "again", onclick: () => this.clear() }, "Review again")
          : h("button", { class: "main", "aria-keyshortcuts": "a", "data-key": "accept", onclick: () => this.accept() }, "Accept suggestion")));
  }

  /** A video: its pictures at the moments that the group shares, and its files. */
  member(video, number) {
    const files = this.group.files.filter((file) => file.id === video.id);
    const times = video.times ?? [];
    const where = times.map((time) => clock(time)).join(", ");
    const strip = video.missing
      ? h("div", { class: "strip none" }, "The file is gone")
      : h("img", {
        class: "strip", loading: "lazy", decoding: "async", alt: `${video.name} at ${where}`,
        src: `api/videos/${encodeURIComponent(video.id)}/frames.jpg?${new URLSearchParams({ times: times.join(","), width: WIDTH })}`,
      });
    strip.addEventListener("error", () => strip.replaceWith(h("div", { class: "strip none" }, "No picture")), { once: true });
    return h("article", { class: files.some((file) => file.action === "keep") ? "member" : "member out", "aria-label": video.name },
      h("figure", { class: "frames" }, strip,
        !video.missing && h("figcaption", { class: "faint" }, times.map((time) => h("span", {}, clock(time)))),
        this.group.videos.length > 1 && !video.missing && !video.same_moment && h("p", { class: "faint" }, "Different moments: this video shares other footage with the group.")),
      h("div", { class: "what" },
        h("p", { class: "name" }, h("span", { class: "number" }, number), bdi(video.name)),
        facts({ ...video, added: null }),
        h("ul", { class: "files" }, files.map((file) => this.file(file))),
        h("p", {}, h("a", { class: "faint", href: address("search", { video: video.id }), "aria-label": `Search for more like ${video.name}` }, "Search for more like it"))));
  }

  /** A file: where it is, why it may go or stays, and the two buttons. */
  file(file) {
    const press = (action, words) => h("button", {
      class: "quiet", "aria-pressed": String(file.action === action), "data-key": `${action} ${file.file}`, disabled: Boolean(file.must_stay),
      onclick: () => this.review.decide({ [file.file]: file.decided && file.action === action ? null : action }),
    }, words);
    const state = file.must_stay ? "" : file.decided ? "Decided" : "Suggested";
    return h("li", { class: `file to-${file.action}${file.decided ? " decided" : ""}` },
      h("div", { class: "segmented", role: "group", "aria-label": `What to do with ${file.name}` }, press("keep", "Keep"), press("drop", "Drop")),
      h("div", { class: "what" },
        h("p", { class: "path" }, bdi(file.path)),
        h("p", { class: "note" }, state && h("b", {}, `${state}: `), bdi(file.must_stay ?? (capital(file.reason) || capital(file.action))))));
  }

  pairs(place) {
    const { group, review } = this;
    const pairs = [...group.pairs].sort((a, b) => b.confidence - a.confidence || b.score - a.score);
    if (!pairs.length) return group.videos.length > 1 && h("p", { class: "faint" }, "Grouped because you marked them as a match.");
    const rows = pairs.slice(0, MOST_PAIRS).map((pair) => pairRow(pair, place, () => review.again()));
    return h("details", { class: "shared", open: review.view === "one" && pairs.length <= OPEN_PAIRS },
      h("summary", {}, `What they share: ${count(pairs.length, "pair")}`),
      h("ul", { class: "pairs" }, rows),
      pairs.length > MOST_PAIRS && h("p", { class: "faint" }, `The export has ${count(pairs.length - MOST_PAIRS, "more pair")}.`));
  }

  // ------------------------------------------------------------------ what people do

  accept() {
    return this.group.reviewed ? this.review.go(1) : this.review.accept({ groups: [this.group.key] });
  }

  /** Every file back to what is suggested. */
  clear() {
    const decided = this.group.files.filter((file) => file.decided);
    return this.review.decide(Object.fromEntries(decided.map((file) => [file.file, null])));
  }

  get rows() {
    return [...this.element.querySelectorAll(".file")];
  }

  /** The row that has the focus, or -1. */
  get current() {
    return this.rows.findIndex((row) => row.contains(document.activeElement));
  }

  /** The focus to another file. */
  move(step) {
    const { rows } = this;
    const to = rows[Math.min(Math.max(this.current + step, 0), rows.length - 1)];
    to?.querySelector("[aria-pressed=true]:not(:disabled), button:not(:disabled)")?.focus();
  }

  /** Keep or drop the file that has the focus, or the first that is not decided. */
  press(action) {
    const open = this.group.files.find((file) => !file.decided && !file.must_stay);
    const row = this.rows[this.current];
    const button = row?.querySelector(`[data-key^="${action} "]`) ?? this.element.querySelector(`[data-key="${action} ${open?.file}"]`);
    if (!button || button.disabled) return;
    button.focus();
    const file = this.group.files.find((one) => button.dataset.key === `${action} ${one.file}`);
    this.review.decide({ [file.file]: action });
  }
}
