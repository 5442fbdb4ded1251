import type { Place } from "./place.ts";

/** How to ask the API with one tool. */
export type Snippet = {
  id: string;
  title: string;
  /** What must be installed; empty: nothing. */
  install: string;
  /** The endpoint that the model must have. */
  endpoint: "/v1/chat/completions" | "/v1/responses" | "/v1/messages";
  /** How a file that holds it ends; `set-up` is typed into a shell and starts the program with its last line. */
  kind: "sh" | "mjs" | "py" | "go" | "set-up";
  text: (place: Place, model: string) => string;
};

export const question = "Say hello.";

/** By what each kind of file is run; what is typed into a shell has none. */
export const runners = { sh: "sh", mjs: "node", py: "python3", go: "go run" };
