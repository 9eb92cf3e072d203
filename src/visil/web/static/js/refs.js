// A video by reference: one of the collection, one that was sent, or a file that the server may read.

/** "video:4f2a" → {kind: "video", id: "4f2a"}; null where it is none. */
export function parse(text) {
  const found = /^(video|upload|path):(.+)$/s.exec(text ?? "");
  return found && { kind: found[1], id: found[2] };
}

/** For an address: {kind, id} → "video:4f2a". */
export const written = (ref) => `${ref.kind}:${ref.id}`;

/** For the API: {kind, id} → {video: "4f2a"}. */
export const body = (ref) => ({ [ref.kind]: ref.id });

/** Where the pictures and the stream of a video are; null where there is none. */
export function media(ref) {
  if (!ref?.id) return null;
  const named = ref.kind === "path" ? { path: ref.id } : {};
  const folder = ref.kind === "path" ? "api/files" : `api/${ref.kind === "upload" ? "uploads" : "videos"}/${encodeURIComponent(ref.id)}`;
  const asked = (more) => (Object.keys({ ...named, ...more }).length ? `?${new URLSearchParams({ ...named, ...more })}` : "");
  return {
    stream: `${folder}/stream${asked({})}`,
    small: `${folder}/small.mp4${asked({})}`,
    thumbnail: (at, width = 160) => `${folder}/thumbnail${asked({ at: Math.max(0, at).toFixed(2), width })}`,
  };
}

/** Where one side of a comparison is shown from: as media(), or the copy that was kept of it. */
export function sideMedia(found, side) {
  const source = found.sources?.[side] ?? "original";
  if (source === "original") return media(found[side]);
  if (source === "gone") return null;
  const folder = `api/comparisons/${encodeURIComponent(found.comparison)}`;
  return {
    stream: `${folder}/${side}.mp4`,
    small: `${folder}/${side}.mp4`,
    thumbnail: (at, width = 160) => `${folder}/thumbnail?${new URLSearchParams({ side, at: Math.max(0, at).toFixed(2), width })}`,
  };
}

/** The address of the Match screen for two videos; it knows the way back to where it was made. */
export function matchAddress(query, target) {
  const from = location.hash.replace(/^#\/?/, "");
  return `#/match?${new URLSearchParams({ query: written(query), target: written(target), ...(from.startsWith("match") ? {} : { from }) })}`;
}
