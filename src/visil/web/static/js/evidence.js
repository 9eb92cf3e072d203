// What people take away from a match: a link that lasts, timecodes, a report, and stretches for editors.

import { put } from "./api.js";
import { copyText } from "./copy.js";
import { h } from "./dom.js";
import { exportLink, exportMenu } from "./menu.js";
import { complain } from "./messages.js";
import { address } from "./router.js";
import { timecode } from "./words.js";

const FORMS = [
  ["edl", "EDL", "edit decision list, CMX 3600"], ["otio", "OTIO", "OpenTimelineIO, for editing programs"],
  ["csv", "CSV", "one row for every stretch"], ["srt", "SRT", "subtitles that name the source"],
];

/** The buttons of one match. */
export function evidence(found) {
  const folder = `api/comparisons/${encodeURIComponent(found.comparison)}`;
  const link = h("button", { onclick: () => keep(found, link) }, "Copy link");
  const shared = found.segments.length > 0;
  return h("div", { class: "acts across evidence" }, link,
    shared && h("button", { onclick: () => copyText(timecodes(found), "Timecodes copied.") }, "Copy timecodes"),
    exportMenu([
      exportLink("match.html", "Report, HTML", "with pictures, in one file", { href: `${folder}/report.html` }),
      shared && FORMS.map(([form, words, more]) => exportLink(`stretches.${form}`, words, more, { href: `${folder}/stretches.${form}` })),
    ], "end"));
}

/** Keep the match for good, with a copy of a clip that was sent, then copy its address. */
async function keep(found, button) {
  button.disabled = true;
  button.textContent = "Saving …";
  try {
    await put(`comparisons/${encodeURIComponent(found.comparison)}/keep`);
    const where = new URL(address("match", { comparison: found.comparison }), location.href);
    await copyText(where.href, "Link copied. This match is now kept, also after the clip is gone.");
  } catch (error) {
    complain(error);
  } finally {
    button.disabled = false;
    button.textContent = "Copy link";
  }
}

/** Every stretch on a line: both names, from and to in each. */
function timecodes({ query, target, segments }) {
  const line = ({ query: [a, b], target: [c, d] }) => [query.name, timecode(a), timecode(b), target.name, timecode(c), timecode(d)].join("\t");
  return segments.map(line).join("\n");
}
