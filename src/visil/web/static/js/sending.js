// Files on their way to the server, one after another, each with its own progress.

import { Problem, upload } from "./api.js";
import { bdi, h, replace } from "./dom.js";
import { complain, told } from "./messages.js";
import { bytes, count } from "./words.js";

/** Clips that are taken at once. */
const MOST = 50;

export class Sending {
  constructor(files, limits, signal) {
    Object.assign(this, { limits, signal, refused: [], stop: new AbortController() });
    this.rows = files.slice(0, MOST).map((file) => ({ file, bar: h("progress", { max: 1, value: 0, "aria-label": `Uploading ${file.name}` }), said: h("p", { class: "faint" }, bytes(file.size)) }));
    if (files.length > MOST) complain(new Problem(413, `Only the first ${MOST} of ${count(files.length, "file")} are searched for. Add the rest afterwards.`));
    this.element = h("div", { class: "job" },
      h("div", { class: "head" },
        h("h2", {}, this.rows.length > 1 ? `Uploading ${count(this.rows.length, "clip")}` : ["Uploading ", bdi(this.rows[0].file.name)]),
        h("button", { class: "quiet", onclick: () => this.stop.abort() }, "Stop")),
      h("ul", { class: "sendings" }, this.rows.map(({ file, bar, said }) => h("li", {}, this.rows.length > 1 && h("p", { class: "name" }, bdi(file.name)), bar, said))));
  }

  /** act(upload) for each file once it has arrived; gives what came of those that did. */
  async each(act) {
    const done = [];
    const signal = AbortSignal.any([this.stop.signal, this.signal]);
    for (const row of this.rows) {
      if (signal.aborted) break;
      try {
        done.push(await act((await this.send(row, signal)).upload));
        replace(row.said, "Uploaded");
      } catch (error) {
        if (error.name === "AbortError") break;
        row.bar.hidden = true;
        replace(row.said, h("span", { class: "wrong" }, told(error)));
        if (!error.offline) this.refused.push(error.message.startsWith(row.file.name) ? error.message : `${row.file.name}: ${error.message}`);
        if (this.rows.length === 1) complain(error);
      }
    }
    return done;
  }

  send({ file, bar, said }, signal) {
    const { upload_bytes: most } = this.limits;
    if (file.size > most) throw new Problem(413, `${file.name} is ${bytes(file.size)}, and uploads are limited to ${bytes(most)}. Put it in a folder on the server and search by its path.`);
    return upload(file, (share) => {
      bar.value = share;
      said.textContent = share < 1 ? `${bytes(Math.round(share * file.size))} of ${bytes(file.size)}` : "Uploaded; checking the file …";
    }, signal);
  }
}
