import assert from "node:assert/strict";
import { test } from "node:test";
import { snippets } from "../../../services/console/html/snippets/snippets.ts";
import { clients } from "./clients.ts";

// Those that the test of the console's page runs.
const elsewhere = ["curl", "langchain"];

test("each client runs a recipe of the quick start, and each recipe is run", () => {
  const run = [...clients.map(({ recipe }) => recipe), ...elsewhere];
  assert.deepEqual(run.toSorted(), snippets.map(({ id }) => id).toSorted());
});
