import type { TestEvent } from "node:test/reporters";

/** A test that did not fail, by its full name: the titles of its suites and its own, parted by " > ". */
export type TestResult = { name: string; isPassed: boolean };

/**
 * A reporter of node:test that writes each test that did not fail as a line of JSON. A skipped test and one that is
 * marked as not done yet (todo) have proven nothing, whatever the runner calls them.
 */
// The runner takes a reporter's default export and nothing else.
// oxlint-disable-next-line import/no-default-export
export default async function* passedTests(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const titles: string[] = [];
  for await (const { type, data } of events) {
    if (type === "test:start") titles.splice(data.nesting, titles.length, data.name);
    if (type !== "test:pass" || data.details.type === "suite") continue;
    const name = [...titles.slice(0, data.nesting), data.name].join(" > ");
    const counted: TestResult = { name, isPassed: data.skip === undefined && data.todo === undefined };
    yield `${JSON.stringify(counted)}\n`;
  }
}
