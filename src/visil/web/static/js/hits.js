// What a search found.

import { bdi, h } from "./dom.js";
import { announce } from "./live.js";
import { early, facts, named, thumbnail, timeline, verdict } from "./pictures.js";
import { matchAddress } from "./refs.js";
import { clock, count, shares } from "./words.js";

/** The answer of a search as a part of the screen: what was asked, the hits, and the unrelated ones to unfold. */
export function hitList({ query, hits }) {
  const strong = hits.filter((hit) => hit.verdict !== "unrelated");
  const weak = hits.filter((hit) => hit.verdict === "unrelated");
  const said = strong.length ? `${count(strong.length, "video")} of the collection ${strong.length === 1 ? "shares" : "share"} footage with it.` : "No video of the collection shares footage with it.";
  announce(said);
  return [
    h("section", { class: "sheet asked", "aria-label": "The video that was searched for" },
      thumbnail(query, early(query.duration)),
      h("div", { class: "what" },
        h("p", { class: "name" }, bdi(query.name)),
        query.duration !== null && h("p", { class: "facts" }, clock(query.duration)),
        h("p", {}, said)),
      h("a", { class: "button", href: "#/search" }, "Search for another")),
    strong.length
      ? h("ol", { class: "hits", "aria-label": "Hits" }, strong.map((one) => hit(query, one)))
      : h("p", { class: "faint" }, "If you expected one: is it in the library, and ready? Very short or very dark clips are hard to find."),
    weak.length > 0 && h("details", {},
      h("summary", {}, `${count(weak.length, "video")} that came closest without sharing footage`),
      h("ol", { class: "hits" }, weak.map((one) => hit(query, one)))),
  ];
}

function hit(query, found) {
  const { video } = found;
  const target = { kind: "video", id: video.id };
  const where = matchAddress(query, target);
  return h("li", { class: "sheet hit" },
    h("a", { class: "plain", href: where, tabindex: "-1", "aria-hidden": "true" }, thumbnail(target, middle(found))),
    h("div", { class: "what" },
      named(video), facts({ ...video, added: null }), verdict(found),
      h("p", {}, found.in_words || shares(found.segments))),
    found.segments.length > 0 && h("div", { class: "lines" },
      h("div", { class: "line" }, h("span", {}, bdi(query.name)), h("span", {}, clock(query.duration ?? 0))),
      timeline(found.segments, query.duration, video.duration),
      h("div", { class: "line" }, h("span", {}, bdi(video.name)), h("span", {}, clock(video.duration ?? 0)))),
    h("div", { class: "acts" }, h("a", { class: "button main", href: where, "aria-label": `Look at the match with ${video.name}` }, "Look at it")));
}

// A picture from the shared stretch says more than one from anywhere.
function middle({ segments, video }) {
  if (!segments.length) return early(video.duration);
  const [start, end] = segments[0].target;
  return (start + end) / 2;
}
