// The review as files to take away.

import { h } from "./dom.js";
import { exportLink, exportMenu } from "./menu.js";
import { count } from "./words.js";

/** Format, name of the file, words, and whether it is the plan. */
const EXPORTS = [
  ["plan", "plan.csv", "Plan, CSV", "one row for every file: keep or drop, and why", true],
  ["plan-json", "plan.json", "Plan, JSON", "the same for programs", true],
  ["script", "plan.sh", "Plan, shell script", "moves dropped files into a folder, deletes nothing", true],
  ["html", "duplicates.html", "Report, HTML", "with pictures, in one file", false],
  ["csv", "duplicates.csv", "Matches, CSV", "one row for every shared stretch", false],
  ["json", "duplicates.json", "Everything, JSON", "groups, pairs and plan", false],
];

/** A menu of exports; once a review has begun, plans hold what was reviewed unless all is wanted. */
export function planMenu({ groups, reviewed }) {
  const partly = reviewed > 0 && reviewed < groups;
  const only = h("input", { type: "checkbox", id: "only-reviewed" });
  only.checked = partly;
  const links = EXPORTS.map(([format, name, words, more, plan]) => {
    const link = exportLink(name, words, more);
    link.set = () => { link.href = `api/duplicates/export?format=${format}${plan && only.checked ? "&reviewed=true" : ""}`; };
    link.set();
    return link;
  });
  only.addEventListener("change", () => links.forEach((link) => link.set()));
  return exportMenu([links, partly && h("label", { class: "check" }, only, `Plans: only the ${count(reviewed, "reviewed group")}`)]);
}
