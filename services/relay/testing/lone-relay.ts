import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { Verdict } from "#proto/authquota/v1/authquota_pb.ts";
import { createPools } from "#shared/catalog/pools.ts";
import { buildApp } from "../app.ts";
import { dialectNames } from "../dialects/dialect.ts";
import { listeningLog, modelOf, scriptedQuota, settlingOf, upstreamOf } from "./fakes.ts";
import { countThreads, createThreads } from "../threads/threads.ts";
import { loneConfig as config } from "./lone-config.ts";
import { relayOf } from "./relay-of.ts";

// A relay in a process of its own, whose every caller has a key and no money. It writes its port and goes on until its
// standard input ends.
const converted = modelOf({
  id: "converted",
  routes: [{ upstream: upstreamOf({ dialects: ["gemini-generate"] }), model: "m", priority: 0, weight: 0 }],
});
const spoken = modelOf({
  routes: [{ upstream: upstreamOf({ dialects: [...dialectNames] }), model: "m", priority: 0, weight: 0 }],
});
const models = new Map([spoken, converted].map((model) => [model.id, model]));
const quota = scriptedQuota((operation) =>
  operation.case === "reserve" ? { verdict: Verdict.BALANCE } : { accountId: "acct_1" },
);
const settling = settlingOf({ quota, log: listeningLog().log });
await using pools = createPools();
await using threads = createThreads(countThreads(settling.metrics, settling.log));
const app = buildApp(config, relayOf({ models, settling, pools, threads }));
await app.listen({ host: "127.0.0.1", port: 0 });
process.stdout.write(`${(app.server.address() as AddressInfo).port}\n`);
process.stdin.resume();
await once(process.stdin, "end");
app.server.closeAllConnections();
await app.close();
