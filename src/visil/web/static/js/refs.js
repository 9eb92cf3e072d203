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
    thumbnail: (at, width = 160) => `${folder}/thumbnail${asked({ at: Math.max(0, at).toFixed(2), width })}`,
  };
}

/** The address of the Match screen for two videos. */
export function matchAddress(query, target) {
  return `#/match?${new URLSearchParams({ query: written(query), target: written(target) })}`;
}
