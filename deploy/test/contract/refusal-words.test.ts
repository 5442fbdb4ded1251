import assert from "node:assert/strict";
import { test } from "node:test";
import { knownReasons } from "../../../services/console/html/refusal-words.ts";
import { failures, type FailureName } from "../../../services/relay/failures.ts";
import { callOutcomeOf } from "../../../services/relay/report/call-outcome.ts";
import { isOfCaller } from "../../../services/relay/report/refusals.ts";

test("the console has words for every refusal that relays report", () => {
  const names = Object.keys(failures) as FailureName[];
  const reported = names.filter((name) =>
    isOfCaller(callOutcomeOf({ failure: { name }, end: "refused", status: failures[name].status })),
  );
  assert.ok(reported.length > 10);
  const lacking = reported.filter((name) => !knownReasons.includes(name));
  assert.deepEqual(lacking, []);
});
