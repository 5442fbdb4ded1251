import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempDisposable, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join as joinPath } from "node:path";
import { after, before, beforeEach, describe, it } from "node:test";
import { promisify } from "node:util";
import { ServiceError } from "#shared/process/errors.ts";
import { searchPath } from "#shared/testing/config.ts";
import { snippets } from "../../html/snippets/snippets.ts";
import { startWorld, type World } from "../../testing/console.ts";
import { chatEnd, chatEvent, startFakeApi, type FakeApi } from "../../testing/fake-api.ts";
import { checkPage } from "../../testing/pages.ts";
import { officialClients, pythonWith } from "#shared/testing/python.ts";
import { join, setUp, type TestPerson } from "../../testing/people.ts";
import { readyState, defaultModels } from "../../testing/relay-neighbour.ts";

const run = promisify(execFile);
const path = "/accounts/acme/quick-start";
const secret = "sk-in-the-environment";

let world: World;
let api: FakeApi;
let reader: TestPerson;

before(async () => {
  api = await startFakeApi();
  world = await startWorld({ API_URL: api.url });
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  reader = await join(world, operator.browser, "acme", "viewer");
});
after(async () => {
  await world[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
});
beforeEach(() => {
  world.neighbours.relays.state = readyState();
  // What the relays told is kept for two seconds.
  world.clock.moveMs += 2_000;
});

/** The text of the element with this id as a browser would show and copy it. */
async function codeOf(id: string, query = ""): Promise<string> {
  const { browser } = reader;
  const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  const headers = { cookie, "x-forwarded-proto": "https", "x-forwarded-for": browser.address };
  const response = await fetch(`http://127.0.0.1:${world.app.httpPort}${path}${query}`, { headers });
  const text = new RegExp(`<pre><code id="${id}">([^<]*)</code></pre>`).exec(await response.text())?.[1] ?? "";
  return text.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

const runners = { sh: "sh", mjs: process.execPath };

// Python's packages are installed once.
const patient = { timeout: 300_000 };

const messageEvents = [
  { type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage: {} } },
  { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Hello!" } },
  { type: "content_block_stop", index: 0 },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 1 } },
  { type: "message_stop" },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

const small = new Set(["openai-python", "anthropic-python"]);

describe("the code of the page, run as it is shown", () => {
  const model = `it's "$HOME" \\ \`x\` <b>&amp;`;
  for (const { id, kind, endpoint } of snippets) {
    // The others need packages that are large or take minutes to compile: `npm run test:clients` runs them.
    if (kind === "set-up" || kind === "go" || (kind === "py" && !small.has(id))) continue;
    it(`${id} asks ${endpoint} with the key of the environment, whatever the model is called`, patient, async (t) => {
      const runner = kind === "py" ? await pythonWith(...officialClients) : { program: runners[kind] };
      if ("missing" in runner) return t.skip(runner.missing);
      const models = [{ name: model, endpoints: ["/v1/chat/completions", "/v1/messages"] }];
      world.neighbours.relays.state = readyState(models);
      api.received.length = 0;
      api.answer = (response, { path: asked }) => {
        response.setHeader("content-type", "text/event-stream");
        response.end(asked === "/v1/messages" ? messageEvents.join("") : chatEvent("Hello!") + chatEnd);
      };
      await using folder = await mkdtempDisposable(joinPath(tmpdir(), "console-snippet-"));
      await symlink(joinPath(import.meta.dirname, "../../../../node_modules"), joinPath(folder.path, "node_modules"));
      const file = joinPath(folder.path, `snippet.${kind}`);
      await writeFile(file, await codeOf(id, `?model=${encodeURIComponent(model)}`));
      const env = { PATH: searchPath().join(delimiter), RELAY_API_KEY: secret };
      const { stdout } = await run(runner.program, [file], { env, timeout: 30_000 });
      assert.match(stdout, /Hello!/);
      const [asked] = api.received;
      assert.equal(api.received.length, 1);
      assert.equal(asked?.path, endpoint);
      const { authorization, "x-api-key": apiKey } = asked?.headers ?? {};
      // Which of the two Anthropic's client sends depends on its version; the API takes both there.
      const sent = endpoint === "/v1/messages" && apiKey !== undefined ? `Bearer ${String(apiKey)}` : authorization;
      assert.equal(sent, `Bearer ${secret}`);
      assert.equal(asked?.body?.["model"], model);
    });
  }
});

describe("the page", () => {
  it("has code for Python, with what to install and how to run it", async () => {
    const seen = await reader.browser.get(path);
    assert.match(seen.text, /<code>pip install openai<\/code>/);
    assert.match(seen.text, /save this as<code>ask\.py<\/code>and run<code>python3 ask\.py<\/code>/);
    assert.match(await codeOf("openai-python"), /^import os\n\nfrom openai import OpenAI\n/);
  });

  it("shows the base URL, what to install, and buttons to copy", async () => {
    const seen = await reader.browser.get(path);
    assert.equal(seen.status, 200);
    checkPage(seen, path);
    assert.ok(seen.text.includes(`<code id="base-url">${api.url}</code>`));
    for (const { id, install } of snippets) {
      assert.ok(seen.text.includes(`data-copy="${id}" hidden>`), id);
      const escaped = install.replaceAll(/[&']/g, (sign) => `&#${sign.charCodeAt(0)};`);
      assert.ok(seen.text.includes(escaped), id);
    }
  });

  it("offers only models that the code can ask, and leaves out code that the chosen one is not for", async () => {
    const chatOnly = { name: "chat-only", endpoints: ["/v1/chat/completions"] };
    const models = [...defaultModels, chatOnly];
    world.neighbours.relays.state = readyState(models);
    const { text } = await reader.browser.get(`${path}?model=chat-only`);
    assert.match(text, /<option value="chat-large">.*<option value="chat-only" selected>/);
    assert.doesNotMatch(text, /embed-small/);
    assert.match(text, /chat-only cannot be asked at<code>\/v1\/messages<\/code>/);
    assert.match(await codeOf("curl", "?model=chat-only"), /"model":"chat-only"/);
    assert.equal(await codeOf("anthropic", "?model=chat-only"), "");
    assert.match(await codeOf("curl", "?model=embed-small"), /"model":"chat-large"/, "the first instead");
  });

  it("shows the code with a name to replace when no relay answers", async () => {
    world.neighbours.failure = new ServiceError("unavailable", "gone");
    try {
      const seen = await reader.browser.get(path);
      assert.equal(seen.status, 200);
      checkPage(seen, path);
      assert.match(seen.text, /list of models is not available right now/);
      assert.match(await codeOf("openai"), /model: "name-of-a-model"/);
    } finally {
      world.neighbours.failure = undefined;
    }
  });

  it("a model's name with markup in it is shown as it is written", async () => {
    const wrong = `"><script>alert(1)</script>&amp;'`;
    const models = [{ name: wrong, endpoints: ["/v1/messages"] }];
    world.neighbours.relays.state = readyState(models);
    const { text } = await reader.browser.get(path);
    assert.doesNotMatch(text, /<script>|&amp;/);
    assert.match(text, /&#60;script&#62;alert\(1\)/);
  });
});
