// Duplicates: groups of videos that share footage, what to keep of each, and a person's word on every pair.

import { get, post } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { follow, jobsOf, panel } from "./jobs.js";
import { judgeButtons } from "./judge.js";
import { announce, failure } from "./messages.js";
import { early, facts, named, thumbnail, timeline, verdict } from "./pictures.js";
import { matchAddress } from "./refs.js";
import { address, note } from "./router.js";
import { count, shares, when } from "./words.js";

const OPEN_PAIRS = 3;
const MOST_PAIRS = 200;

export const title = "Duplicates";

const AT_ONCE = 20;
/** Pairs of common footage that are listed, the first. */
const MOST_COMMON = 40;
/** Format, name of the file, words on the button. */
const EXPORTS = [
  ["csv", "duplicates.csv", "Export CSV"], ["json", "duplicates.json", "Export JSON"], ["html", "duplicates.html", "Export HTML"],
  ["plan", "plan.csv", "Export plan"],
];
const SURE = [[0.5, "50%: everything likely"], [0.7, "70%"], [0.9, "90%: copies"], [0.99, "99%: hardly a doubt"]];

export async function show(root, { params, signal, session }) {
  const body = h("div", {});
  const sure = h("select", { id: "sure" }, SURE.map(([value, text]) => h("option", { value }, text)));
  const look = h("button", { class: "main" }, "Look for duplicates");
  const form = h("form", { class: "fields" },
    h("label", {}, h("span", {}, "Lowest confidence"), sure), look,
    h("div", { class: "exports", hidden: true }, EXPORTS.map(([format, name, words]) =>
      h("a", { class: "button", href: `api/duplicates/export?format=${format}`, download: name }, words))));
  root.append(form, body);

  const run = async (id) => {
    const progress = panel("Comparing the videos of the collection");
    replace(body, h("div", { class: "sheet" }, progress.element));
    look.disabled = true;
    try {
      await follow(id, progress.update, signal);
      note("duplicates", {});
      await latest();
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(body, failure(error));
    } finally {
      look.disabled = false;
    }
  };
  const latest = async () => {
    try {
      const found = await get("duplicates", signal);
      form.querySelector(".exports").hidden = false;
      replace(body, drawn(found));
    } catch (error) {
      if (error.status !== 404) throw error;
      replace(body, nothingYet(session.index.videos));
    }
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const { job } = await post("duplicates", { min_confidence: Number(sure.value) }, signal);
      note("duplicates", { job: job.id });
      await run(job.id);
    } catch (error) {
      if (error.name !== "AbortError") replace(body, failure(error));
    }
  });

  const { open } = await jobsOf("duplicates", signal);
  const going = open[0]?.id ?? params.get("job");
  if (going && open.some((job) => job.id === going)) await run(going);
  else await latest();
}

function nothingYet(videos) {
  return h("div", { class: "empty" },
    h("h2", {}, "Nobody has looked yet"),
    h("p", {}, videos > 1 ? `All ${count(videos, "video")} will be compared with each other. Nothing is deleted, moved or changed.` : "It takes two videos to have a duplicate."),
    videos < 2 && h("a", { class: "button main", href: "#/add" }, "Add videos"));
}

function drawn(found) {
  const { groups } = found;
  const common = found.common ?? [];
  const different = found.different ?? [];
  const videos = groups.reduce((sum, group) => sum + group.videos.length, 0);
  const said = groups.length ? `${count(groups.length, "group")} with ${count(videos, "video")}` : "No two videos share footage of their own.";
  announce(said);
  const list = h("div", { class: "groups" });
  return [
    h("p", { class: "faint" }, `${said}${found.made ? ` · found ${when(found.made)}` : ""}`),
    groups.length > 0 && h("p", { class: "faint" }, "Every file is marked keep or drop. A file is marked drop only where another has the same bytes, or was shown, picture by picture, to hold all of it. Nothing is deleted: export the plan, review it, and carry it out with visil apply."),
    list, unfolding(list, groups),
    common.length > 0 && pairList(common, `Common footage: ${count(common.length, "pair")} that share only an intro, a jingle or a few seconds`),
    different.length > 0 && pairList(different, `Not a match: ${count(different.length, "pair")} that someone judged different`),
  ];
}

