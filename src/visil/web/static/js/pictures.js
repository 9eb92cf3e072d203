// Small pieces that several screens show: a video's picture, its facts, a verdict, where two videos match.

import { bdi, h, svg } from "./dom.js";
import { media } from "./refs.js";
import { VERDICTS, bytes, clock, percent, span, when } from "./words.js";

/** Stretches take turns with these; the style sheet names them s0 to s3. */
export const COLOURS = 4;
const MOST_STRETCHES = 60;

/** When to take the picture that stands for a whole video: past the titles. */
export const early = (seconds) => 0.3 * (seconds ?? 0);

/** A picture of a video at a time, fetched when it comes near the window. */
export function thumbnail(ref, at, alt = "", width = 160) {
  const source = media(ref);
  if (!source) return missing();
  const image = h("img", {
    class: "shot", loading: "lazy", decoding: "async", width: 128, height: 72, alt,
    src: source.thumbnail(at, width),
  });
  image.addEventListener("error", () => image.replaceWith(missing()), { once: true });
  return image;
}

/** Frames of a video that a preview runs through, and how long each is shown, milliseconds. */
const PREVIEWED = 6;
const SHOWN = 600;

/** A larger picture of a video; under the pointer it runs through the video. */
export function preview(video) {
  const ref = { kind: "video", id: video.id };
  const image = thumbnail(ref, early(video.duration), "", 320);
  const reel = h("span", { class: "reel", hidden: true, "aria-hidden": "true" });
  const box = h("span", { class: "tile-picture" }, image, reel);
  let [timer, frame] = [0, 0];
  const step = () => reel.style.setProperty("background-position", `${(100 * (frame++ % PREVIEWED)) / (PREVIEWED - 1)}% 0`);
  box.addEventListener("pointerenter", () => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || !video.duration) return;
    const times = Array.from({ length: PREVIEWED }, (_, i) => ((i + 0.5) / PREVIEWED * video.duration).toFixed(2)).join(",");
    const strip = new Image();
    strip.onload = () => {
      if (!timer) return;
      reel.style.setProperty("background-image", `url("${strip.src}")`);
      reel.style.setProperty("background-size", `${100 * PREVIEWED}% 100%`);
      reel.hidden = false;
    };
    strip.src = `api/videos/${encodeURIComponent(video.id)}/frames.jpg?${new URLSearchParams({ times, width: 240 })}`;
    frame = 0;
    step();
    timer = setInterval(step, SHOWN);
  });
  box.addEventListener("pointerleave", () => {
    clearInterval(timer);
    timer = 0;
    reel.hidden = true;
  });
  return box;
}

function missing() {
  return h("div", { class: "shot none" }, "No picture");
}

/** Length, size and age of a video in one line. */
export function facts(video) {
  const said = [];
  if (video.duration !== null) said.push(clock(video.duration));
  if (video.width) said.push(`${video.width}×${video.height}`);
  if (video.bytes !== null) said.push(bytes(video.bytes));
  if (video.added && video.state !== "failed") said.push(`added ${when(video.added)}`);
  return h("p", { class: "facts" }, said.join(" · "));
}

/** The folder of a path. */
const folderOf = (path) => path.slice(0, Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"), 1));

/** A file's name with its folder below. */
export function named(video, label = null) {
  return [
    h("p", { class: "name" }, label && h("span", { class: "number" }, label), bdi(video.name)),
    h("p", { class: "path", title: video.path }, bdi(folderOf(video.path))),
    video.copies?.length > 0 && h("details", { class: "copies" },
      h("summary", {}, video.copies.length === 1 ? "1 exact copy" : `${video.copies.length} exact copies`),
      h("ul", {}, video.copies.map((path) => h("li", {}, bdi(path))))),
  ];
}

/** Copy, related, no match or unclear, and how likely it is that the two share footage. */
export function verdict(found) {
  const [word, meaning] = VERDICTS[found.verdict] ?? [found.verdict, ""];
  return h("p", { class: "verdict" },
    h("span", { class: `chip ${found.verdict}`, title: meaning }, word),
    h("meter", { min: 0, max: 1, value: found.confidence, "aria-hidden": "true" }),
    h("span", { class: "sure" }, `${percent(found.confidence)} likely to share footage`));
}

/** Two pictures of the same moment: the one that the server found, or the middle of the longest stretch that two videos share. */
export function sameMoment(query, target, segments, names = [], moment = null) {
  if (!segments.length) return null;
  const { query: [a, b], target: [c, d] } = longest(segments, 1)[0];
  const [at, there] = moment ?? [(a + b) / 2, (c + d) / 2];
  const one = (ref, time, name) => h("figure", {}, thumbnail(ref, time, name ? `${name} at ${clock(time)}` : ""), h("figcaption", { class: "faint" }, clock(time)));
  return h("div", { class: "moment", role: "group", "aria-label": "The same moment in both" }, one(query, at, names[0]), one(target, there, names[1]));
}

/** Two bars, each as long as its video, with what they share in colour and joined. */
export function timeline(segments, queryLength, targetLength) {
  const shown = longest(segments);
  const said = shown.slice(0, 10).map((s) => `${span(s.query)} matches ${span(s.target)}`).join("; ");
  return svg("svg", {
    class: "timeline", viewBox: "0 0 1000 44", preserveAspectRatio: "none", role: "img",
    "aria-label": shown.length ? `Where they match, first video then second: ${said}` : "No shared footage found",
  }, bars(shown, queryLength, targetLength, 44, 10));
}

/** The drawing inside a timeline: height overall, and of each of the two bars. */
export function bars(segments, queryLength, targetLength, height, bar) {
  const low = height - bar;
  return [
    svg("rect", { class: "track", width: 1000, height: bar }),
    svg("rect", { class: "track", y: low, width: 1000, height: bar }),
    segments.map((segment, i) => {
      const [a, b] = placed(segment.query, queryLength);
      const [c, d] = placed(segment.target, targetLength);
      return svg("g", { class: `s${i % COLOURS}` },
        svg("polygon", { points: `${a},${bar} ${b},${bar} ${segment.reversed ? c : d},${low} ${segment.reversed ? d : c},${low}` }),
        svg("rect", { x: a, width: b - a, height: bar }),
        svg("rect", { x: c, y: low, width: d - c, height: bar }));
    }),
  ];
}

/** The longest stretches, in the order they came in: more could not be told apart. */
export function longest(segments, most = MOST_STRETCHES) {
  if (segments.length <= most) return segments;
  const length = (s) => s.query[1] - s.query[0];
  const kept = new Set([...segments].sort((a, b) => length(b) - length(a)).slice(0, most));
  return segments.filter((s) => kept.has(s));
}

// Where on a bar a stretch begins and ends; never too short to see.
function placed([start, end], seconds) {
  const length = Math.max(seconds ?? 0, end, 1e-3);
  const [a, b] = [(1000 * start) / length, (1000 * end) / length];
  const missing = Math.max(0, 5 - (b - a)) / 2;
  return [Math.max(0, a - missing), Math.min(1000, b + missing)];
}
