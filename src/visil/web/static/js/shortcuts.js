// Single keys that work everywhere but in fields, and the dialog that lists them.

import { h } from "./dom.js";
import { undoLast } from "./messages.js";
import { go } from "./router.js";

const KEY = "visil-shortcuts";
const SCREENS = ["library", "search", "duplicates", "add"];
const LIST = [
  ["Everywhere", [
    ["1 2 3 4", "Library, Search, Duplicates, Add"],
    ["/", "Go to the first field"],
    ["u", "Undo"],
    ["t", "Light, dark, or the system’s colours"],
    ["?", "Show this list"],
  ]],
  ["Duplicates", [
    ["j k", "Next file, previous file"],
    ["s d", "Keep, drop"],
    ["a", "Accept the suggestion and go on"],
    ["n p", "Next group, previous group"],
  ]],
  ["Match", [
    ["space or k", "Play or pause both videos"],
    ["j l", "Back or forward one second (with Shift: five)"],
    [", .", "Back or forward one frame"],
    ["[ ]", "Previous stretch, next stretch"],
    ["r", "Repeat the stretch"],
    ["m", "Go to the matrix; there, arrow keys move the cross-hair (with Shift: ten), Enter takes both videos there"],
  ]],
];
const extra = new Map();

/** Keys of the screen on show: {k: function}; gone when signal is aborted. */
export function screenKeys(keys, signal) {
  for (const [key, act] of Object.entries(keys)) extra.set(key, act);
  signal.addEventListener("abort", () => {
    for (const [key, act] of Object.entries(keys)) if (extra.get(key) === act) extra.delete(key);
  });
}

const enabled = () => localStorage.getItem(KEY) !== "off";

/** Listen to the keyboard for as long as the page lives. */
export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isField(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key === "?") help();
    else if (!enabled()) return;
    else if (event.key === " " && event.target.closest("button, a, summary, [role=slider]")) return;
    else if (!pressed(event.key)) return;
    event.preventDefault();
  });
}

function pressed(key) {
  const act = extra.get(key);
  if (act) act();
  else if (SCREENS[Number(key) - 1]) go(SCREENS[Number(key) - 1]);
  else if (key === "/") document.querySelector("main input:not([type=checkbox]):not([type=file]), main select")?.focus();
  else if (key === "t") document.getElementById("theme").click();
  else if (key === "u") return undoLast();
  else return false;
  return true;
}

function isField(element) {
  return element.isContentEditable || element.matches?.("select, textarea")
    || (element.matches?.("input") && !["checkbox", "radio", "range", "file"].includes(element.type));
}

/** Show the list of shortcuts. */
export function help() {
  const on = h("input", { type: "checkbox", id: "shortcuts-on" });
  on.checked = enabled();
  on.addEventListener("change", () => localStorage.setItem(KEY, on.checked ? "on" : "off"));
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" },
    h("form", { method: "dialog" },
      h("div", { class: "head" }, h("h2", { id: "help-title" }, "Keyboard"), h("button", { class: "quiet" }, "Close")),
      LIST.map(([title, keys]) => [
        h("h3", {}, title),
        h("dl", { class: "keys" }, keys.map(([key, what]) =>
          h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))),
      ]),
      h("label", { class: "check" }, on, "Single-key shortcuts")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
