import { describe } from "node:test";
import { keepShared } from "#shared/testing/share.ts";

// The process of a batch of test files, which are its arguments: to start a process for each takes longer than they do.
// Each is a suite of its name, so that its hooks are its own, and what it starts ends before the next one begins; what
// they share ends after the last. A hook of the process would end it after the first: nothing else is waiting by then.
await using _ = keepShared();
// A test may wait for a timer that keeps no process alive; without this the process would end in the middle.
const alive = setInterval(() => undefined, 60_000);
for (const path of process.argv.slice(2)) {
  await describe(path, async () => {
    await import(path);
  });
}
clearInterval(alive);
