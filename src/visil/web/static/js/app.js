// The frame around the screens: who may look, which screen is on, where the focus goes.

import * as api from "./api.js";
import { h, replace } from "./dom.js";
import { announce, complain, failure } from "./messages.js";
import { place } from "./router.js";
import * as add from "./add.js";
import * as duplicates from "./duplicates.js";
import * as library from "./library.js";
import { login } from "./login.js";
import * as match from "./match.js";
import * as search from "./search.js";
import { help, listen } from "./shortcuts.js";
import { themeSwitch } from "./theme.js";
import { count } from "./words.js";

const SCREENS = { library, search, match, duplicates, add };
const IN_MENU = ["library", "search", "duplicates", "add"];
/** How often a silent server is asked again, milliseconds. */
const ASK_AGAIN = 2000;
const main = document.getElementById("main");
let leaving = new AbortController();
let session = null;

/** Draw the screen that the address names. */
async function draw() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { screen: name, params } = place();
  const screen = SCREENS[name] ?? library;
  try {
    if (!session) await enter(signal);
  } catch (error) {
    if (!signal.aborted) replace(main, failure(error, draw));
    return;
  }
  if (signal.aborted) return;
  if (session.token_needed && !session.authenticated) {
    askForToken();
    return;
  }
  menu(SCREENS[name] ? name : "library");
  document.title = `${screen.title} · ${session.index.name} · visil`;
  const heading = h("h1", { tabindex: "-1" }, screen.title);
  const body = h("div", { class: `screen ${name}` });
  replace(main, heading, body);
  window.scrollTo(0, 0);
  heading.focus({ preventScroll: true });
  announce(screen.title);
  try {
    await screen.show(body, { params, session, signal, redraw: draw });
  } catch (error) {
    if (signal.aborted || error.name === "AbortError" || error.status === 401) return;
    body.append(failure(error, draw) ?? "");
  }
}

async function enter(signal) {
  const found = await api.get("session", signal);
  // A token that may not change the collection, or a collection that cannot be written to, gets no buttons for it.
  session = { ...found, mayChange: found.index.writable && [undefined, null, "admin"].includes(found.role) };
}

function askForToken() {
  menu(null);
  document.title = "visil";
  login(main, async () => {
    session = null;
    await draw();
  });
}

function menu(current) {
  const shown = current === null ? [] : IN_MENU;
  replace(document.getElementById("screens"), shown.map((name) =>
    h("a", { href: `#/${name}`, "aria-current": name === current && "page" }, SCREENS[name].title)));
  const tools = document.getElementById("tools");
  if (!tools.querySelector("#theme")) {
    tools.append(
      themeSwitch(),
      h("button", { class: "quiet", "aria-label": "Keyboard shortcuts", title: "Keyboard shortcuts", onclick: help }, "?"));
  }
  tools.querySelector(".leave")?.remove();
  if (session.token_needed && session.authenticated) {
    tools.append(h("button", { class: "quiet leave", onclick: leave }, "Log out"));
  }
  document.querySelector(".brand").title = current === null ? "visil" : facts();
}

function facts() {
  const { name, videos, model } = session.index;
  return `${name}: ${count(videos, "video")}, model ${model}; visil ${session.version}`;
}

async function leave() {
  try {
    await api.post("logout");
  } catch (error) {
    complain(error);
    return;
  }
  session = null;
  draw();
}

/** The server is silent: say so once, ask until it answers, then show the screen as it is now. */
async function wait() {
  const banner = document.getElementById("offline");
  if (!banner.hidden) return;
  banner.hidden = false;
  for (;;) {
    await new Promise((resolve) => { setTimeout(resolve, ASK_AGAIN); });
    const answer = await fetch("api/session", { credentials: "same-origin" }).catch(() => null);
    if (answer) break;
  }
  banner.hidden = true;
  announce("The server answers again.");
  session = null;
  if (!document.activeElement?.matches("input, select")) draw();
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("visil:login", () => {
  if (!session || (session.token_needed && !session.authenticated)) return;
  session = { ...session, token_needed: true, authenticated: false };
  leaving.abort();
  askForToken();
});
document.addEventListener("visil:offline", wait);
document.addEventListener("visil:changed", () => { session = null; });
window.addEventListener("hashchange", draw);
listen();
draw();
