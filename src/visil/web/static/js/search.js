// Search: give one or several clips, see which videos show the same footage.

import { Problem, get, post } from "./api.js";
import { bdi, debounce, h, replace } from "./dom.js";
import { folders } from "./folders.js";
import { hitList, summary } from "./hits.js";
import { follow, jobsOf, panel } from "./jobs.js";
import { complain, failure, told } from "./messages.js";
import { early, thumbnail } from "./pictures.js";
import { address, go, note } from "./router.js";
import { Sending } from "./sending.js";
import { bytes, clock, count, duration, when } from "./words.js";

export const title = "Search";

const OFFERED = 6;
/** Hits that are asked for at first. */
const FIRST = 20;
/** Why clips of searches that were started together could not be searched for. */
const refused = new Map();

export async function show(root, context) {
  const { params, signal } = context;
  const [job, jobs, video] = ["job", "jobs", "video"].map((name) => params.get(name));
  if (job) await results(root, job, context);
  else if (jobs) await several(root, jobs.split(","), context);
  else if (video) await start(root, { video, ...looking(params.has("closely")) }, context);
  else await new Question(root, context).recent(signal);
}

/** How closely likely hits are looked at, for the API. */
const looking = (closely) => (closely ? { refine: true } : {});

/** Ask the server, then write the job's address down, so that a reload comes back to it. */
async function start(root, query, context) {
  const { job } = await post("search", { k: FIRST, ...query }, context.signal);
  note("search", { job: job.id });
  await results(root, job.id, context);
}

