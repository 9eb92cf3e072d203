// What a search found: copies and related videos apart, each beside the clip at the same moment.

import { post } from "./api.js";
import { bdi, h } from "./dom.js";
import { announce, complain, toast } from "./messages.js";
import { early, facts, named, sameMoment, thumbnail, timeline, verdict } from "./pictures.js";
import { body, matchAddress } from "./refs.js";
import { capital, clock, count, shares } from "./words.js";

/** How many hits are asked for next, and at the most. */
const STEPS = [20, 100, 200];

/** How many of some hits share footage, and of which kind: {strong, weak, words}. */
export function summary(hits) {
  const strong = hits.filter((hit) => hit.verdict === "copy" || hit.verdict === "related").sort(surer);
  const copies = strong.filter((hit) => hit.verdict === "copy").length;
  const related = strong.length - copies;
  const said = [copies > 0 && count(copies, "copy", "copies"), related > 0 && count(related, "related video")].filter(Boolean).join(" and ");
  const full = STEPS.includes(hits.length) && strong.length === hits.length;
  const words = strong.length ? `${full ? "At least " : ""}${said}${full ? "; there may be more" : ""}` : "No video in the collection shares footage with this clip";
  return { strong, weak: hits.filter((hit) => !strong.includes(hit)), full, words: `${words}.` };
}

/** The order that is shown: by percent, so that copies come first; among equals as the search ranked them. */
function surer(one, other) {
  return Math.round(100 * other.confidence) - Math.round(100 * one.confidence);
}

/** The answer of a search as a part of the screen; more({ref, k}) searches again for more hits, again is where to ask anew. */
export function hitList({ query, hits, refined }, { session, again, more }) {
  const { strong, weak, full, words } = summary(hits);
  const next = STEPS.find((step) => step > hits.length);
  announce(words);
  return [
    h("section", { class: "sheet asked", "aria-label": "Searched for" },
      thumbnail(query, early(query.duration)),
      h("div", { class: "what" },
        h("p", { class: "name" }, bdi(query.name)),
        query.duration !== null && h("p", { class: "facts" }, `${clock(query.duration)}${refined ? " · likely videos looked at closely" : ""}`),
        h("p", { class: "counts" }, words)),
      h("div", { class: "acts" },
        h("a", { class: "button", href: again }, "New search"),
        query.kind !== "video" && session.mayChange && h("button", { onclick: (event) => add(query, event.currentTarget) }, "Add this clip"))),
    strong.length
      ? h("ol", { class: "hits", "aria-label": "Videos that share footage" }, strong.map((one) => hit(query, one)))
      : h("p", { class: "faint" }, "Expected one? Check in the library that it was added. Very short or very dark clips are hard to find."),
    full && h("p", { class: "more" }, next
      ? h("button", { onclick: () => more({ ...body(query), k: next }) }, "Look for more")
      : `The ${hits.length} best are shown; more may share footage. The command “visil search” finds any number.`),
    weak.length > 0 && h("details", {},
      h("summary", {}, `${count(weak.length, "video")} that came closest, without a match`),
      h("ol", { class: "hits" }, weak.map((one) => hit(query, one)))),
  ];
}

async function add(query, button) {
  button.disabled = true;
  try {
    if (query.kind === "upload") await post(`uploads/${encodeURIComponent(query.id)}/add`);
    else await post("add", { path: query.id });
    document.dispatchEvent(new CustomEvent("visil:changed"));
    button.textContent = "Being added";
    toast(`${query.name} is being added to the collection.`);
  } catch (error) {
    button.disabled = false;
    complain(error);
  }
}

function hit(query, found) {
  const { video } = found;
  const target = { kind: "video", id: video.id };
  const where = matchAddress(query, target);
  return h("li", { class: "sheet hit" },
    sameMoment(query, target, found.segments, [query.name, video.name], found.moment) ?? thumbnail(target, early(video.duration)),
    h("div", { class: "what" },
      named(video), facts({ ...video, added: null }), verdict(found),
      h("p", {}, capital(found.in_words || shares(found.segments))),
      found.note && h("p", { class: "note" }, capital(found.note))),
    found.segments.length > 0 && h("div", { class: "lines" },
      h("div", { class: "line" }, h("span", {}, bdi(query.name)), h("span", {}, clock(query.duration ?? 0))),
      timeline(found.segments, query.duration, video.duration),
      h("div", { class: "line" }, h("span", {}, bdi(video.name)), h("span", {}, clock(video.duration ?? 0)))),
    h("div", { class: "acts" }, h("a", { class: "button main", href: where, "aria-label": `Compare with ${video.name}` }, "Compare")));
}
