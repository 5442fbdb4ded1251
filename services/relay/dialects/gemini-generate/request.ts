/** Tuned and other models are named with their collection, `tunedModels/…`; plain names are of `models/`. */
export function resourceName(model: string): string {
  const name = model.includes("/") ? model : `models/${model}`;
  return name.split("/").map(encodeURIComponent).join("/");
}

/** The path with its query: Gemini names the model and the kind of answer there, not in the body. */
export function pathOf(model: string, isStream: boolean): string {
  // Without alt=sse a stream is one JSON array.
  const method = isStream ? "streamGenerateContent?alt=sse" : "generateContent";
  return `/v1beta/${resourceName(model)}:${method}`;
}

export function upstreamHeaders(credential: string): string[] {
  return ["x-goog-api-key", credential];
}
