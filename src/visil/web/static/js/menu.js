// A button that unfolds a list of files to take away.

import { h } from "./dom.js";

/** files are elements; Escape and leaving it fold it again. */
export function exportMenu(files, kind = "") {
  const menu = h("details", { class: `menu ${kind}` }, h("summary", { class: "button" }, "Export"),
    h("div", { class: "sheet", role: "group", "aria-label": "Export" }, files));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
}

/** One file of the list: what it is, and what it is good for. */
export function exportLink(name, words, more, properties) {
  return h("a", { class: "export", download: name, ...properties }, h("b", {}, words), h("span", { class: "faint" }, more));
}
