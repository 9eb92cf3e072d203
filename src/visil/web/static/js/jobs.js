// Long work on the server: followed live, through breaks of the line and reloads of the page.

import { Problem, get, remove } from "./api.js";
import { h, replace } from "./dom.js";
import { announce, complain } from "./messages.js";
import { duration } from "./words.js";

const ENDS = new Set(["done", "failed", "cancelled"]);
const SLOWEST = 15000;
/** How often a screen reader hears of progress, milliseconds. */
const SPOKEN = 15000;

/** Follow a job to its end, calling update(job) on the way; gives the finished job with its result. */
export async function follow(id, update, signal) {
  const path = `jobs/${encodeURIComponent(id)}`;
  let pause = 500;
  for (;;) {
    signal?.throwIfAborted();
    try {
      const job = await get(path, signal);
      pause = 500;
      update(job);
      if (ENDS.has(job.state)) return finished(job);
      await listen(`api/${path}/events`, update, signal);
    } catch (error) {
      // The server may be restarting: only what it says itself is an answer.
      if (error.status !== 0) throw error;
      update({ lost: true });
      await wait(pause, signal);
      pause = Math.min(2 * pause, SLOWEST);
    }
  }
}

/** Until the job ends or the line breaks. */
function listen(url, update, signal) {
  return new Promise((resolve) => {
    const events = new EventSource(url);
    const stop = () => {
      events.close();
      signal?.removeEventListener("abort", stop);
      resolve();
    };
    const heard = (event) => {
      const job = JSON.parse(event.data);
      if (ENDS.has(job.state)) stop();
      else update(job);
    };
    events.addEventListener("message", heard);
    events.addEventListener("job", heard);
    events.addEventListener("error", () => wait(1000, signal).then(stop, stop));
    signal?.addEventListener("abort", stop);
  });
}

function wait(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    }, { once: true });
  });
}

function finished(job) {
  if (job.state === "done") return job;
  if (job.state === "cancelled") throw new Problem(499, "This was stopped.");
  throw new Problem(500, job.error || "This failed, and the server did not say why.");
}

/** Jobs of a kind that are not over, newest first; and those that are. */
export async function jobsOf(kind, signal) {
  const { jobs } = await get("jobs?limit=50", signal);
  const own = jobs.filter((job) => job.kind === kind).sort((a, b) => (a.created < b.created ? 1 : -1));
  return { open: own.filter((job) => !ENDS.has(job.state)), over: own.filter((job) => ENDS.has(job.state)) };
}

/** A panel that shows how far a job is: {element, update(job)}. */
export function panel(title) {
  const bar = h("progress", { "aria-label": title });
  const words = h("p", { class: "faint" }, "Waiting …");
  const heading = h("p", { class: "name" }, title);
  const button = h("button", { class: "quiet" }, "Stop");
  const element = h("div", { class: "job" }, h("div", { class: "head" }, heading, button), bar, words);
  let [id, spoken] = [null, 0];
  button.addEventListener("click", async () => {
    if (!id) return;
    button.disabled = true;
    try {
      await remove(`jobs/${encodeURIComponent(id)}`);
    } catch (error) {
      complain(error);
      button.disabled = false;
    }
  });
  const update = (job) => {
    if (job.lost) return;
    id = job.id;
    if (job.title) heading.textContent = job.title;
    const text = saying(job);
    replace(words, text);
    const { done, total } = job.progress ?? {};
    if (total) [bar.max, bar.value] = [total, Math.min(done, total)];
    else bar.removeAttribute("value");
    if (Date.now() - spoken > SPOKEN) {
      spoken = Date.now();
      announce(`${job.title ?? title}: ${text}`);
    }
  };
  return { element, update };
}

function saying(job) {
  if (job.state === "waiting") return "Waiting …";
  const { done, total, unit, rate, left } = job.progress ?? {};
  if (!total) return done ? `${done.toLocaleString("en")} ${unit} so far` : "In progress …";
  const parts = [`${done.toLocaleString("en")} of ${total.toLocaleString("en")} ${unit}`];
  if (rate) parts.push(`${rate < 10 ? rate.toFixed(1) : Math.round(rate)} a second`);
  if (left !== null && left !== undefined && left >= 1) parts.push(`about ${duration(left)} left`);
  return parts.join(" · ");
}
