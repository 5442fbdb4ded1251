import { readFileSync } from "node:fs";
import { exampleModel, type ExampleModel, exampleVideoModel } from "./demo-catalog.ts";
import type { Stack } from "./stack.ts";

/** What to know and to type once everything runs. */
export function welcome(stack: Stack): string {
  const { addresses, accountId, key, catalogFile, isCatalogEdited, demo, console: site } = stack;
  const catalog = readFileSync(catalogFile, "utf8");
  const example = exampleModel(catalog);
  const videoModel = exampleVideoModel(catalog);
  const isDemoLost = demo !== undefined && isCatalogEdited && !catalog.includes(demo.url);
  return [
    "",
    `  Relay         ${addresses.relayUrl}  (base URL of OpenAI clients: ${addresses.relayUrl}/v1)`,
    `  Account       ${accountId}, seeded with 100 USD of play money`,
    `  Key           ${key.secret}`,
    `  Catalog       ${catalogFile}${isCatalogEdited ? " (edited by hand, kept)" : ""}`,
    ...(isDemoLost ? [`  Note          the edited catalog does not name the demo upstream, now at ${demo.url}`] : []),
    "  Administer    npm run admin -- --help",
    ...(site ? [`  Console       ${site.url}`] : []),
    ...(site?.bootstrapToken
      ? [`                its first operator is made at ${site.url}/setup with ${site.bootstrapToken}`]
      : []),
    "",
    ...(example ? ["A first call, streamed:", "", curlLine(addresses.relayUrl, key.secret, example), ""] : []),
    ...(videoModel
      ? ["A video, whose id the answer names:", "", videoCurlLine(addresses.relayUrl, key.secret, videoModel), ""]
      : []),
    "For the examples in services/relay/README.md:",
    "",
    `export BASE_URL=${addresses.relayUrl} API_KEY=${key.secret}`,
    "",
    "Ctrl-C stops everything and keeps the data.",
    "",
    "",
  ].join("\n");
}

/** A streaming call as one line for a shell. */
export function curlLine(relayUrl: string, secret: string, { model, dialect }: ExampleModel): string {
  const isChat = dialect === "openai-chat";
  const body = {
    model,
    stream: true,
    ...(isChat ? {} : { max_tokens: 256 }),
    messages: [{ role: "user", content: "Say hello" }],
  };
  const headers = isChat
    ? [`Authorization: Bearer ${secret}`]
    : [`x-api-key: ${secret}`, `provider-version: 2023-06-01`];
  const words = [...headers, "Content-Type: application/json"].map((header) => `-H "${header}"`);
  const path = isChat ? "/v1/chat/completions" : "/v1/messages";
  return `curl -N ${relayUrl}${path} ${words.join(" ")} -d '${JSON.stringify(body)}'`;
}

/** The submission of a video as one line for a shell. */
export function videoCurlLine(relayUrl: string, secret: string, model: string): string {
  const headers = `-H "Authorization: Bearer ${secret}" -H "Content-Type: application/json"`;
  return `curl ${relayUrl}/v1/videos ${headers} -d '${JSON.stringify({ model, prompt: "A tide pool at dawn" })}'`;
}
