// Duplicates: find them, review them group by group, and take the plan away.

import { post } from "./api.js";
import { h, replace } from "./dom.js";
import { follow, jobsOf, panel } from "./jobs.js";
import { failure } from "./messages.js";
import { Review } from "./review.js";
import { note } from "./router.js";
import { count } from "./words.js";

export const title = "Duplicates";

const SURE = [[0.5, "50%: likely"], [0.7, "70%"], [0.9, "90%: very likely"], [0.99, "99%: almost certain"]];

export async function show(root, { params, signal, session }) {
  const body = h("div", {});
  root.append(body);

  const find = async (confidence) => {
    try {
      const { job } = await post("duplicates", { min_confidence: confidence }, signal);
      note("duplicates", { job: job.id });
      await run(job.id);
    } catch (error) {
      if (error.name !== "AbortError") replace(body, failure(error, () => find(confidence)));
    }
  };
  const run = async (id) => {
    const progress = panel("Finding duplicates");
    replace(body, h("div", { class: "sheet" }, progress.element));
    try {
      await follow(id, progress.update, signal);
      note("duplicates", {});
      await latest();
    } catch (error) {
      if (error.name !== "AbortError") replace(body, failure(error, latest));
    }
  };
  const latest = async () => {
    try {
      await new Review(body, { params, signal, finder: (now) => finder(find, now) }).load();
    } catch (error) {
      if (error.status !== 404) throw error;
      replace(body, nothingYet(session.index.videos, find));
    }
  };

  const { open } = await jobsOf("duplicates", signal);
  if (open.length) await run(open[0].id);
  else await latest();
}

/** The form that starts a search for duplicates. */
function finder(find, confidence = 0.5, words = "Find again", main = false) {
  const sure = h("select", { id: "sure" }, SURE.map(([value, text]) => h("option", { value }, text)));
  sure.value = String(SURE.some(([value]) => value === confidence) ? confidence : 0.5);
  return h("form", { class: "fields finder", onsubmit: (event) => {
    event.preventDefault();
    find(Number(sure.value));
  } }, h("label", {}, h("span", {}, "Minimum confidence"), sure), h("button", { class: main && "main" }, words));
}

function nothingYet(videos, find) {
  if (videos < 2) {
    return h("div", { class: "empty" },
      h("h2", {}, "No duplicates yet"),
      h("p", {}, "It takes two videos to have a duplicate."),
      h("a", { class: "button main", href: "#/add" }, "Add videos"));
  }
  return h("div", { class: "empty" },
    h("h2", {}, "Find duplicates"),
    h("p", {}, `All ${count(videos, "video")} will be compared with each other. No file is deleted, moved or changed.`),
    finder(find, 0.5, "Find duplicates", true));
}