/** Pairs outside the groups; who they are is asked for when someone unfolds them. */
function pairList(pairs, words) {
  const shown = pairs.slice(0, MOST_COMMON);
  const list = h("ul", { class: "pairs" });
  const box = h("details", { class: "sheet" },
    h("summary", {}, words),
    list,
    pairs.length > MOST_COMMON && h("p", { class: "faint" }, `… and ${count(pairs.length - MOST_COMMON, "pair")} more: the export has all.`));
  box.addEventListener("toggle", async () => {
    const ids = [...new Set(shown.flatMap((pair) => [pair.query, pair.target]))];
    const videos = await Promise.all(ids.map((id) => get(`videos/${encodeURIComponent(id)}`).catch(() => null)));
    const place = new Map(videos.filter(Boolean).map((video) => [video.id, { video }]));
    replace(list, shown.map((pair) => pairRow(pair, place)));
  }, { once: true });
  return box;
}

/** Put the first groups in, and give the button that brings the next. */
function unfolding(list, groups) {
  let shown = 0;
  const more = h("button", { onclick: () => next(true) });
  const next = (focus) => {
    const first = shown;
    list.append(...groups.slice(shown, shown + AT_ONCE).map((group, i) => groupSection(group, shown + i + 1)));
    shown = list.children.length;
    more.hidden = shown >= groups.length;
    more.textContent = `Show ${Math.min(AT_ONCE, groups.length - shown)} more of ${groups.length.toLocaleString("en")} groups`;
    if (focus) list.children[first]?.querySelector("h2")?.focus();
  };
  next(false);
  return more;
}

// ------------------------------------------------------------------ one group of videos that share footage

/** A group with its videos and pairs. */
function groupSection(group, number) {
  const place = new Map(group.videos.map((video, i) => [video.id, { number: i + 1, video }]));
  const pairs = [...group.pairs].sort((a, b) => b.confidence - a.confidence || b.score - a.score);
  const rows = pairs.slice(0, MOST_PAIRS).map((pair) => pairRow(pair, place));
  return h("section", { class: "sheet group", "aria-labelledby": `group-${number}` },
    h("h2", { id: `group-${number}`, tabindex: "-1" }, `Group ${number}: ${count(group.videos.length, "video")}`),
    h("ul", { class: "cards" }, group.videos.map((video, i) => card(video, i + 1, (group.files ?? []).filter((file) => file.id === video.id)))),
    rows.length > 0 && h("h3", {}, "What they share"),
    rows.length > 0 && h("ul", { class: "pairs" }, rows.slice(0, OPEN_PAIRS)),
    rows.length > OPEN_PAIRS && h("details", {},
      h("summary", {}, count(rows.length - OPEN_PAIRS, "more pair")),
      h("ul", { class: "pairs" }, rows.slice(OPEN_PAIRS))),
    pairs.length > MOST_PAIRS && h("p", { class: "faint" }, `… and ${count(pairs.length - MOST_PAIRS, "pair")} more: the export has all.`),
    rows.length === 0 && h("p", { class: "faint" }, "The same bytes in every file, or together because someone said so."));
}

function card(video, number, files) {
  return h("li", { class: video.keep ? "card keep" : "card" },
    thumbnail({ kind: "video", id: video.id }, early(video.duration)),
    h("div", { class: "what" },
      video.keep && h("p", { class: "badge keep" }, video.why ? `keep: ${video.why}` : "keep"),
      !video.keep && h("p", { class: "badge" }, video.missing ? "gone" : "drop"),
      named(video, number), facts({ ...video, added: null }),
      !video.keep && video.why && h("p", { class: "note" }, bdi(video.why)),
      files.length > 1 && h("ul", { class: "files" }, files.map((file) => h("li", { class: "note" }, `${file.action}: `, bdi(file.path)))),
      h("p", {}, h("a", { href: address("search", { video: video.id }), "aria-label": `Find more like ${video.name}` }, "find more"))));
}

/** A pair: what it shares, where, and the person's verdict; place says for an id {video, number in its group}. */
function pairRow(pair, place) {
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
