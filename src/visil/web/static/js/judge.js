// A person's verdict on a pair: the same, or not a match; each can be taken back.

import { put } from "./api.js";
import { h } from "./dom.js";
import { complain, toast } from "./messages.js";

const SAID = { same: "You marked it as a match", different: "You marked it as no match" };

/** Two buttons for a pair of ids; changed(verdict) is called after each change. */
export function judgeButtons(a, b, current, changed = () => {}) {
  let now = current ?? null;
  const said = h("span", { class: "faint said" });
  const buttons = { same: null, different: null };
  const show = () => {
    said.textContent = SAID[now] ?? "";
    for (const [verdict, button] of Object.entries(buttons)) button.setAttribute("aria-pressed", String(now === verdict));
  };
  const set = async (verdict) => {
    const { previous } = await put("judgements", { a, b, verdict });
    now = verdict;
    show();
    changed(now);
    return previous ?? null;
  };
  const press = (verdict) => async () => {
    const wanted = now === verdict ? null : verdict;
    try {
      const previous = await set(wanted);
      toast(wanted === null ? "Your mark was removed." : `${SAID[wanted]}.`, {
        undo: () => set(previous).then(() => toast("Undone."), complain),
      });
    } catch (error) {
      complain(error);
    }
  };
  buttons.same = h("button", { class: "quiet", onclick: press("same") }, "Match");
  buttons.different = h("button", { class: "quiet", onclick: press("different") }, "Not a match");
  show();
  return h("div", { class: "judge", role: "group", "aria-label": "Your verdict" }, buttons.same, buttons.different, said);
}
