// Match: asks for the comparison of two videos and hands it to the desk that shows it.

import { Problem, post } from "./api.js";
import { h, replace } from "./dom.js";
import { Desk } from "./desk.js";
import { follow, panel } from "./jobs.js";
import { failure } from "./live.js";
import { body, parse } from "./refs.js";
import { note } from "./router.js";

export const title = "Match";

export async function show(root, context) {
  const { params, signal } = context;
  const [query, target] = [parse(params.get("query")), parse(params.get("target"))];
  if (!query || !target) {
    root.append(h("div", { class: "empty" },
      h("p", {}, "A match is between two videos. Search for one, and look at what was found."),
      h("a", { class: "button main", href: "#/search" }, "Search")));
    return;
  }
  const progress = panel("Comparing the two videos");
  const again = () => attempt(null);

  const attempt = async (known) => {
    replace(root, h("div", { class: "sheet" }, progress.element));
    try {
      const id = known ?? (await post("compare", { query: body(query), target: body(target) }, signal)).job.id;
      note("match", { query: params.get("query"), target: params.get("target"), job: id });
      const { result } = await follow(id, progress.update, signal);
      const desk = new Desk(root, result, context);
      await desk.load();
    } catch (error) {
      if (error.name === "AbortError") return;
      // Neither jobs nor matrices are kept for ever; what is gone is made again, once.
      if (error.status === 404 && known) await again();
      else replace(root, failure(explained(error), again));
    }
  };
  await attempt(params.get("job"));
}

function explained(error) {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(0, "This page stumbled over the answer; the browser's console says more.");
}
