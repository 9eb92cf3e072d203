// Pairs of videos that share footage: what they share, both at the same moment, and a person's verdict.

import { get } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { judgeButtons } from "./judge.js";
import { sameMoment, timeline, verdict } from "./pictures.js";
import { matchAddress } from "./refs.js";
import { count, shares } from "./words.js";

/** Pairs outside groups that are listed, the first. */
const MOST_LISTED = 40;

/** A pair; place says for an id {video, number in its group}; judged() is called after a verdict. */
export function pairRow(pair, place, judged) {
  const { query, target } = pair;
  const [one, other] = [place.get(query)?.video, place.get(target)?.video];
  const label = (id, video) => {
    const number = place.get(id)?.number;
    return [number && h("span", { class: "number" }, number), bdi(video?.name ?? `video ${id.slice(0, 8)}`)];
  };
  const refs = [query, target].map((id) => ({ kind: "video", id }));
  return h("li", { class: "pair" },
    sameMoment(...refs, pair.segments, [one?.name, other?.name], pair.moment),
    h("div", { class: "what" },
      h("p", { class: "name" }, label(query, one), " and ", label(target, other)),
      verdict(pair), h("p", { class: "facts" }, shares(pair.segments)),
      pair.segments.length > 0 && timeline(pair.segments, one?.duration, other?.duration)),
    h("div", { class: "acts" },
      h("a", { class: "button", href: matchAddress(...refs), "aria-label": `Compare ${one?.name ?? "the first"} with ${other?.name ?? "the second"}` }, "Compare"),
      judgeButtons(query, target, pair.judgement, judged)));
}

/** Pairs outside the groups; who they are is asked for when someone unfolds them. */
export function pairList(pairs, words, judged) {
  const shown = pairs.slice(0, MOST_LISTED);
  const list = h("ul", { class: "pairs" });
  const box = h("details", { class: "sheet" },
    h("summary", {}, words),
    list,
    pairs.length > MOST_LISTED && h("p", { class: "faint" }, `The export has ${count(pairs.length - MOST_LISTED, "more pair")}.`));
  box.addEventListener("toggle", async () => {
    const ids = [...new Set(shown.flatMap((pair) => [pair.query, pair.target]))];
    const videos = await Promise.all(ids.map((id) => get(`videos/${encodeURIComponent(id)}`).catch(() => null)));
    const place = new Map(videos.filter(Boolean).map((video) => [video.id, { video }]));
    replace(list, shown.map((pair) => pairRow(pair, place, judged)));
  }, { once: true });
  return box;
}
