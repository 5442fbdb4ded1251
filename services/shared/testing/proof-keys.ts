/** HOLD_PROOF_KEYS of tests and benchmarks. */
export const holdProofKeys = Buffer.alloc(32, "hold proof").toString("base64");
