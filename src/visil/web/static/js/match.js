// Match: asks for the comparison of two videos and shows it.

import { inside, ofSegment, segmentAt, through, toTarget } from "./alignment.js";
import { Problem, get, post } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { evidence } from "./evidence.js";
import { Heatmap, cellAt, edges } from "./heatmap.js";
import { follow, panel } from "./jobs.js";
import { judgeButtons } from "./judge.js";
import { announce, failure } from "./messages.js";
import { COLOURS, longest, verdict } from "./pictures.js";
import { Player } from "./player.js";
import { body, parse, sideMedia } from "./refs.js";
import { note } from "./router.js";
import { screenKeys } from "./shortcuts.js";
import { Lens } from "./still.js";
import { Sync } from "./sync.js";
import { Tracks } from "./tracks.js";
import { capital, clock, duration, shares, span } from "./words.js";

/** A click in a stretch that is this close to its line, in seconds, means the line. */
const CLOSE = 1;
const SPEEDS = [0.25, 0.5, 1, 1.5, 2];

export const title = "Match";

export async function show(root, context) {
  const { params, signal } = context;
  const [query, target, kept] = [parse(params.get("query")), parse(params.get("target")), params.get("comparison")];
  const both = query && target;
  if (!both && !kept) {
    root.append(h("div", { class: "empty" },
      h("p", {}, "A match is between two videos. Search for one, then compare it with what was found."),
      h("a", { class: "button main", href: "#/search" }, "Search")));
    return;
  }
  const [place, above] = [h("div", {}), h("div", {})];
  root.append(wayBack(params.get("from")), above, place);
  let view = null;
  const final = (comparison) => {
    note("match", { query: params.get("query"), target: params.get("target"), comparison, from: params.get("from") });
    view.offer();
  };
  const shown = async (comparison) => {
    const { result } = await get(`comparisons/${encodeURIComponent(comparison)}`, signal);
    view = new Comparison(place, result, context, view);
    await view.load();
  };
  const ask = async (refine, words, into) => {
    const progress = panel(words);
    replace(into, h("div", { class: "sheet" }, progress.element));
    const { job } = await post("compare", { query: body(query), target: body(target), refine }, signal);
    const update = (said) => progress.update({ ...said, title: words });
    return (await follow(job.id, update, signal)).result;
  };
  const compare = async () => {
    try {
      const { comparison } = await ask(false, "Comparing the two videos", place);
      await shown(comparison);
      await closely(comparison);
    } catch (error) {
      if (error.name !== "AbortError") replace(place, failure(explained(error), compare));
    }
  };
  // A closer look takes seconds: what is known without it is there meanwhile.
  const closely = async (rough) => {
    try {
      const { comparison, refined } = await ask(true, "Looking closely at both videos", above);
      replace(above);
      if (refined) await shown(comparison);
      final(refined ? comparison : rough);
      if (refined) announce("Both videos were looked at closely.");
    } catch (error) {
      if (error.name === "AbortError") throw error;
      final(rough);
      replace(above, failure(explained(error), () => closely(rough)));
    }
  };
  if (!kept) {
    await compare();
    return;
  }
  try {
    await shown(kept);
    final(kept);
  } catch (error) {
    if (error.name === "AbortError") return;
    // Not every match is kept for ever; what is gone is made again, if both videos are known.
    if (error.status === 404 && both) await compare();
    else replace(place, failure(error.status === 404 ? new Problem(404, "This match is no longer kept. “Copy link” keeps a match for good.") : explained(error)));
  }
}

/** A link to where the match was opened from. */
function wayBack(from) {
  const screen = /^(search|duplicates|library)(\?|$)/.exec(from ?? "")?.[1];
  const words = { search: "Back to the results", duplicates: "Back to duplicates", library: "Back to the library" }[screen];
  return h("p", { class: "back" }, h("a", { href: screen ? `#/${from}` : "#/search" }, `← ${words ?? "Search"}`));
}

function explained(error) {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(0, "The server’s answer could not be shown. The browser’s console has details.");
}

/** A finished comparison: players, timelines, stretches, matrices, and how the result came about. */
class Comparison {
  /** before: what it takes the place of, whose players it goes on from. */
  constructor(root, found, context, before) {
    const here = new AbortController();
    const signal = AbortSignal.any([context.signal, here.signal]);
    Object.assign(this, { found, signal, here, chosen: -1, attending: false });
    const { query, target, segments } = found;
    const lengths = [query, target].map((one, i) => Math.max(one.duration ?? 0, found[i ? "target_times" : "query_times"].at(-1) ?? 0));
    const sources = [sideMedia(found, "query"), sideMedia(found, "target")];
    this.query = new Player("query", query.name, sources[0], lengths[0]);
    this.target = new Player("target", target.name, sources[1], lengths[1]);
    this.sync = new Sync(this.query, this.target, (q, t) => this.moved(q, t), () => this.showPlaying());
    this.tracks = new Tracks(segments, lengths[0], lengths[1], (side, time) => this.seek(side, time));
    this.lens = new Lens(...sources);
    this.maps = this.heatmaps();
    this.frames = { query: edges(found.query_times, found.query_times.length), target: edges(found.target_times, found.target_times.length) };
    replace(root, this.summary(), this.players(), this.stretches(), this.matrices(), this.how());
    this.keys();
    if (segments.length) this.choose(strongest(longest(segments)));
    else this.sync.goto(0);
    this.began = this.sync.now;
    signal.addEventListener("abort", () => this.sync.pause());
    if (before) this.follow(before);
  }