async function results(root, id, context) {
  const progress = panel("Searching");
  replace(root, progress.element);
  try {
    const job = await follow(id, progress.update, context.signal);
    const { refined } = job.result;
    replace(root, hitList(job.result, {
      session: context.session,
      again: address("search", { closely: refined ? 1 : "" }),
      more: (query) => start(root, { ...query, ...looking(refined) }, context).catch(complain),
    }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const said = error.status === 404 ? new Problem(404, "This search is no longer kept. Please search again.") : error;
    replace(root, failure(said), h("p", {}, h("a", { class: "button", href: "#/search" }, "New search")));
  }
}

const notices = (sentences) => sentences.map((words) => h("p", { class: "notice bad", role: "alert" }, words));

/** Searches that were started together: how far each is, then what it found. */
async function several(root, ids, { params, signal }) {
  root.append(
    h("p", { class: "lead" }, `${count(ids.length, "search", "searches")}, one for each clip.`),
    ...notices(refused.get(ids.join(",")) ?? []),
    h("ol", { class: "rows", "aria-label": "Searches" }, ids.map((id) => {
      const row = h("li", { class: "row" });
      const progress = panel("Searching");
      row.append(progress.element);
      follow(id, progress.update, signal).then(({ title: name, result }) => {
        replace(row,
          thumbnail(result.query, early(result.query.duration)),
          h("div", { class: "what" }, h("p", { class: "name" }, bdi(result.query.name ?? name)), h("p", {}, summary(result.hits).words)),
          h("div", { class: "acts" }, h("a", { class: "button", href: address("search", { job: id }), "aria-label": `Results for ${result.query.name}` }, "Results")));
      }).catch((error) => {
        if (error.name !== "AbortError") replace(row, h("p", { class: "wrong" }, told(error)));
      });
      return row;
    })),
    h("p", {}, h("a", { class: "button", href: address("search", { closely: params.get("closely") }) }, "New search")));
}

class Question {
  constructor(root, context) {
    Object.assign(this, context, { root, closely: context.params.has("closely") });
    this.before = h("section", { class: "sheet", hidden: true, "aria-labelledby": "before-title" });
    this.dropped = h("div", { class: "sheet" }, this.dropZone());
    root.append(
      h("p", { class: "lead" }, "Choose a clip to see which videos in the collection show the same footage, and where."),
      this.option(),
      this.dropped,
      h("div", { class: "two" }, this.picker(), this.pathForm()),
      this.before);
  }

  /** What every way to search goes by; the address keeps it. */
  option() {
    const box = h("input", { type: "checkbox", id: "closely", checked: this.closely, "aria-describedby": "closely-words" });
    box.addEventListener("change", () => {
      this.closely = box.checked;
      note("search", this.settings());
      for (const link of this.root.querySelectorAll(".pick")) link.href = this.pick(link.dataset.video);
    });
    return h("p", { class: "option" },
      h("label", { class: "check" }, box, "Look closely (slower)"),
      h("span", { class: "faint", id: "closely-words" }, "Looks at likely videos four times a second: tells copies from look-alikes more surely, and says more exactly where they begin and end."));
  }

  settings(more = {}) {
    return { ...more, closely: this.closely ? 1 : "" };
  }

  pick(video) {
    return address("search", this.settings({ video }));
  }

  dropZone() {
    const { limits } = this.session;
    const field = h("input", { type: "file", id: "file", accept: "video/*,.mkv,.ts,.flv", multiple: true, class: "unseen" });
    field.addEventListener("change", () => this.send([...field.files]));
    const zone = h("label", { class: "drop", for: "file" },
      field,
      h("span", { class: "big" }, "Drop clips here"),
      h("span", {}, "or ", h("span", { class: "button main" }, "Choose files")),
      h("span", { class: "faint" }, `Up to ${bytes(limits.upload_bytes)} and ${duration(limits.upload_seconds)} each. Uploaded clips are deleted after use.`));
    const over = (on) => (event) => {
      event.preventDefault();
      zone.classList.toggle("over", on);
    };
    zone.addEventListener("dragover", over(true));
    zone.addEventListener("dragleave", over(false));
    zone.addEventListener("drop", (event) => {
      over(false)(event);
      this.send([...event.dataTransfer.files]);
    });
    return zone;
  }

  /** Upload files one after another, and search for each. */
  async send(files) {
    if (!files.length) return;
    const sending = new Sending(files, this.session.limits, this.signal);
    replace(this.dropped, sending.element);
    const jobs = await sending.each(async (upload) => (await post("search", { upload, k: FIRST, ...looking(this.closely) }, this.signal)).job.id);
    if (this.signal.aborted) return;
    refused.set(jobs.join(","), sending.refused);
    if (files.length > 1 && jobs.length) go("search", this.settings({ jobs: jobs.join(",") }));
    else if (jobs.length) go("search", { job: jobs[0] });
    else replace(this.dropped, files.length > 1 && notices(sending.refused), this.dropZone());
  }

  async ask(query) {
    const { job } = await post("search", { ...query, k: FIRST, ...looking(this.closely) }, this.signal);
    go("search", { job: job.id });
  }

  picker() {
    const list = h("ul", { class: "picks", "aria-label": "Videos to choose from" });
    const field = h("input", { type: "search", id: "pick", placeholder: "Part of its name" });
    const offer = async () => {
      const settings = new URLSearchParams({ limit: OFFERED, q: field.value.trim(), state: "ready" });
      const { videos } = await get(`videos?${settings}`, this.signal);
      replace(list, videos.map((video) => h("li", {}, h("a", { class: "pick", "data-video": video.id, href: this.pick(video.id) },
        thumbnail({ kind: "video", id: video.id }, early(video.duration)), h("span", {}, bdi(video.name), h("span", { class: "facts" }, clock(video.duration ?? 0)))))));
      if (!videos.length) replace(list, h("li", { class: "faint" }, field.value ? "No video has that name." : "The collection is empty."));
    };
    field.addEventListener("input", debounce(250, () => offer().catch(complain)));
    offer().catch(complain);
    return h("section", { class: "sheet", "aria-labelledby": "pick-title" },
      h("h2", { id: "pick-title" }, "From the library"), h("label", { for: "pick" }, "Name"), field, list);
  }

  pathForm() {
    const field = h("input", { id: "path", required: true, placeholder: "/folder/video.mp4", autocomplete: "off", spellcheck: "false" });
    const said = h("p", { class: "wrong", role: "alert" });
    const { roots } = this.session;
    const form = h("form", { class: "sheet" },
      h("h2", {}, "From the server"),
      h("label", { for: "path" }, "Path of a file on the server"), field, said,
      h("button", {}, "Search"),
      roots.length ? folders({ signal: this.signal, files: true, chosen: (path, folder) => { field.value = folder ? "" : path; } })
        : h("p", { class: "faint" }, "This server has no folders to read from. Upload the file instead."));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      said.textContent = "";
      try {
        await this.ask({ path: field.value.trim() });
      } catch (error) {
        if (error.name !== "AbortError") said.textContent = told(error);
      }
    });
    return form;
  }

  async recent(signal) {
    const { open, over } = await jobsOf("search", signal);
    const kept = [...open, ...over.filter((job) => job.state === "done")].slice(0, 8);
    if (!kept.length) return;
    this.before.hidden = false;
    this.before.append(h("h2", { id: "before-title" }, "Recent searches"),
      h("ul", { class: "links" }, kept.map((job) => h("li", {},
        h("a", { href: address("search", { job: job.id }) }, bdi(job.title)),
        h("span", { class: "faint" }, ` ${job.state === "done" ? when(job.created) : "in progress"}`)))));
  }
}
