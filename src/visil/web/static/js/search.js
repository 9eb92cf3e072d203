// Search: give a video, see where it was reused.

import { Problem, get, post, upload } from "./api.js";
import { bdi, debounce, h, replace } from "./dom.js";
import { folders } from "./folders.js";
import { follow, jobsOf, panel } from "./jobs.js";
import { announce, complain, failure } from "./messages.js";
import { early, facts, named, thumbnail, timeline, verdict } from "./pictures.js";
import { matchAddress } from "./refs.js";
import { address, go, note } from "./router.js";
import { bytes, clock, count, duration, shares, when } from "./words.js";

export const title = "Search";

const OFFERED = 6;

export async function show(root, context) {
  const { params, signal } = context;
  const job = params.get("job");
  const video = params.get("video");
  if (job) await results(root, job, context);
  else if (video) await start(root, { video }, context);
  else await new Question(root, context).recent(signal);
}

/** Ask the server, then write the job's address down, so that a reload comes back to it. */
async function start(root, query, context) {
  const { job } = await post("search", { ...query, k: 20 }, context.signal);
  note("search", { job: job.id });
  await results(root, job.id, context);
}

async function results(root, id, { signal }) {
  const progress = panel("Searching");
  replace(root, progress.element);
  try {
    const job = await follow(id, progress.update, signal);
    replace(root, hitList(job.result));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const said = error.status === 404 ? new Problem(404, "This search is no longer kept. Please search again.") : error;
    replace(root, failure(said), h("p", {}, h("a", { class: "button", href: "#/search" }, "Search again")));
  }
}

class Question {
  constructor(root, context) {
    Object.assign(this, context, { root });
    this.before = h("section", { class: "sheet", hidden: true, "aria-labelledby": "before-title" });
    this.dropped = h("div", { class: "sheet" }, this.dropZone());
    root.append(
      h("p", { class: "lead" }, "Give a video, and see which videos of the collection show the same footage, and where."),
      this.dropped,
      h("div", { class: "two" }, this.picker(), this.pathForm()),
      this.before);
  }

  dropZone() {
    const { limits } = this.session;
    const field = h("input", { type: "file", id: "file", accept: "video/*,.mkv,.ts,.flv", class: "unseen" });
    field.addEventListener("change", () => field.files[0] && this.send(field.files[0]));
    const zone = h("label", { class: "drop", for: "file" },
      field,
      h("span", { class: "big" }, "Drop a video here"),
      h("span", {}, "or ", h("span", { class: "button main" }, "choose a file")),
      h("span", { class: "faint" }, `up to ${bytes(limits.upload_bytes)} and ${duration(limits.upload_seconds)}; it is deleted from the server after use`));
    const over = (on) => (event) => {
      event.preventDefault();
      zone.classList.toggle("over", on);
    };
    zone.addEventListener("dragover", over(true));
    zone.addEventListener("dragleave", over(false));
    zone.addEventListener("drop", (event) => {
      over(false)(event);
      const [file] = event.dataTransfer.files;
      if (file) this.send(file);
    });
    return zone;
  }

  async send(file) {
    const { limits } = this.session;
    if (file.size > limits.upload_bytes) {
      complain(new Problem(413, `${file.name} has ${bytes(file.size)}, and the server takes up to ${bytes(limits.upload_bytes)}. Put it into a folder that the server may read and give its path.`));
      return;
    }
    const stop = new AbortController();
    const bar = h("progress", { max: 1, value: 0, "aria-label": `Sending ${file.name}` });
    const said = h("p", { class: "faint" }, `0 of ${bytes(file.size)}`);
    replace(this.dropped, h("div", { class: "job" },
      h("div", { class: "head" }, h("p", { class: "name" }, "Sending ", bdi(file.name)), h("button", { class: "quiet", onclick: () => stop.abort() }, "Stop")),
      bar, said));
    try {
      const sent = await upload(file, (share) => {
        bar.value = share;
        said.textContent = share < 1 ? `${bytes(Math.round(share * file.size))} of ${bytes(file.size)}` : `${bytes(file.size)} sent; the server takes a first look`;
      }, AbortSignal.any([stop.signal, this.signal]));
      await this.ask({ upload: sent.upload });
    } catch (error) {
      complain(error);
      if (!this.signal.aborted) replace(this.dropped, this.dropZone());
    }
  }

