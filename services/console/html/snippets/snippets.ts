import { agents } from "./agents.ts";
import { frameworks } from "./frameworks.ts";
import { official } from "./official.ts";
import type { Snippet } from "./snippet.ts";

/** Each works as it is once the environment variables are set; `npm run test:clients` runs them. */
export const snippets: readonly Snippet[] = [...official, ...frameworks, ...agents];
