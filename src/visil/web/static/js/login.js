// The screen in front of the others where the server asks for a token.

import { post } from "./api.js";
import { h, replace } from "./dom.js";
import { told } from "./messages.js";

/** Ask for the token; entered() is called once the server took it. */
export function login(root, entered) {
  const field = h("input", {
    type: "password", id: "token", name: "token", required: true, autocomplete: "current-password", "aria-describedby": "token-help",
  });
  const said = h("p", { class: "wrong", role: "alert" });
  const button = h("button", { class: "main" }, "Log in");
  const form = h("form", { class: "sheet login" },
    h("h1", { tabindex: "-1" }, "Log in"),
    h("p", { class: "faint", id: "token-help" },
      "This collection is protected. “visil serve” printed the token when it was started."),
    h("label", { for: "token" }, "Token"), field, said, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    said.textContent = "";
    try {
      await post("login", { token: field.value.trim() });
      await entered();
    } catch (error) {
      said.textContent = told(error);
      button.disabled = false;
      field.select();
    }
  });
  replace(root, form);
  field.focus();
}
