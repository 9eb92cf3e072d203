// Library: all videos of the collection, a page at a time.

import { get, remove } from "./api.js";
import { bdi, debounce, h, replace } from "./dom.js";
import { announce, complain, toast } from "./messages.js";
import { early, facts, named, thumbnail } from "./pictures.js";
import { media } from "./refs.js";
import { address, note } from "./router.js";
import { count } from "./words.js";

export const title = "Library";

const PAGE = 50;
const AGAIN = 4000;
const SORTS = [
  ["name", "Name, A to Z"], ["-name", "Name, Z to A"], ["-added", "Newest first"], ["added", "Oldest first"],
  ["-duration", "Longest first"], ["duration", "Shortest first"], ["-size", "Largest first"], ["size", "Smallest first"],
];
const STATES = [["", "All"], ["ready", "Ready"], ["working", "In work"], ["failed", "Failed"]];

export async function show(root, context) {
  const screen = new Library(root, context);
  await screen.load();
}

class Library {
  constructor(root, { params, session, signal }) {
    Object.assign(this, { session, signal, shown: null });
    this.wanted = {
      q: params.get("q") ?? "", sort: params.get("sort") ?? "name", state: params.get("state") ?? "",
      page: Math.max(1, Number(params.get("page")) || 1),
    };
    this.list = h("ul", { class: "rows", "aria-label": "Videos" });
    this.found = h("p", { class: "faint", role: "status" });
    this.pages = h("nav", { class: "pages", "aria-label": "Pages" });
    root.append(this.tools(), this.found, this.list, this.pages);
  }

  tools() {
    const { wanted } = this;
    const filter = h("input", { type: "search", id: "filter", value: wanted.q, placeholder: "part of a name or path" });
    filter.addEventListener("input", debounce(250, () => this.change({ q: filter.value.trim() })));
    const choice = (id, options, key) => {
      const field = h("select", { id }, options.map(([value, text]) => h("option", { value }, text)));
      field.value = wanted[key];
      field.addEventListener("change", () => this.change({ [key]: field.value }));
      return field;
    };
    return h("form", { class: "fields", role: "search", onsubmit: (event) => event.preventDefault() },
      h("label", { class: "grow" }, h("span", {}, "Filter"), filter),
      h("label", {}, h("span", {}, "Sort"), choice("sort", SORTS, "sort")),
      h("label", {}, h("span", {}, "State"), choice("state", STATES, "state")));
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
      this.draw(answer);
    }
    if (answer.videos.some((video) => video.state === "working")) {
      this.timer = setTimeout(() => this.load().catch(() => {}), AGAIN);
      this.signal.addEventListener("abort", () => clearTimeout(this.timer), { once: true });
    }
  }

  draw({ total, offset, videos }) {
    const focused = document.activeElement?.closest?.("[data-key]")?.dataset.key;
    const { q, state } = this.wanted;
    this.found.textContent = total
      ? `${count(total, "video")}${q || state ? " found" : ""}${total > PAGE ? `, ${offset + 1}–${offset + videos.length} shown` : ""}`
      : "";
    replace(this.list, videos.map((video) => this.row(video)));
    if (!total) replace(this.list, h("li", { class: "empty" }, this.nothing()));
    this.drawPages(total);
    if (focused) this.list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  nothing() {
    const { q, state } = this.wanted;
    if (q || state) {
      return [h("p", {}, "No video matches this filter."),
        h("a", { class: "button", href: "#/library?all=1" }, "Show all")];
    }
    return [h("h2", {}, "The collection is empty"),
      h("p", {}, "Point at a folder of videos; each is read once, and your files stay where and as they are."),
      h("a", { class: "button main", href: "#/add" }, "Add videos")];
  }

  row(video) {
    const ref = { kind: "video", id: video.id };
    const open = (content, label) => h("button", {
      class: "plain", "aria-label": label, "data-key": `open ${video.id}`, onclick: () => watch(video),
    }, content);
    return h("li", { class: `row ${video.state}` },
      video.id ? open(thumbnail(ref, early(video.duration)), `Watch ${video.name}`) : h("div", { class: "shot none" }, video.state === "working" ? "in work" : "failed"),
      h("div", { class: "what" }, named(video), facts(video),
        video.state === "failed" && h("p", { class: "wrong" }, `Failed: ${video.reason ?? "it could not be read"}`)),
      video.id && h("div", { class: "acts" },
        h("a", { class: "button", "data-key": `find ${video.id}`, href: address("search", { video: video.id }), "aria-label": `Find where ${video.name} was reused` }, "Find reuse"),
        this.session.index.writable && h("button", { class: "quiet", "data-key": `remove ${video.id}`, "aria-label": `Remove ${video.name}`, onclick: () => this.forget(video) }, "Remove")));
  }

  drawPages(total) {
    const last = Math.ceil(total / PAGE);
    const { page } = this.wanted;
    const way = (text, to) => h("button", { disabled: to < 1 || to > last, onclick: () => {
      this.change({ page: to }, true);
      window.scrollTo(0, 0);
    } }, text);
    replace(this.pages, last > 1 && [way("First", page > 1 ? 1 : 0), way("Previous", page - 1), h("span", {}, `Page ${page} of ${last}`), way("Next", page + 1), way("Last", page < last ? last : 0)]);
  }

  forget(video) {
    const dialog = h("dialog", { "aria-labelledby": "forget-title" },
      h("form", { method: "dialog" },
        h("h2", { id: "forget-title" }, "Remove from the collection?"),
        h("p", {}, bdi(video.name), " will no longer be found. The file itself stays where it is."),
        h("div", { class: "head" }, h("button", { value: "no", autofocus: true }, "Keep it"), h("button", { class: "danger", value: "yes" }, "Remove"))));
    dialog.addEventListener("close", async () => {
      dialog.remove();
      if (dialog.returnValue !== "yes") return;
      try {
        await remove(`videos/${encodeURIComponent(video.id)}`);
        document.dispatchEvent(new CustomEvent("visil:changed"));
        toast(`${video.name} is out of the collection.`);
        await this.load();
      } catch (error) {
        complain(error);
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  }
}

/** A video in a window of its own. */
function watch(video) {
  const ref = { kind: "video", id: video.id };
  const player = video.playable
    ? h("video", { controls: true, preload: "metadata", src: media(ref).stream, "aria-label": video.name })
    : h("p", { class: "notice" }, "The file is not where it was, so it cannot be played.");
  player.addEventListener("error", () => {
    const word = "This browser cannot play this kind of file; comparing and searching work all the same.";
    player.replaceWith(thumbnail(ref, early(video.duration)), h("p", { class: "notice" }, word));
    announce(word);
  }, { once: true });
  const close = h("button", { class: "quiet", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog", { class: "wide", "aria-label": video.name },
    h("div", { class: "head" }, h("h2", {}, bdi(video.name)), close),
    player, facts(video), h("p", { class: "path" }, bdi(video.path)),
    h("p", {}, h("a", { class: "button main", href: address("search", { video: video.id }), onclick: () => dialog.close() }, "Find where it was reused")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
