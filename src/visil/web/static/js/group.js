// One group of videos that share footage.

import { bdi, h } from "./dom.js";
import { judgeButtons } from "./judge.js";
import { early, facts, named, thumbnail, timeline, verdict } from "./pictures.js";
import { matchAddress } from "./refs.js";
import { address } from "./router.js";
import { count, shares } from "./words.js";

const OPEN_PAIRS = 3;
const MOST_PAIRS = 200;

/** A group with its videos and pairs. */
export function groupSection(group, number) {
  const place = new Map(group.videos.map((video, i) => [video.id, { number: i + 1, video }]));
  const pairs = [...group.pairs].sort((a, b) => b.confidence - a.confidence || b.score - a.score);
  const rows = pairs.slice(0, MOST_PAIRS).map((pair) => pairRow(pair, place));
  return h("section", { class: "sheet group", "aria-labelledby": `group-${number}` },
    h("h2", { id: `group-${number}`, tabindex: "-1" }, `Group ${number}: ${count(group.videos.length, "video")}`),
    h("ul", { class: "cards" }, group.videos.map((video, i) => card(video, i + 1))),
    rows.length > 0 && h("h3", {}, "What they share"),
    rows.length > 0 && h("ul", { class: "pairs" }, rows.slice(0, OPEN_PAIRS)),
    rows.length > OPEN_PAIRS && h("details", {},
      h("summary", {}, count(rows.length - OPEN_PAIRS, "more pair")),
      h("ul", { class: "pairs" }, rows.slice(OPEN_PAIRS))),
    pairs.length > MOST_PAIRS && h("p", { class: "faint" }, `… and ${count(pairs.length - MOST_PAIRS, "pair")} more: the export has all.`),
    rows.length === 0 && h("p", { class: "faint" }, "The same bytes in every file, or together because someone said so."));
}

function card(video, number) {
  return h("li", { class: video.keep ? "card keep" : "card" },
    thumbnail({ kind: "video", id: video.id }, early(video.duration)),
    h("div", { class: "what" },
      video.keep && h("p", { class: "badge keep" }, video.why ? `keep: ${video.why}` : "keep"),
      named(video, number), facts({ ...video, added: null }),
      !video.keep && video.why && h("p", { class: "note" }, bdi(video.why)),
      h("p", {}, h("a", { href: address("search", { video: video.id }), "aria-label": `Find more like ${video.name}` }, "find more"))));
}

/** A pair: what it shares, where, and the person's verdict; place says for an id {video, number in its group}. */
export function pairRow(pair, place) {
  const { query, target } = pair;
  const [one, other] = [place.get(query)?.video, place.get(target)?.video];
  const label = (id, video) => {
    const number = place.get(id)?.number;
    return [number && h("span", { class: "number" }, number), bdi(video?.name ?? `video ${id.slice(0, 8)}`)];
  };
  return h("li", { class: "pair" },
    h("div", { class: "what" },
      h("p", { class: "name" }, label(query, one), " and ", label(target, other)),
      verdict(pair), h("p", { class: "facts" }, shares(pair.segments)),
      pair.segments.length > 0 && timeline(pair.segments, one?.duration, other?.duration)),
    h("div", { class: "acts" },
      h("a", { class: "button", href: matchAddress({ kind: "video", id: query }, { kind: "video", id: target }), "aria-label": `Look at ${one?.name ?? "the first"} and ${other?.name ?? "the second"}` }, "Look at it"),
      judgeButtons(query, target, pair.judgement)));
}
