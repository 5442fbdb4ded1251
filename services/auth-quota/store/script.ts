import { readFileSync } from "node:fs";

// One script in several files: they share their local names and are read in this order.
const parts = ["state", "calls", "decisions", "operations", "further-operations", "leases", "books", "upkeep", "apply"];

/** The Lua source that decides about money; see the head of state.lua for its rules and keys. */
export const moneyScript = parts
  .map((part) => readFileSync(new URL(`lua/${part}.lua`, import.meta.url), "utf8"))
  .join("\n");
