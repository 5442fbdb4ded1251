/** The provider APIs for videos that upstreams of the catalog may speak. */
export const videoDialectNames = ["openai-videos", "gemini-videos"] as const;

export type VideoDialectName = (typeof videoDialectNames)[number];

/** The API for videos that an upstream speaks; undefined when it speaks none. */
export function videoDialectOf({ dialects }: { dialects: readonly string[] }): VideoDialectName | undefined {
  return videoDialectNames.find((name) => dialects.includes(name));
}