  /** Take the place of a comparison that is on show. */
  follow({ sync, began, here }) {
    const { now, playing } = sync;
    here.abort();
    if (now !== began) this.seek("query", now);
    if (playing) this.sync.play();
  }

  /** What to take away, once nothing will take its place. */
  offer() {
    replace(this.evidence, evidence(this.found));
  }

  /** Fetch what is large. */
  async load() {
    this.judgement().catch(() => {});
    await Promise.all(this.maps.map((map) => map.load(this.signal)));
  }

  summary() {
    const { found } = this;
    [this.judge, this.evidence] = [h("div", {}), h("div", {})];
    return h("section", { class: "sheet summary", "aria-label": "Result" },
      h("div", {}, h("p", { class: "big" }, capital(found.in_words || shares(found.segments)), found.segments.length > 0 && [" of ", bdi(found.target.name)]), verdict(found),
        found.note && h("p", { class: "note" }, capital(found.note)),
        h("p", { class: "faint" }, `Score ${found.score.toFixed(2)} of 1`)),
      h("div", {}, this.evidence, this.judge));
  }

  async judgement() {
    const { query, target } = this.found;
    if (query.kind !== "video" || target.kind !== "video") return;
    const { judgements } = await get("judgements", this.signal);
    const ids = new Set([query.id, target.id]);
    const said = judgements.find((one) => ids.has(one.a) && ids.has(one.b) && one.a !== one.b);
    replace(this.judge, judgeButtons(query.id, target.id, said?.verdict));
  }

  players() {
    const { query, target } = this.found;
    const side = (player, label, one) => h("div", { class: "player" },
      h("p", { class: "label" }, h("span", { class: "number" }, label), bdi(one.name)), player.element);
    this.button = h("button", { class: "main play", "aria-keyshortcuts": "k", onclick: () => this.sync.toggle() }, "Play both");
    this.clock = h("p", { class: "clock" });
    this.repeat = h("input", { type: "checkbox", id: "repeat" });
    this.repeat.addEventListener("change", () => { this.sync.repeat = this.repeat.checked; });
    const speed = h("select", { id: "speed" }, SPEEDS.map((value) => h("option", { value, selected: value === 1 }, `${value}×`)));
    speed.addEventListener("change", () => { this.sync.speed = Number(speed.value); });
    const sound = h("select", { id: "sound" }, ["off", "query", "target"].map((value) => h("option", { value }, value)));
    sound.addEventListener("change", () => {
      for (const player of [this.query, this.target]) player.sound = sound.value === player.side;
    });
    return h("section", { class: "sheet", "aria-label": "Both videos" },
      h("div", { class: "players" }, side(this.query, "query", query), side(this.target, "target", target)),
      h("div", { class: "controls" }, this.button, this.clock,
        h("label", { class: "check" }, this.repeat, "Repeat the stretch"),
        h("label", {}, "Speed ", speed), h("label", {}, "Sound ", sound),
        this.found.attention && this.attentionSwitch()),
      this.tracks.element);
  }

  attentionSwitch() {
    const box = h("input", { type: "checkbox", id: "attention" });
    box.addEventListener("change", () => {
      this.attending = box.checked;
      this.attend(true);
    });
    return h("label", { class: "check", title: "What the model looked at: more weight is red, less is blue" }, box, "Attention");
  }

  stretches() {
    const { segments } = this.found;
    this.chips = longest(segments).map((segment, i) => h("button", { class: `stretch s${i % COLOURS}`, "aria-pressed": "false", onclick: () => this.choose(i) },
      h("b", {}, String(i + 1)), ` ${span(segment.query)} matches ${span(segment.target)}`, speedWord(segment)));
    return h("section", { class: "chips", "aria-label": "Shared stretches: query, then target" },
      this.chips.length ? this.chips : h("p", { class: "faint" }, "No shared stretch was found. The matrix below shows what looks alike."));
  }

