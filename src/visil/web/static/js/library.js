// Library: all videos of the collection, a page at a time, as a list or as a grid of pictures.

import { get, post } from "./api.js";
import { bdi, debounce, h, replace } from "./dom.js";
import { follow } from "./jobs.js";
import { announce, complain, toast } from "./messages.js";
import { early, facts, named, preview, thumbnail } from "./pictures.js";
import { matchAddress, media } from "./refs.js";
import { address, go, note } from "./router.js";
import { count } from "./words.js";

export const title = "Library";

const PAGE = 60;
const AGAIN = 4000;
const VIEW = "visil-library";
const SORTS = [
  ["name", "Name, A to Z"], ["-name", "Name, Z to A"], ["-added", "Newest first"], ["added", "Oldest first"],
  ["-duration", "Longest first"], ["duration", "Shortest first"], ["-size", "Largest first"], ["size", "Smallest first"],
];
const STATES = [["", "All"], ["ready", "Ready"], ["working", "Being added"], ["failed", "Failed"]];
const VIEWS = [["list", "List"], ["grid", "Grid"]];

export async function show(root, context) {
  const screen = new Library(root, context);
  await screen.load();
}

class Library {
  constructor(root, { params, session, signal }) {
    Object.assign(this, { session, signal, shown: null, selected: new Map() });
    this.wanted = {
      q: params.get("q") ?? "", sort: params.get("sort") ?? "name", state: params.get("state") ?? "",
      page: Math.max(1, Number(params.get("page")) || 1),
    };
    this.view = localStorage.getItem(VIEW) === "grid" ? "grid" : "list";
    this.list = h("ul", { "aria-label": "Videos" });
    this.found = h("p", { class: "faint", role: "status" });
    this.views = h("div", { class: "segmented", role: "group", "aria-label": "View" });
    this.chosen = h("div", { class: "chosen", role: "region", "aria-label": "Selection", hidden: true });
    this.pages = h("nav", { class: "pages", "aria-label": "Pages" });
    root.append(this.tools(), h("div", { class: "toolbar" }, this.found, this.views), this.chosen, this.list, this.pages);
  }

