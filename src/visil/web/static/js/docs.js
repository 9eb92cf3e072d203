// The API, call by call: what each takes, and a way to try it. Made from openapi.json.

import { h, replace } from "./dom.js";

const main = document.getElementById("main");
let token = "";

start();

async function start() {
  const answer = await fetch("api/v1/openapi.json", { headers: authorization() }).catch(() => null);
  if (answer?.status === 401 || answer?.status === 429) return askForToken();
  if (!answer?.ok) return replace(main, h("p", { class: "notice bad", role: "alert" }, "The server does not answer."));
  show(await answer.json());
}

function askForToken() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const form = h("form", { class: "sheet" }, h("h1", {}, "A token is needed"), h("label", { for: "token" }, "Token"), field,
    h("button", { class: "main" }, "Enter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    token = field.value.trim();
    start();
  });
  replace(main, form);
  field.focus();
}

function authorization() {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function show(api) {
  const groups = new Map();
  for (const [path, ways] of Object.entries(api.paths)) {
    for (const [method, call] of Object.entries(ways)) {
      const name = call.tags?.[0] ?? "other";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(callOf(api, method.toUpperCase(), path, call));
    }
  }
  replace(document.getElementById("screens"), [...groups.keys()].map((name) => h("a", { href: `#${name}` }, name)));
  replace(main, h("h1", {}, `${api.info.title} ${api.info.version}`), h("p", { class: "lead" }, api.info.description),
    h("p", {}, h("a", { href: "api/v1/openapi.json" }, "openapi.json")),
    [...groups].map(([name, calls]) => h("section", { class: "sheet", id: name, "aria-label": name }, h("h2", {}, name), calls)));
}

function callOf(api, method, path, call) {
  const fields = (call.parameters ?? []).map((one) => parameter(api, method, path, one));
  const body = bodyOf(api, method, path, call);
  const output = h("div", { "aria-live": "polite" });
  const form = h("form", {}, call.description && h("p", {}, call.description),
    call["x-role"] && h("p", { class: "faint" }, `Role: ${call["x-role"]}`),
    fields.map((one) => one.element), body?.element, h("button", { class: "main" }, "Send"), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await send(method, path, fields, body, output);
  });
  return h("details", { class: "call" },
    h("summary", {}, h("span", { class: "method" }, method), h("code", {}, path), h("span", { class: "faint" }, call.summary)), form);
}

function parameter(api, method, path, one) {
  const schema = resolved(api, one.schema);
  const example = one.example ?? one.examples?.[0] ?? schema.examples?.[0] ?? schema.default ?? "";
  const input = h("input", {
    name: one.name, required: one.required, placeholder: example === null ? "" : String(example), autocomplete: "off", spellcheck: "false",
    "aria-label": `${one.name} of ${method} ${path}`,
  });
  const about = [one.in, one.required && "required", one.description].filter(Boolean).join(" · ");
  return { ...one, input, element: h("label", {}, h("code", {}, one.name), h("span", { class: "faint" }, about), input) };
}

function bodyOf(api, method, path, call) {
  const content = call.requestBody?.content;
  if (!content) return null;
  const json = content["application/json"];
  const file = ("multipart/form-data" in content || "application/octet-stream" in content)
    && h("input", { type: "file", "aria-label": `file for ${method} ${path}` });
  const shape = json && resolved(api, json.schema);
  const text = json && h("textarea", {
    spellcheck: "false", "aria-label": `JSON for ${method} ${path}`,
    value: JSON.stringify(json.example ?? shape.examples?.[0] ?? {}, null, 2),
  });
  return {
    text, file, form: "multipart/form-data" in content,
    element: h("div", {}, file && h("label", {}, "A file", file), text && h("label", {}, file ? "or JSON" : "JSON", text)),
  };
}

function resolved(api, schema = {}) {
  let found = schema;
  while (found.$ref) found = api.components.schemas[found.$ref.split("/").pop()];
  return found;
}

async function send(method, path, fields, body, output) {
  let address = path;
  const query = new URLSearchParams();
  const headers = { ...authorization() };
  for (const { name, in: place, input } of fields) {
    if (!input.value) continue;
    if (place === "path") address = address.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (place === "header") headers[name] = input.value;
    else for (const value of input.value.split(",")) query.append(name, value);
  }
  if (method !== "GET") headers["X-Visil"] = "1";
  let sent;
  const file = body?.file?.files?.[0];
  if (file && body.form) {
    sent = new FormData();
    sent.append("file", file);
  } else if (file) {
    headers["Content-Type"] = "application/octet-stream";
    sent = file;
  } else if (body?.text) {
    headers["Content-Type"] = "application/json";
    sent = body.text.value;
  }
  const url = `${address.slice(1)}${query.size ? `?${query}` : ""}`;
  replace(output, h("p", { class: "faint" }, "Sending …"));
  const began = performance.now();
  try {
    const answer = await fetch(url, { method, headers, body: sent });
    const said = await answered(answer);
    const took = Math.round(performance.now() - began);
    replace(output, h("p", {}, h("b", {}, `${answer.status} ${answer.statusText}`), ` after ${took} ms`), said,
      h("p", { class: "faint" }, "The same from a shell"), h("pre", { tabindex: "0" }, curl(method, url, headers, file, body)));
  } catch {
    replace(output, h("p", { class: "wrong", role: "alert" }, "The server does not answer."));
  }
}

async function answered(answer) {
  const kind = answer.headers.get("Content-Type") ?? "";
  if (kind.startsWith("image/")) return h("img", { src: URL.createObjectURL(await answer.blob()), alt: "The picture in the answer" });
  if (kind.includes("json")) return h("pre", { tabindex: "0" }, JSON.stringify(await answer.json(), null, 2));
  if (kind.startsWith("text/csv")) return h("pre", { tabindex: "0" }, await answer.text());
  answer.body?.cancel();
  return h("p", { class: "faint" }, kind || "The answer is empty.");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function curl(method, url, headers, file, body) {
  const parts = ["curl", "-X", method, quoted(new URL(url, document.baseURI).href)];
  for (const [name, value] of Object.entries(headers)) {
    parts.push("-H", name === "Authorization" ? '"Authorization: Bearer $VISIL_TOKEN"' : quoted(`${name}: ${value}`));
  }
  if (file) parts.push(...(body.form ? ["-F", quoted(`file=@${file.name}`)] : ["--data-binary", quoted(`@${file.name}`)]));
  else if (body?.text) parts.push("-d", quoted(body.text.value));
  return parts.join(" ");
}
