// Light, dark, or as the system has it; kept in this browser.

import { h } from "./dom.js";

const KEY = "visil-theme";
const CHOICES = ["system", "light", "dark"];

function chosen() {
  const kept = localStorage.getItem(KEY);
  return CHOICES.includes(kept) ? kept : "system";
}

function apply(choice) {
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
}

/** The switch; it shows what is chosen and goes on to the next. */
export function themeSwitch() {
  const button = h("button", { class: "quiet", id: "theme" });
  const show = () => {
    button.textContent = { system: "◐", light: "○", dark: "●" }[chosen()];
    button.setAttribute("aria-label", `Colours: ${chosen()}`);
    button.title = `Colours: ${chosen()}`;
  };
  button.addEventListener("click", () => {
    const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length];
    localStorage.setItem(KEY, next);
    apply(next);
    show();
  });
  show();
  return button;
}

apply(chosen());
