// Which screen, with which settings: all of it is in the address, after the #, so that a reload or a link brings it back.

/** {screen: "library", params: URLSearchParams} of the address as it is now. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { screen: path || "library", params: new URLSearchParams(query ?? "") };
}

/** An address; settings that are empty are left out. */
export function address(screen, settings = {}) {
  const kept = Object.entries(settings).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString();
  return `#/${screen}${query ? `?${query}` : ""}`;
}

/** Go to another screen. */
export function go(screen, settings) {
  location.hash = address(screen, settings);
}

/** Write down where we are without drawing the screen again; as a step that "back" undoes if push is set. */
export function note(screen, settings, push = false) {
  history[push ? "pushState" : "replaceState"](null, "", address(screen, settings));
}
