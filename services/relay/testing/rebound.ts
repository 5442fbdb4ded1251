import { once } from "node:events";
import { createServer } from "node:http";
import dns2 from "dns2";
import { FetchRefusedError, isPublicAddress, type FetchRules } from "#shared/net/guarded-agent.ts";
import { fetchGuarded } from "../conversion/fetch-guarded.ts";

// Runs in a network of its own, whose resolver asks the server here: an address outside, which is public, and this
// machine's own inside. Prints what came of each fetch.

const [outside, inside, port] = ["8.8.8.8", "127.0.0.1", 8_080];

let reachedInside = 0;

/** Serves what a caller's address leads to; at `/to/<name>` it leads on to another name. */
async function serve(address: string, answer: string): Promise<void> {
  const server = createServer(({ url = "" }, response) => {
    if (address === inside) reachedInside += 1;
    const [, next] = /^\/to\/(.+)$/.exec(url) ?? [];
    if (next === undefined) response.end(answer);
    else response.writeHead(302, { location: `http://${next}:${port}/` }).end();
  });
  server.listen(port, address);
  await once(server, "listening");
}

/** The addresses of a name at each question after the other; of names that are not here, none. */
const names: Record<string, string[][]> = {
  "steady.example": [[outside]],
  "flips.example": [[outside], [inside]],
  "flips-back.example": [[inside], [outside]],
  "flips-between.example": [[outside], [outside], [inside]],
  "both.example": [[outside, inside]],
};
const asked = new Map<string, number>();

const { A, CNAME } = dns2.Packet.TYPE;

type Answer = InstanceType<typeof dns2.Packet>["answers"][number];
// The server writes them out; only what it reads has methods.
const recordOf = (name: string, fields: object): Answer =>
  ({ name, class: dns2.Packet.CLASS.IN, ttl: 0, ...fields }) as Answer;

function answersTo(name: string, type: number | undefined): Answer[] {
  if (type !== A) return [];
  if (name === "alias.example") {
    const named = recordOf(name, { type: CNAME, domain: "inside.example" });
    return [named, recordOf("inside.example", { type: A, address: inside })];
  }
  const at = asked.get(name) ?? 0;
  asked.set(name, at + 1);
  const rows = names[name] ?? [];
  return (rows[Math.min(at, rows.length - 1)] ?? []).map((address) => recordOf(name, { type: A, address }));
}

const resolver = dns2.createServer({
  udp: true,
  handle: (request, send) => {
    const response = dns2.Packet.createResponseFromRequest(request);
    const [question] = request.questions;
    if (question) response.answers.push(...answersTo(question.name.toLowerCase(), question.type));
    void send(response);
  },
});
await resolver.listen({ udp: { port: 53, address: inside } });
await serve(outside, "outside");
await serve(inside, "inside");

const rules: FetchRules = { ports: { "http:": [String(port)] }, isAllowedAddress: isPublicAddress };

async function fetched(host: string, path = "/"): Promise<string> {
  try {
    const limits = { maxBytes: 100, timeoutMs: 10_000 };
    return (await fetchGuarded(`http://${host}:${port}${path}`, limits, rules)).body.toString();
  } catch (error) {
    return error instanceof FetchRefusedError ? error.message : String(error);
  }
}

const told = {
  steady: await fetched("steady.example"),
  first: await fetched("flips.example"),
  second: await fetched("flips.example"),
  before: await fetched("flips-back.example"),
  behind: await fetched("flips-back.example"),
  between: await fetched("flips-between.example", "/to/flips-between.example"),
  betweenAgain: await fetched("flips-between.example", "/to/flips-between.example"),
  both: await fetched("both.example"),
  alias: await fetched("alias.example"),
  redirected: await fetched("steady.example", "/to/alias.example"),
  reachedInside,
};
process.stdout.write(`${JSON.stringify(told)}\n`);
process.exit(0);
