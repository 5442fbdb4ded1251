import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { until } from "#shared/testing/until.ts";
import { chat, makeCall } from "./ask.ts";
import { testCatalog, upstreamAt } from "./catalog.ts";
import { startSecondRelay } from "./second-relay.ts";
import { startWorld } from "./world.ts";

test("a catalog with a typo takes no capacity: running relays go on, a new one serves with the last good one", async () => {
  // Nobody guesses this one, as is asked of a catalog that stands in for a file.
  const environment = { SECRET_API_KEY: "sk-of-a-provider-0123456789" };
  await using world = await startWorld({
    catalog: (fakeUrl) => {
      const upstreams = { secret: upstreamAt(fakeUrl, { credential: { env: "SECRET_API_KEY" } }) };
      return testCatalog(fakeUrl, { upstreams });
    },
    serviceEnvironment: { relay: environment, "video-task": environment },
  });
  const { stack, authQuota } = world;
  const { catalogFile } = stack;
  const customer = await world.createCustomer();
  const good = await readFile(catalogFile, "utf8");
  await until("the catalog is kept", async () => {
    const kept = await authQuota.getKeptCatalog({}).catch(() => undefined);
    return kept?.content === good;
  });

  await writeFile(catalogFile, good.replace(`"models"`, `"mdoels"`));
  const opsUrl = stack.addresses.opsUrls.relay;
  await until("the running relay has refused it", async () =>
    (await (await fetch(`${opsUrl}/metrics`)).text()).includes('relay_catalog_refused{service="relay"} 1'),
  );
  const readyz = await fetch(`${opsUrl}/readyz`);
  assert.match(
    `${readyz.status} ${await readyz.text()}`,
    /^200 ok\nthe catalog file is refused; catalog [0-9a-f]{12} is/,
  );

  // Ready within the time that it has for a start.
  await using started = await startSecondRelay(world, join(dirname(catalogFile), "second-spool"), environment);
  for (const url of [world.relayUrl, started.url]) {
    const reply = await makeCall(url, customer.secret, { side: chat });
    assert.equal(reply.status, 200, reply.text);
    await world.untilBooked(customer.accountId, reply.rid);
  }
  assert.equal((await authQuota.getKeptCatalog({})).content, good);

  const next = `${good}\n# corrected\n`;
  await writeFile(catalogFile, next);
  await until("the corrected one is kept", async () => (await authQuota.getKeptCatalog({})).content === next);
});
