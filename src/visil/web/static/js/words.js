// Times, sizes and verdicts as people write them; the same words as in the report and on the command line.

/** 7 → 0:07, 750 → 12:30, 3725 → 1:02:05; with tenths 0:07.5. */
export function clock(seconds, tenths = false) {
  let whole = Math.round(seconds * (tenths ? 10 : 1));
  const tenth = tenths ? whole % 10 : 0;
  if (tenths) whole = Math.floor(whole / 10);
  const two = (n) => String(n).padStart(2, "0");
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const text = hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
  return tenths ? `${text}.${tenth}` : text;
}

/** 3725.5 → 01:02:05.500, as editors paste it. */
export function timecode(seconds) {
  const thousandths = Math.round(seconds * 1000);
  const [hours, minutes, rest] = [Math.floor(thousandths / 3600000), Math.floor(thousandths / 60000) % 60, thousandths % 60000];
  const two = (n) => String(n).padStart(2, "0");
  return `${two(hours)}:${two(minutes)}:${two(Math.floor(rest / 1000))}.${String(rest % 1000).padStart(3, "0")}`;
}

/** 0:12–0:24. */
export function span([start, end], tenths = false) {
  return `${clock(start, tenths)}–${clock(end, tenths)}`;
}

/** A length of time: 0.5 s, 24 s, 3 min 20 s, 1 h 5 min. */
export function duration(seconds) {
  if (seconds < 10 && Math.abs(seconds - Math.round(seconds)) >= 0.05) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  const all = Math.round(whole / 60);
  return all % 60 ? `${Math.floor(all / 60)} h ${all % 60} min` : `${all / 60} h`;
}

/** 1234567 → 1.2 MB. */
export function bytes(size) {
  for (const [unit, scale] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (size >= scale) return `${(size / scale).toFixed(size >= 100 * scale ? 0 : 1)} ${unit}`;
  }
  return `${size} bytes`;
}

/** A confidence, without rounding it to certainty. */
export function percent(confidence) {
  if (confidence > 0.999) return "over 99.9%";
  return `${(100 * confidence).toFixed(confidence > 0.99 ? 1 : 0)}%`;
}

/** 1 → "1 video", 1200 → "1,200 videos"; several is for words that take no s. */
export function count(number, thing, several = `${thing}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? thing : several}`;
}

/** A sentence begins. */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A moment in the past, in the reader's own way of writing dates. */
export function when(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return "";
  const minutes = (Date.now() - date.getTime()) / 60000;
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${Math.floor(minutes)} min ago`;
  return date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** How much of the query is found in the target, counting no moment twice. */
export function sharedSeconds(segments) {
  let [total, reached] = [0, -Infinity];
  for (const [start, end] of segments.map((s) => s.query).sort((a, b) => a[0] - b[0])) {
    total += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  return total;
}

/** What two videos share, in a sentence. */
export function shares(segments) {
  if (!segments.length) return "No shared footage found";
  const parts = segments.length > 1 ? ` in ${segments.length} stretches` : "";
  const [a, b] = [clock(segments[0].query[0]), clock(segments[0].target[0])];
  return `Shares ${duration(sharedSeconds(segments))}${parts}, from ${a} in the first and ${b} in the second`;
}

/** A verdict as it is shown, and what it means, for a tool tip. */
export const VERDICTS = {
  copy: ["Copy", "One contains footage of the other."],
  related: ["Related", "They probably share some footage."],
  unrelated: ["No match", "No shared footage was found."],
  unclear: ["Unclear", "There is too little to judge, such as a few dark frames."],
};
