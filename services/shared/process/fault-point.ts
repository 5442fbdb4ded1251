type Installed = { passFaultPoint?: (name: string) => void };

/**
 * Marks a place where the death of its process leaves half a story. Does nothing, unless a test has installed what
 * shall happen there before the process loaded it (`deploy/test/chaos/pass-fault-point.ts`).
 */
export const faultPoint: (name: string) => void = (globalThis as Installed).passFaultPoint ?? (() => undefined);
