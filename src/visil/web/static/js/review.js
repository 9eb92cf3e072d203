// The review of duplicates: one group at a time or a list, keep or drop for every file, undo, progress, and exports.

import { get, post, put } from "./api.js";
import { h, replace } from "./dom.js";
import { planMenu } from "./exports.js";
import { GroupView } from "./group.js";
import { announce, complain, toast, undoLast } from "./messages.js";
import { pairList } from "./pairs.js";
import { note } from "./router.js";
import { screenKeys } from "./shortcuts.js";
import { bytes, capital, count, when } from "./words.js";

const LISTED = 10;
const SHOW = [["open", "To review"], ["done", "Reviewed"], ["all", "All groups"]];
const VIEWS = [["one", "One at a time"], ["list", "List"]];

export class Review {
  /** finder(confidence) makes the form that looks for duplicates again. */
  constructor(root, { params, signal, finder }) {
    Object.assign(this, { root, signal, finder, offset: 0, views: [] });
    this.show = SHOW.some(([value]) => value === params.get("show")) ? params.get("show") : "open";
    this.view = params.get("view") === "list" ? "list" : "one";
    this.head = h("div", {});
    this.notice = h("div", {});
    this.groups = h("div", { class: "groups" });
    this.after = h("div", {});
  }

  /** Fetch the first groups; what comes after waits for a click. */
  async load() {
    await this.fetch(0);
    replace(this.root, this.notice, this.head, this.tools(), this.groups, this.after);
    this.keys();
    const { groups } = this.state.progress;
    announce(groups ? `${count(groups, "group")} of duplicates` : "No duplicates");
  }

  get limit() {
    return this.view === "one" ? 1 : LISTED;
  }

  async fetch(offset) {
    // Of two answers on their way, only the later question's counts.
    const question = this.question = (this.question ?? 0) + 1;
    const asked = new URLSearchParams({ offset, limit: this.limit, show: this.show });
    const page = await get(`review?${asked}`, this.signal);
    if (question !== this.question) return page;
    if (!page.groups.length && page.total) return this.fetch(0);
    Object.assign(this, { offset, total: page.total, state: page });
    this.draw(page.groups);
    return page;
  }

  again() {
    return this.fetch(this.offset).catch(complain);
  }

  // ------------------------------------------------------------------ drawing

  tools() {
    const choice = (name, options, value, act) => h("div", { class: "segmented", role: "group", "aria-label": name },
      options.map(([key, text]) => h("button", { class: "quiet", "aria-pressed": String(key === value), onclick: () => act(key) }, text)));
    this.toolbar = h("div", { class: "toolbar" });
    this.drawTools = () => replace(this.toolbar,
      choice("Groups to show", SHOW, this.show, (show) => this.change({ show })),
      choice("View", VIEWS, this.view, (view) => this.change({ view })));
    this.drawTools();
    return this.toolbar;
  }

  change(settings) {
    Object.assign(this, settings);
    note("duplicates", { show: this.show === "open" ? "" : this.show, view: this.view === "one" ? "" : this.view });
    this.drawTools();
    this.fetch(0).catch(complain);
  }

  draw(groups) {
    this.views = groups.map((group) => new GroupView(group, this));
    replace(this.groups, this.views.length ? this.views.map((view) => view.element) : this.nothing());
    this.drawState();
    this.drawAfter();
  }

  drawState() {
    const { made, newer, progress, undo } = this.state;
    const { groups, reviewed, drop_bytes: suggested, decided_bytes: decided, decided_drop: files, exact } = progress;
    const accept = (words, asked, main) => h("button", { class: main && "main", onclick: () => this.accept(asked) }, words);
    replace(this.head, h("section", { class: "sheet state", "aria-label": "Progress of the review" },
      h("div", { class: "head" },
        h("p", { class: "big" }, groups ? `${reviewed.toLocaleString("en")} of ${count(groups, "group")} reviewed` : "No duplicates found."),
        h("p", { class: "big saved" }, groups > 0 && (files ? `Frees ${bytes(decided)}` : `Frees up to ${bytes(suggested)}`))),
      groups > 0 && h("progress", { max: groups, value: reviewed, "aria-label": "Groups reviewed" }),
      h("p", { class: "faint" }, [
        files > 0 && `${count(files, "file")} to drop`, files > 0 && suggested > decided && `${bytes(suggested)} if you accept every suggestion`,
        made && `found ${when(made)}`, "nothing is deleted on this page",
      ].filter(Boolean).map(capital).join(" · ")),
      groups > 0 && h("div", { class: "acts across" },
        exact > 0 && accept(`Accept ${count(exact, "exact copy", "exact copies")}`, { only: "exact" }, true),
        reviewed < groups && accept("Accept all suggestions", {}),
        h("button", { class: "quiet", disabled: !undo, title: undo ?? "", "aria-keyshortcuts": "u", onclick: () => this.undo() }, "Undo"),
        planMenu(progress)),
      h("details", { class: "again" }, h("summary", {}, "Find duplicates again"), this.finder(this.state.min_confidence))));
    const changed = [
      newer.added > 0 && `${count(newer.added, "video")} ${newer.added === 1 ? "was" : "were"} added since`,
      newer.gone > 0 && `${count(newer.gone, "video")} ${newer.gone === 1 ? "has" : "have"} left the collection since`,
    ].filter(Boolean);
    replace(this.notice, changed.length > 0 && h("div", { class: "notice old", role: "status" },
      h("p", {}, `These results are older than the collection: ${changed.join(", and ")}.`), this.finder(this.state.min_confidence)));
  }

