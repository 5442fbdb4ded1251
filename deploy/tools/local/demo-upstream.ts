import { Type } from "typebox";
import { readVariables } from "#shared/process/env.ts";
import { stopSignal } from "#shared/process/lifecycle.ts";
import { createLog } from "#shared/process/log.ts";
import type { Behaviour } from "#fake-provider/behaviour.ts";
import type { FakeRequest } from "#fake-provider/request.ts";
import { startFakeUpstream } from "#fake-provider/upstream.ts";
import { startFakeVideos } from "#fake-provider/videos.ts";

const variables = Type.Object({
  HOST: Type.String({ description: "Address to listen on.", default: "127.0.0.1" }),
  PORT: Type.Integer({ description: "Port to listen on.", minimum: 1, maximum: 65_535 }),
  VIDEOS_PORT: Type.Integer({ description: "Port where it makes videos.", minimum: 1, maximum: 65_535 }),
  TRUTH_FILE: Type.Optional(Type.String({ description: "Where every call served is noted, as lines of JSON." })),
});

const echoedWords = 8;

// Counts tokens as words, so that anybody can check the bill by hand: see the counting rule of `behaviourSchema`.
function speak({ dialect, lastUserText }: FakeRequest): Behaviour {
  if (dialect === "transcriptions" || dialect === "translations")
    return { text: "I am the demo upstream: I hear how long you speak, and no word." };
  const words = lastUserText.match(/\S+/g) ?? [];
  const echo = words.slice(0, echoedWords).join(" ") + (words.length > echoedWords ? " …" : "");
  const text = `Hello! You said: "${echo}". I am the demo upstream: I run no model, I only speak slowly, word by word.`;
  return { text, gapMs: 30 };
}

const { HOST, PORT, VIDEOS_PORT, TRUTH_FILE } = readVariables(variables, process.env);
const log = createLog("demo", "info");

// First, because the stack asks the other one whether this is ready.
await using videos = await startFakeVideos({ host: HOST, port: VIDEOS_PORT });
await using demo = await startFakeUpstream({
  host: HOST,
  port: PORT,
  behaviour: speak,
  models: ["demo-chat"],
  receivedLimit: 1,
  truthLimit: 1_000,
  truthFile: TRUTH_FILE,
});

log.info({ port: demo.port, videosPort: videos.port }, "the demo upstream is ready");
await stopSignal();
