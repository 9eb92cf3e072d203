// Text to the clipboard, also where a page without TLS may not write to it.

import { complain, toast } from "./messages.js";

/** Copy a text and say so. */
export async function copyText(text, said) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else copyOldWay(text);
    toast(said);
  } catch {
    complain(new Error("The browser does not let this page copy. Copy it from the address bar or the export."));
  }
}

function copyOldWay(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not copied");
}
