// The folders that the server may read, to click through instead of typing a path.

import { get } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { told } from "./messages.js";
import { count } from "./words.js";

const SHOWN = 200;

/** A list that goes where it is clicked; chosen(path, isFolder) is told. With files, single videos can be chosen, too. */
export function folders({ signal, files = false, chosen }) {
  const where = h("p", { class: "faint", "aria-live": "polite" });
  const list = h("ul", { class: "folders", "aria-label": "Folders" });
  const said = h("p", { class: "wrong", role: "alert" });
  const row = (text, act, mark, label) => h("li", {}, h("button", { type: "button", class: "quiet", "aria-label": label, onclick: act },
    h("span", { class: "mark", "aria-hidden": "true" }, mark), bdi(text)));

  const enter = async (path, focus) => {
    said.textContent = "";
    try {
      const found = await get(`folders?${new URLSearchParams({ path })}`, signal);
      draw(found);
      if (path) chosen(found.path, true);
      if (focus) list.querySelector("button")?.focus();
    } catch (error) {
      if (error.name !== "AbortError") said.textContent = told(error);
    }
  };
  const draw = (found) => {
    const videos = count(found.videos.length, "video");
    replace(where, found.path ? ["In ", h("code", {}, found.path), `: ${count(found.folders.length, "folder")}, ${videos}${found.more ? " and more" : ""}.`]
      : "Folders on the server:");
    replace(list,
      found.path && row(found.above ? "Up" : "All folders", () => enter(found.above ?? "", true), "↑", found.above ? "To the folder above" : "To all folders"),
      found.folders.slice(0, SHOWN).map((one) => row(one.name, () => enter(one.path, true), "▸", `Open the folder ${one.name}`)),
      files && found.videos.slice(0, SHOWN).map((one) => row(one.name, () => chosen(one.path, false), "", `Choose ${one.name}`)));
  };
  enter("", false);
  return h("div", { class: "browse" }, where, list, said);
}
