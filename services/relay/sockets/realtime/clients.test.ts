import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { createServer } from "node:tls";
import { promisify } from "node:util";
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { makeCertificate } from "#shared/testing/certificate.ts";
import { officialClients, pythonWith } from "#shared/testing/python.ts";
import { charged, start } from "../../testing/realtime-client.ts";

const run = promisify(execFile);

// The official clients open sessions over TLS only.
const folder = mkdtempSync(join(tmpdir(), "relay-realtime-"));
after(() => rmSync(folder, { recursive: true, force: true }));
const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
await makeCertificate({ certFile, keyFile }, "relay");
// Before any test: while it is installed, the tests before it would end, and the relay with them.
const python = await pythonWith(...officialClients);
const relay = await start();
const ca = readFileSync(certFile);
const front = createServer({ cert: ca, key: readFileSync(keyFile) }, (socket) => {
  const behind = connect(relay.port, "127.0.0.1");
  for (const side of [socket, behind]) side.on("error", () => side.destroy());
  socket.pipe(behind).pipe(socket);
});
await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
after(() => void front.close());
const baseURL = `https://localhost:${(front.address() as AddressInfo).port}/v1`;

test("openai for Node: a client secret opens a session, which asks and is answered aloud", async () => {
  const server = new OpenAI({ baseURL: `${relay.url}/v1`, apiKey: "sk-right" });
  const session = { type: "realtime", model: "talk", instructions: "Be brief." } as const;
  const secret = await server.realtime.clientSecrets.create({ session });
  assert.equal(secret.session.type, "realtime");
  const client = new OpenAI({ baseURL, apiKey: secret.value });
  const talk = new OpenAIRealtimeWS({ model: "talk", options: { ca } }, client);
  const errors: unknown[] = [];
  talk.on("error", (error) => void errors.push(error));
  let heard = "";
  talk.on("response.output_audio_transcript.delta", ({ delta }) => (heard += delta));
  talk.socket.once("open", () => {
    const content = [{ type: "input_text", text: "Hi" } as const];
    talk.send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    talk.send({ type: "response.create" });
  });
  const usage = await new Promise((resolve) => talk.on("response.done", ({ response }) => resolve(response.usage)));
  talk.close();
  assert.deepEqual(errors, []);
  assert.equal(heard, "Hello from the fake upstream");
  const [record] = charged(relay);
  assert.equal(Number(record?.usage?.audioOutputTokens), 10);
  assert.equal((usage as { output_token_details: { audio_tokens: number } }).output_token_details.audio_tokens, 10);
});

const program = `
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], websocket_base_url=sys.argv[1].replace("http", "ws"), api_key="sk-right")
secret = client.realtime.client_secrets.create(session={"type": "realtime", "model": "talk"})
client.api_key = secret.value
with client.realtime.connect(model="talk") as connection:
    connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
    content = [{"type": "input_text", "text": "Hi"}]
    connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
    connection.response.create()
    for event in connection:
        if event.type == "error":
            raise Exception(event.error.message)
        if event.type == "response.output_text.delta":
            print(event.delta, end="")
        if event.type == "response.done":
            print("|", event.response.usage.output_token_details.text_tokens)
            break
`;

test("openai for Python: the same, as text", { skip: "missing" in python && python.missing }, async () => {
  assert.ok("program" in python);
  const { stdout } = await run(python.program, ["-c", program, `${relay.url}/v1`]);
  assert.equal(stdout, "Hello from the fake upstream| 5\n");
});