  async ask(query) {
    const { job } = await post("search", { ...query, k: 20 }, this.signal);
    go("search", { job: job.id });
  }

  picker() {
    const list = h("ul", { class: "picks", "aria-label": "Videos to choose from" });
    const field = h("input", { type: "search", id: "pick", placeholder: "part of its name" });
    const offer = async () => {
      const settings = new URLSearchParams({ limit: OFFERED, q: field.value.trim(), state: "ready" });
      const { videos } = await get(`videos?${settings}`, this.signal);
      replace(list, videos.map((video) => h("li", {}, h("a", { class: "pick", href: address("search", { video: video.id }) },
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
      h("h2", {}, "By path"),
      h("label", { for: "path" }, "A file that the server may read"), field, said,
      h("button", {}, "Search"),
      roots.length ? folders({ signal: this.signal, files: true, chosen: (path, folder) => { field.value = folder ? "" : path; } })
        : h("p", { class: "faint" }, "The server was started without a folder it may read: send the file instead."));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      said.textContent = "";
      try {
        await this.ask({ path: field.value.trim() });
      } catch (error) {
        if (error.name !== "AbortError") said.textContent = error.message;
      }
    });
    return form;
  }

  async recent(signal) {
    const { open, over } = await jobsOf("search", signal);
    const kept = [...open, ...over.filter((job) => job.state === "done")].slice(0, 8);
    if (!kept.length) return;
    this.before.hidden = false;
    this.before.append(h("h2", { id: "before-title" }, "Searches before"),
      h("ul", { class: "links" }, kept.map((job) => h("li", {},
        h("a", { href: address("search", { job: job.id }) }, bdi(job.title)),
        h("span", { class: "faint" }, ` ${job.state === "done" ? when(job.created) : "under way"}`)))));
  }
}

// ------------------------------------------------------------------ what was found

/** The answer of a search as a part of the screen: what was asked, the hits, and the unrelated ones to unfold. */
function hitList({ query, hits }) {
  const strong = hits.filter((hit) => hit.verdict !== "unrelated");
  const weak = hits.filter((hit) => hit.verdict === "unrelated");
  const said = strong.length ? `${count(strong.length, "video")} of the collection ${strong.length === 1 ? "shares" : "share"} footage with it.` : "No video of the collection shares footage with it.";
  announce(said);
  return [
    h("section", { class: "sheet asked", "aria-label": "The video that was searched for" },
      thumbnail(query, early(query.duration)),
      h("div", { class: "what" },
        h("p", { class: "name" }, bdi(query.name)),
        query.duration !== null && h("p", { class: "facts" }, clock(query.duration)),
        h("p", {}, said)),
      h("a", { class: "button", href: "#/search" }, "Search for another")),
    strong.length
      ? h("ol", { class: "hits", "aria-label": "Hits" }, strong.map((one) => hit(query, one)))
      : h("p", { class: "faint" }, "If you expected one: is it in the library, and ready? Very short or very dark clips are hard to find."),
    weak.length > 0 && h("details", {},
      h("summary", {}, `${count(weak.length, "video")} that came closest without sharing footage`),
      h("ol", { class: "hits" }, weak.map((one) => hit(query, one)))),
  ];
}

function hit(query, found) {
  const { video } = found;
  const target = { kind: "video", id: video.id };
  const where = matchAddress(query, target);
  return h("li", { class: "sheet hit" },
    h("a", { class: "plain", href: where, tabindex: "-1", "aria-hidden": "true" }, thumbnail(target, middle(found))),
    h("div", { class: "what" },
      named(video), facts({ ...video, added: null }), verdict(found),
      h("p", {}, found.in_words || shares(found.segments))),
    found.segments.length > 0 && h("div", { class: "lines" },
      h("div", { class: "line" }, h("span", {}, bdi(query.name)), h("span", {}, clock(query.duration ?? 0))),
      timeline(found.segments, query.duration, video.duration),
      h("div", { class: "line" }, h("span", {}, bdi(video.name)), h("span", {}, clock(video.duration ?? 0)))),
    h("div", { class: "acts" }, h("a", { class: "button main", href: where, "aria-label": `Look at the match with ${video.name}` }, "Look at it")));
}

// A picture from the shared stretch says more than one from anywhere.
function middle({ segments, video }) {
  if (!segments.length) return early(video.duration);
  const [start, end] = segments[0].target;
  return (start + end) / 2;
}
