import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { runAgainst } from "../tools/admin/testing/stub-services.ts";
import { declaredServices } from "../tools/checks/readme-tables.ts";
import { repository } from "../tools/checks/run.ts";
import { pages } from "./written.ts";

const runbooks = pages().filter(({ path }) => path.startsWith("runbooks/"));
const services = (await declaredServices()).map(({ service }) => service);

/** What a text has between the parenthesis before `start` and the one that closes it. */
function argumentsAt(text: string, start: number): string {
  let depth = 1;
  const parts = /"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`|[()]/g;
  parts.lastIndex = start;
  for (let part = parts.exec(text); part; part = parts.exec(text)) {
    if (part[0] === "(") depth += 1;
    if (part[0] === ")") depth -= 1;
    if (depth === 0) return text.slice(start, part.index);
  }
  return "";
}

/** The texts that a service, or what it shares with others, gives to its log. */
function messagesOf(service: string): string[] {
  const files = globSync([`services/${service}/**/*.ts`, "services/shared/**/*.ts"], { cwd: repository });
  return files
    .filter((file) => !/\.test\.ts$|\/testing\//.test(file))
    .flatMap((file) => {
      const text = readFileSync(join(repository, file), "utf8");
      return [...text.matchAll(/\blog\.(?:info|warn|error|fatal)\(/g)].flatMap(({ 0: call, index }) => [
        ...argumentsAt(text, index + call.length).matchAll(/"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g),
      ]);
    })
    .map(([message]) => message);
}

describe("what runbooks tell to run", () => {
  it("looks for words that the service of that component logs", () => {
    const messages = new Map(services.map((service) => [service, messagesOf(service)]));
    const searches = runbooks.flatMap(({ path, text }) =>
      [...text.matchAll(/component=([a-z-]+) .*grep -E '([^']+)'/g)].flatMap(([, service = "", words = ""]) =>
        words.split("|").map((word) => ({ path, service, word })),
      ),
    );
    assert.ok(searches.length > 50, `found only ${searches.length} searches`);
    const missing = searches.filter(
      ({ service, word }) => !messages.get(service)?.some((text) => new RegExp(word).test(text)),
    );
    assert.deepEqual(missing, []);
  });

  it("names components and scripts that there are", () => {
    const { scripts } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as { scripts: object };
    for (const { path, text } of runbooks) {
      for (const [, name = ""] of text.matchAll(/component=([a-z-]+)/g)) assert.ok(services.includes(name), path);
      for (const [, name = ""] of text.matchAll(/npm run ([a-z:]+)/g)) assert.ok(Object.hasOwn(scripts, name), path);
    }
  });

  it("gives the operator's tool words that it takes", async () => {
    const commands = runbooks.flatMap(({ text }) =>
      [...text.matchAll(/^admin ([^#|\n]+)|`admin ([^`]+)`/gm)].map(([, line, inline]) =>
        (line ?? inline ?? "").trim(),
      ),
    );
    assert.ok(commands.length > 20, `found only ${commands.length} commands`);
    const given = new Map([
      ["USD", "1.5"],
      ["-USD", "-1.5"],
      ["DAY", "2026-11-20"],
    ]);
    for (const command of new Set(commands)) {
      const words = command.split(/\s+/).map((word) => given.get(word) ?? word);
      const { aside } = await runAgainst({}, ...words);
      assert.doesNotMatch(aside, /unknown|missing|not specified|invalid|too many/, command);
    }
  });
});