  heatmaps() {
    const { found } = this;
    const told = (which) => ({
      looked: (q, t, value) => {
        this.lens.show(q, t, value);
        for (const map of this.maps) if (map.which !== which) map.point(q, t);
      },
      picked: (q, t) => this.pick(q, t),
    });
    const folded = found.output_matrix.rows !== found.query_times.length;
    return [
      new Heatmap(found, "frame_matrix", { title: "Frame by frame", note: "How alike each frame of the query (down) is to each frame of the target (across)", ...told("frame_matrix") }),
      folded && new Heatmap(found, "output_matrix", { title: "After the network", note: "The same, once the network has looked for footage that runs on in both", fixed: [-1, 1], ...told("output_matrix") }),
    ].filter(Boolean);
  }

  matrices() {
    return h("section", { class: "sheet", "aria-label": "Matrices" },
      h("div", { class: "matrices" }, this.maps.map((map) => map.element), this.lens.element));
  }

  how() {
    const { how = [] } = this.found;
    return how.length > 0 && h("details", { class: "sheet", open: true },
      h("summary", {}, h("h2", {}, "How this was decided")), h("ol", {}, how.map((sentence) => h("li", {}, sentence))));
  }

  // ------------------------------------------------------------------ what people do

  keys() {
    const by = (seconds) => () => this.sync.goto(this.sync.now + seconds);
    const frame = (step) => () => {
      const edge = this.frames.query;
      this.sync.goto(edge[Math.min(Math.max(cellAt(edge, this.sync.now + 1e-4) + step, 0), edge.length - 2)]);
    };
    screenKeys({
      k: () => this.sync.toggle(), " ": () => this.sync.toggle(), j: by(-1), l: by(1), J: by(-5), L: by(5), ",": frame(-1), ".": frame(1),
      "[": () => this.choose(this.chosen - 1), "]": () => this.choose(this.chosen + 1),
      r: () => this.repeat.click(), m: () => this.maps[0].field.focus(),
    }, this.signal);
  }

  /** Take up a stretch and go to its start. */
  choose(number) {
    const segments = longest(this.found.segments);
    if (!segments[number]) return;
    this.mark(number);
    this.sync.choose(segments[number]);
  }

  mark(number) {
    this.chosen = number;
    this.chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(i === number)));
    for (const part of [this.tracks, ...this.maps]) part.mark(number);
  }

  /** Someone points at a time of one video: the other goes to what belongs to it. */
  seek(side, time) {
    const segments = longest(this.found.segments);
    const holds = (segment) => segment && inside(segment[side], time);
    const number = holds(segments[this.chosen]) ? this.chosen : segments.findIndex(holds);
    if (number >= 0) {
      this.mark(number);
      this.sync.align(ofSegment(segments[number]), segments[number].query);
    }
    if (side === "query") this.sync.goto(time);
    else this.sync.gotoTarget(time);
  }

  /** A point of the matrix: both go to its very frames; inside a stretch they run along it from there. */
  pick(query, target) {
    const segments = longest(this.found.segments);
    const number = segmentAt(segments, query, target);
    const line = number >= 0 ? ofSegment(segments[number]) : null;
    this.mark(number);
    if (line && Math.abs(toTarget(line, query) - target) <= CLOSE) this.sync.align(line, segments[number].query);
    else this.sync.align(through(query, target, line?.ratio ?? 1), line ? segments[number].query : null);
    this.sync.goto(query);
  }

  // ------------------------------------------------------------------ what follows from it

  moved(query, target) {
    this.tracks.playhead(query, target);
    for (const map of this.maps) map.playhead(query, target);
    this.clock.textContent = `${clock(query, true)} | ${clock(target, true)}`;
    this.times = { query, target };
    if (this.attending) this.attend(false);
  }

  attend(now) {
    const stamp = performance.now();
    if (!now && stamp - (this.attended ?? 0) < 400 && this.sync.playing) return;
    this.attended = stamp;
    for (const player of [this.query, this.target]) {
      const frame = cellAt(this.frames[player.side], this.times[player.side] + 1e-4);
      player.cover = this.attending
        ? `api/comparisons/${encodeURIComponent(this.found.comparison)}/attention.png?side=${player.side}&frame=${frame}` : null;
    }
  }

  showPlaying() {
    this.button.textContent = this.sync.playing ? "Pause" : "Play both";
  }
}

// Where to begin: the stretch that says most.
function strongest(segments) {
  const says = segments.map(({ query: [start, end], score }) => (end - start) * score);
  return says.indexOf(Math.max(...says));
}

// Said only where one is clearly slower than the other.
function speedWord(segment) {
  const ratio = Math.abs(ofSegment(segment).ratio);
  const [a, b] = segment.query;
  const way = segment.reversed ? ", backwards" : "";
  if (b - a < 3 || (ratio > 0.95 && ratio < 1.05)) return ` · ${duration(b - a)}${way}`;
  return ` · ${duration(b - a)}${way}, the target ${ratio > 1 ? `${ratio.toFixed(2)}× as long` : `${(1 / ratio).toFixed(2)}× as fast`}`;
}
