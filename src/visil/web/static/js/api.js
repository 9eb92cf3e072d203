// The HTTP API. Every failure becomes a Problem whose message is a sentence for the person in front of the page.

const SILENT = "The server does not answer. Is “visil serve” still running?";

/** Nothing came back at all: the page says so once, for everything that waits. */
function silence() {
  document.dispatchEvent(new CustomEvent("visil:offline"));
  return Object.assign(new Problem(0, SILENT), { offline: true });
}

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const get = (path, signal) => call("GET", path, undefined, signal);
export const post = (path, body, signal) => call("POST", path, body, signal);
export const put = (path, body, signal) => call("PUT", path, body, signal);
export const remove = (path, signal) => call("DELETE", path, undefined, signal);

async function call(method, path, body, signal) {
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-Visil"] = "1";
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await request(`api/${path}`, {
    method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
  });
  return answer.status === 204 ? null : answer.json();
}

/** A matrix: {rows, columns, values}, row by row. */
export async function matrix(url, signal) {
  const answer = await request(url, { signal });
  const values = littleEndian(await answer.arrayBuffer());
  const [rows, columns] = ["X-Rows", "X-Columns"].map((name) => Number(answer.headers.get(name)));
  if (!(rows > 0 && columns > 0) || rows * columns !== values.length) throw new Problem(0, "The matrix did not load completely.");
  return { rows, columns, values };
}

function littleEndian(buffer) {
  if (new Uint8Array(Uint16Array.of(1).buffer)[0]) return new Float32Array(buffer);
  const view = new DataView(buffer);
  return Float32Array.from({ length: buffer.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

async function request(url, options) {
  let answer;
  try {
    answer = await fetch(url, { ...options, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw silence();
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw refused(answer.status, said);
}

function refused(status, said) {
  if (status === 401) document.dispatchEvent(new CustomEvent("visil:login"));
  return new Problem(status, said.detail || said.title || `The server reported an error (${status}).`);
}

/** Send a file; progress(share from 0 to 1) is called while it goes. Gives {upload, name, bytes, expires}. */
export function upload(file, progress, signal) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open("POST", `api/uploads?name=${encodeURIComponent(file.name)}`);
    sending.setRequestHeader("X-Visil", "1");
    sending.setRequestHeader("Content-Type", "application/octet-stream");
    sending.responseType = "json";
    sending.upload.addEventListener("progress", (event) => event.lengthComputable && progress(event.loaded / event.total));
    sending.addEventListener("load", () => {
      if (sending.status === 201) resolve(sending.response);
      else reject(refused(sending.status, sending.response ?? {}));
    });
    sending.addEventListener("error", () => reject(silence()));
    sending.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal?.addEventListener("abort", () => sending.abort());
    sending.send(file);
  });
}