  drawAfter() {
    const next = this.offset + this.limit;
    const { common, different } = this.state;
    const left = Math.min(LISTED, this.total - next);
    replace(this.after,
      this.view === "list" && left > 0 && h("p", { class: "more" }, h("button", { onclick: () => this.more() }, `Show ${left} more of ${count(this.total, "group")}`)),
      common.length > 0 && pairList(common, `Common footage: ${count(common.length, "pair")} that share only an intro, a jingle or a few seconds`, () => this.again()),
      different.length > 0 && pairList(different, `Not a match: ${count(different.length, "pair")} that you judged different`, () => this.again()));
  }

  nothing() {
    const { groups } = this.state.progress;
    if (!groups) return null;
    if (this.show === "open") {
      return h("div", { class: "empty" }, h("h2", {}, "All groups are reviewed"),
        h("p", {}, "Export the plan, then carry it out with “visil apply”, which checks every file again and can undo it; or run the shell script."),
        h("button", { onclick: () => this.change({ show: "done" }) }, "Look at them again"));
    }
    return h("div", { class: "empty" }, h("p", {}, "No group is reviewed yet."));
  }

  /** The list grows by the next groups. */
  async more() {
    const first = this.views.length;
    try {
      const asked = new URLSearchParams({ offset: this.offset + this.limit, limit: this.limit, show: this.show });
      const page = await get(`review?${asked}`, this.signal);
      Object.assign(this, { offset: page.offset, total: page.total, state: page });
      const views = page.groups.map((group) => new GroupView(group, this));
      this.views.push(...views);
      this.groups.append(...views.map((view) => view.element));
      this.drawState();
      this.drawAfter();
      this.views[first]?.element.querySelector("h2").focus();
    } catch (error) {
      complain(error);
    }
  }

  // ------------------------------------------------------------------ deciding

  /** Keep or drop files: {key: action}. */
  async decide(actions) {
    try {
      this.changed(await put("review/decisions", { files: Object.entries(actions).map(([file, action]) => ({ file, action })) }));
    } catch (error) {
      complain(error);
    }
  }

  /** Decide as it is suggested; of one group, then on to the next. */
  async accept(asked) {
    try {
      const done = await post("review/accept", { groups: null, only: null, ...asked });
      this.changed(done);
      toast(done.files ? `Accepted: ${count(done.files, "file")} decided.` : "There was nothing left to decide.", { undo: done.files ? () => this.undo() : null });
      if (asked.groups) await this.go(1);
      else await this.again();
    } catch (error) {
      complain(error);
    }
  }

  async undo() {
    try {
      const done = await post("review/undo");
      toast(`Undone: ${done.title}.`);
      this.changed(done);
      await this.again();
    } catch (error) {
      complain(error);
    }
  }

  /** Show what has changed. */
  changed({ groups, ...state }) {
    this.state = { ...this.state, ...state };
    this.drawState();
    for (const group of groups) this.views.find((view) => view.group.key === group.key)?.redraw(group);
  }

  /** On to another group; in the list, its heading gets the focus. */
  async go(step) {
    if (this.view === "list") {
      const at = this.views.findIndex((view) => view.element.contains(document.activeElement));
      const to = this.views[Math.max(0, at + step)];
      to?.element.querySelector("h2").focus();
      to?.element.scrollIntoView({ block: "start" });
      return;
    }
    // A group that was reviewed meanwhile has left the list of open ones, and the next has its place.
    const left = this.show !== "all" && this.views.some((view) => view.group.reviewed !== (this.show === "done"));
    const size = this.total - (left ? 1 : 0);
    const to = this.offset + step - (left && step > 0 ? 1 : 0);
    await this.fetch(size > 0 ? (to + size) % size : 0).catch(complain);
    this.views[0]?.element.querySelector("h2").focus();
  }

  keys() {
    const at = () => this.views.find((view) => view.element.contains(document.activeElement)) ?? this.views[0];
    screenKeys({
      j: () => at()?.move(1), k: () => at()?.move(-1), s: () => at()?.press("keep"), d: () => at()?.press("drop"),
      a: () => at()?.accept(), n: () => this.go(1), p: () => this.go(-1), u: () => undoLast() || this.undo(),
    }, this.signal);
  }
}
