// Add: choose a folder; what is in progress is shown to whoever looks, also after a reload.

import { post } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { folders } from "./folders.js";
import { follow, jobsOf, panel } from "./jobs.js";
import { announce, complain, told } from "./messages.js";
import { note } from "./router.js";
import { count, when } from "./words.js";

export const title = "Add";

export async function show(root, { params, session, signal }) {
  const running = h("div", { class: "running", "aria-live": "off" });
  const before = h("section", { class: "sheet", hidden: true, "aria-labelledby": "added-title" });
  const followed = new Set();

  const track = async (id) => {
    if (followed.has(id)) return;
    followed.add(id);
    const progress = panel("Adding videos");
    const box = h("div", { class: "sheet" }, progress.element);
    running.prepend(box);
    try {
      const job = await follow(id, progress.update, signal);
      replace(box, outcome(job.title, job.result));
      announce(`${job.title}: done`);
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(box, h("p", { class: "name" }, progress.element.querySelector(".name").textContent), h("p", { class: "wrong" }, told(error)));
      announce(error.message);
    }
    document.dispatchEvent(new CustomEvent("visil:changed"));
  };

  root.append(
    h("p", { class: "lead" }, "Choose a folder. Each video is read once, and your files stay where they are. Files that are already in the collection are skipped."),
    session.mayChange ? form(session, track, signal) : h("p", { class: "notice" }, "Nothing can be added here: the collection is read-only, or your token may not change it."),
    running, before);

  const { open, over } = await jobsOf("add", signal);
  for (const job of open.toReversed()) track(job.id);
  const named = params.get("job");
  if (named && !followed.has(named)) track(named);
  const old = over.filter((job) => job.id !== named).slice(0, 8);
  if (!old.length) return;
  before.hidden = false;
  before.append(h("h2", { id: "added-title" }, "Earlier"), h("ul", { class: "links" }, old.map((job) => h("li", {},
    bdi(job.title), h("span", { class: job.state === "failed" ? "wrong" : "faint" }, ` ${ending(job)}`)))));
}

function ending(job) {
  if (job.state === "failed") return `failed: ${job.error}`;
  return `${job.state === "cancelled" ? "stopped" : "done"}, ${when(job.finished ?? job.created)}`;
}

function form(session, track, signal) {
  const field = h("input", { id: "folder", required: true, autocomplete: "off", spellcheck: "false", placeholder: session.roots[0] ?? "/folder/of/videos" });
  const said = h("p", { class: "wrong", role: "alert" });
  const element = h("form", { class: "sheet" },
    h("label", { for: "folder" }, "Folder or file on the server"), field, said,
    folders({ signal, files: true, chosen: (path) => { field.value = path; } }),
    h("button", { class: "main" }, "Add"));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "";
    try {
      const { job } = await post("add", { path: field.value.trim() });
      note("add", { job: job.id });
      field.value = "";
      track(job.id).catch(complain);
    } catch (error) {
      said.textContent = told(error);
    }
  });
  return element;
}

// What came of it; the numbers are there as far as the server tells them.
function outcome(title, result) {
  const failed = Array.isArray(result?.failed) ? result.failed.length : result?.failed ?? 0;
  const said = [];
  if (result?.added !== undefined) said.push(`${count(size(result.added), "video")} added`);
  if (result?.unchanged) said.push(`${size(result.unchanged).toLocaleString("en")} unchanged`);
  if (failed) said.push(`${failed.toLocaleString("en")} failed`);
  return [
    h("p", { class: "name" }, bdi(title)),
    h("p", {}, said.length ? `Done: ${said.join(", ")}.` : "Done."),
    h("div", { class: "acts across" },
      h("a", { class: "button main", href: "#/search" }, "Search for a clip"),
      h("a", { class: "button", href: "#/library?sort=-added" }, "Open the library"),
      h("a", { class: "button", href: "#/duplicates" }, "Find duplicates"),
      failed > 0 && h("a", { class: "button", href: "#/library?state=failed" }, "Show what failed")),
  ];
}

const size = (value) => (Array.isArray(value) ? value.length : Number(value));