  tools() {
    const { wanted } = this;
    const filter = h("input", { type: "search", id: "filter", value: wanted.q, placeholder: "Part of a name or folder" });
    filter.addEventListener("input", debounce(250, () => this.change({ q: filter.value.trim() })));
    const choice = (id, options, key) => {
      const field = h("select", { id }, options.map(([value, text]) => h("option", { value }, text)));
      field.value = wanted[key];
      field.addEventListener("change", () => this.change({ [key]: field.value }));
      return field;
    };
    return h("form", { class: "fields", role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", { class: "grow" }, h("span", {}, "Filter"), filter),
      h("label", {}, h("span", {}, "Sort by"), choice("sort", SORTS, "sort")),
      h("label", {}, h("span", {}, "Show"), choice("state", STATES, "state")));
  }

  change(settings, push = false) {
    if (this.signal.aborted) return;
    Object.assign(this.wanted, { page: 1 }, settings);
    const { page, sort, ...others } = this.wanted;
    note("library", { ...others, sort: sort === "name" ? "" : sort, page: page > 1 ? page : "" }, push);
    this.load().catch(complain);
  }

  async load() {
    const { q, sort, state, page } = this.wanted;
    const settings = new URLSearchParams({ offset: (page - 1) * PAGE, limit: PAGE, sort });
    if (q) settings.set("q", q);
    if (state) settings.set("state", state);
    clearTimeout(this.timer);
    // Of two answers on their way, only the later question's counts.
    this.asked?.abort();
    this.asked = new AbortController();
    const answer = await get(`videos?${settings}`, AbortSignal.any([this.signal, this.asked.signal]));
    const text = JSON.stringify(answer);
    if (text !== this.shown) {
      this.shown = text;
      this.answer = answer;
      this.draw();
    }
    if (answer.videos.some((video) => video.state === "working")) {
      this.timer = setTimeout(() => this.load().catch(() => {}), AGAIN);
      this.signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
    }
  }

  // ------------------------------------------------------------------ drawing

  draw() {
    const { total, failed, offset, videos } = this.answer;
    const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
    const { q, state } = this.wanted;
    const found = [total > failed && `${count(total - failed, "video")}${q || state ? " found" : ""}`, failed > 0 && `${count(failed, "file")} failed`];
    this.found.textContent = total
      ? `${found.filter(Boolean).join(", ")}${total > PAGE ? `, showing ${(offset + 1).toLocaleString("en")}–${(offset + videos.length).toLocaleString("en")}` : ""}`
      : "";
    this.drawViews();
    this.list.className = total ? (this.view === "grid" ? "grid" : "rows") : "rows";
    replace(this.list, total ? videos.map((video) => (this.view === "grid" ? this.card(video) : this.row(video))) : h("li", { class: "empty" }, this.nothing()));
    this.drawPages(total);
    this.drawChosen();
    if (focused) document.querySelector(`main [data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  drawViews() {
    replace(this.views, VIEWS.map(([key, text]) => h("button", { class: "quiet", "data-key": key, "aria-pressed": String(key === this.view), onclick: () => {
      this.view = key;
      localStorage.setItem(VIEW, key);
      this.draw();
    } }, text)));
  }

  nothing() {
    const { q, state } = this.wanted;
    if (q || state) return [h("p", {}, "No videos match."), h("a", { class: "button", href: "#/library?all=1" }, "Show all videos")];
    return [h("h2", {}, "No videos yet"),
      h("p", {}, "Add a folder of videos. Each file is read once; your files stay where they are."),
      h("a", { class: "button main", href: "#/add" }, "Add videos")];
  }

  /** A box that selects a video, or a file that failed. */
  box(video) {
    const key = video.id ?? video.file;
    const box = h("input", { type: "checkbox", "aria-label": `Select ${video.name}`, "data-key": `select ${key}` });
    box.checked = this.selected.has(key);
    box.addEventListener("change", () => {
      if (box.checked) this.selected.set(key, video);
      else this.selected.delete(key);
      this.drawChosen();
    });
    if (!this.session.mayChange) return null;
    return video.state === "working" ? h("span", { class: "nobox" }) : box;
  }

  row(video) {
    const key = video.id ?? video.file;
    return h("li", { class: `row ${video.state}` },
      this.box(video),
      video.id ? h("button", { class: "plain", "aria-label": `Play ${video.name}`, "data-key": `open ${key}`, onclick: () => watch(video) }, thumbnail({ kind: "video", id: video.id }, early(video.duration)))
        : h("div", { class: "shot none" }, STATE[video.state]),
      h("div", { class: "what" }, named(video), facts(video),
        video.state === "failed" && h("p", { class: "wrong" }, `Failed: ${video.reason ?? "it could not be read"}`)),
      h("div", { class: "acts" }, video.id
        ? [h("a", { class: "button", "data-key": `find ${key}`, href: address("search", { video: video.id }), "aria-label": `Search for ${video.name}` }, "Search"),
          this.session.mayChange && h("button", { class: "quiet", "data-key": `remove ${key}`, "aria-label": `Remove ${video.name}`, onclick: () => this.forget([video]) }, "Remove")]
        : video.state === "failed" && this.session.mayChange && [
          h("button", { "data-key": `retry ${key}`, "aria-label": `Try ${video.name} again`, onclick: () => this.retry([video]) }, "Try again"),
          h("button", { class: "quiet", "data-key": `remove ${key}`, "aria-label": `Remove ${video.name}`, onclick: () => this.forget([video]) }, "Remove")]));
  }

  card(video) {
    const key = video.id ?? video.file;
    return h("li", { class: `tile ${video.state}` },
      this.box(video),
      video.id ? h("button", { class: "plain", "aria-label": `Play ${video.name}`, "data-key": `open ${key}`, onclick: () => watch(video) }, preview(video))
        : h("div", { class: "shot none" }, STATE[video.state]),
      h("p", { class: "name" }, video.id ? h("a", { href: address("search", { video: video.id }), title: video.path, "aria-label": `Search for ${video.name}` }, bdi(video.name)) : bdi(video.name)),
      video.state === "failed" ? h("p", { class: "wrong" }, video.reason) : facts({ ...video, added: null }));
  }

  drawPages(total) {
    const last = Math.ceil(total / PAGE);
    const { page } = this.wanted;
    const to = (number) => {
      this.change({ page: Math.min(Math.max(number, 1), last) }, true);
      window.scrollTo(0, 0);
    };
    const way = (text, number) => h("button", { disabled: number < 1 || number > last || number === page, "data-key": text, onclick: () => to(number) }, text);
    const field = h("input", { type: "number", id: "page", min: 1, max: last, value: String(page), "aria-label": "Page" });
    const form = h("form", { onsubmit: (event) => {
      event.preventDefault();
      to(Math.round(Number(field.value)) || 1);
    } }, h("label", {}, "Page ", field), ` of ${last.toLocaleString("en")}`);
    replace(this.pages, last > 1 && [way("First", 1), way("Previous", page - 1), form, way("Next", page + 1), way("Last", last)]);
  }

  // ------------------------------------------------------------------ the selection

  drawChosen() {
    const chosen = [...this.selected.values()];
    const ready = chosen.filter((video) => video.id);
    const failed = chosen.filter((video) => !video.id);
    this.chosen.hidden = !chosen.length;
    const here = (this.answer?.videos ?? []).filter((video) => video.state !== "working");
    const act = (words, call, kind) => h("button", { class: kind, "data-key": words, onclick: call }, words);
    replace(this.chosen,
      h("p", { class: "name", role: "status" }, `${chosen.length.toLocaleString("en")} selected`),
      h("div", { class: "acts across" },
        ready.length === 2 && !failed.length && act("Compare", () => { location.hash = matchAddress(...ready.map(({ id }) => ({ kind: "video", id }))); }),
        ready.length === 1 && !failed.length && act("Search", () => go("search", { video: ready[0].id })),
        failed.length > 0 && act(`Try ${failed.length} again`, () => this.retry(failed)),
        act("Remove", () => this.forget(chosen)),
        act("Select this page", () => {
          for (const video of here) this.selected.set(video.id ?? video.file, video);
          this.draw();
        }, "quiet"),
        act("Clear", () => this.clear(), "quiet")));
  }

  clear() {
    this.selected.clear();
    this.draw();
  }

  async retry(videos) {
    try {
      const { job } = await post("videos/retry", { files: videos.map((video) => video.file) });
      toast(`${count(videos.length, "file")} will be tried again.`);
      this.changed(videos);
      const { result } = await follow(job.id, () => {}, this.signal);
      toast(result.failed.length ? `${count(result.failed.length, "file")} failed again.` : `${count(result.added, "video")} added.`);
      this.changed([]);
    } catch (error) {
      complain(error);
    }
  }

  forget(videos) {
    const [first] = videos;
    const what = videos.length === 1 ? bdi(first.name) : count(videos.length, "video");
    const dialog = h("dialog", { "aria-labelledby": "forget-title" },
      h("form", { method: "dialog" },
        h("h2", { id: "forget-title" }, videos.length === 1 ? "Remove from the collection?" : `Remove ${count(videos.length, "video")} from the collection?`),
        h("p", {}, what, " will no longer be found. No file is deleted."),
        h("div", { class: "head" }, h("button", { value: "no", autofocus: true }, "Cancel"), h("button", { class: "danger", value: "yes" }, "Remove"))));
    dialog.addEventListener("close", async () => {
      dialog.remove();
      if (dialog.returnValue !== "yes") return;
      try {
        await post("videos/remove", { videos: videos.filter((one) => one.id).map((one) => one.id), files: videos.filter((one) => !one.id).map((one) => one.file) });
        document.dispatchEvent(new CustomEvent("visil:changed"));
        toast(videos.length === 1 ? `${first.name} was removed.` : `${count(videos.length, "video")} were removed.`);
        this.changed(videos);
      } catch (error) {
        complain(error);
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  }

  changed(videos) {
    for (const video of videos) this.selected.delete(video.id ?? video.file);
    this.shown = null;
    this.load().catch(complain);
  }
}

const STATE = { working: "Being added", failed: "Failed" };

/** A video in a window of its own. */
function watch(video) {
  const ref = { kind: "video", id: video.id };
  const player = video.playable
    ? h("video", { controls: true, preload: "metadata", src: media(ref).stream, "aria-label": video.name })
    : h("p", { class: "notice" }, "The file has moved or changed, so it cannot be played.");
  const said = h("p", { class: "faint", role: "status" });
  player.addEventListener("loadeddata", () => {
    if (player.src.endsWith(media(ref).small)) said.textContent = "A small copy without sound is shown: this browser cannot play the file.";
  });
  player.addEventListener("error", () => {
    if (!player.src.endsWith(media(ref).small)) { // once more, as a small copy that every browser plays
      said.textContent = "This browser cannot play the file. Preparing a small copy without sound …";
      player.src = media(ref).small;
      return;
    }
    said.remove();
    const word = "This browser cannot play the file. Searching and comparing still work.";
    player.replaceWith(thumbnail(ref, early(video.duration)), h("p", { class: "notice" }, word));
    announce(word);
  });
  const close = h("button", { class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { class: "wide", "aria-label": video.name },
    h("div", { class: "head" }, h("h2", {}, bdi(video.name)), close),
    player, said, facts(video), h("p", { class: "path" }, bdi(video.path)),
    h("p", {}, h("a", { class: "button main", href: address("search", { video: video.id }), onclick: () => dialog.close() }, "Search for this video")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
