/**
 * A call's JSON text as the object that `input` must be; "" means an empty one. Text that is no JSON object, such as a
 * cut one, is not repaired (trap 26) but kept whole in the wrapper that the provider documents for it (fine-grained
 * tool streaming: `{"INVALID_JSON": "…"}`), so that neither a tool nor the model takes it for a good input.
 */
export function inputObject(text: string): Record<string, unknown> {
  if (text.trim() === "") return {};
  try {
    const input: unknown = JSON.parse(text);
    if (typeof input === "object" && input !== null && !Array.isArray(input)) return input as Record<string, unknown>;
  } catch {
    // Told by the wrapper.
  }
  return { INVALID_JSON: text };
}
