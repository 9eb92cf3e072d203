// What is said to the person: short messages that go away, some with a way back, and words for screen readers alone.

import { h } from "./dom.js";

const STAYS = 12000;
let undoable = null;

/** Tell a screen reader. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  // Two equal sentences in a row would otherwise be read once.
  setTimeout(() => { place.textContent = text; }, 30);
}

/** What went wrong, in words; nothing where the server is silent, which is said once for the whole page. */
export const told = (error) => (error.offline ? "" : error.message);

/** A message at the bottom; with undo, a function, it has a button that takes back what was done. */
export function toast(text, { undo = null, bad = false } = {}) {
  const list = document.getElementById("toasts");
  const again = [...list.children].filter((older) => older.firstChild.textContent === text);
  for (const older of [...again, ...[...list.children].slice(0, -2)]) older.remove();
  const message = h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text));
  let timer = 0;
  const close = () => {
    clearTimeout(timer);
    message.remove();
    if (undoable === takeBack) undoable = null;
  };
  const wait = () => { clearTimeout(timer); timer = setTimeout(close, STAYS); };
  const takeBack = async () => {
    close();
    await undo();
  };
  if (undo) {
    undoable = takeBack;
    message.append(h("button", { class: "quiet", onclick: takeBack }, "Undo"));
  }
  message.append(h("button", { class: "quiet", "aria-label": "Close this message", onclick: close }, "×"));
  for (const stay of ["mouseenter", "focusin"]) message.addEventListener(stay, () => clearTimeout(timer));
  for (const leave of ["mouseleave", "focusout"]) message.addEventListener(leave, wait);
  list.append(message);
  wait();
}

/** Take back the last thing that can be; whether there was one. */
export function undoLast() {
  if (!undoable) return false;
  undoable();
  return true;
}

/** Say what went wrong; a screen that was left in the meantime says nothing. */
export function complain(error) {
  if (error.name === "AbortError" || error.status === 401 || error.offline) return;
  toast(error.message, { bad: true });
}

/** The same as a part of the screen, with a way to try again. */
export function failure(error, again = null) {
  if (error.offline) return null;
  return h("div", { class: "notice bad", role: "alert" },
    h("p", {}, error.message),
    again && h("button", { onclick: again }, "Try again"));
}
