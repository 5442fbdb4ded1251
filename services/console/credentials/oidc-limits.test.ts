import assert from "node:assert/strict";
import { createServer, type AddressInfo } from "node:net";
import { it } from "node:test";
import { createLog } from "#shared/process/log.ts";
import { readConfig } from "../config.ts";
import { createOidc } from "./oidc.ts";
import { startIssuer } from "../testing/oidc-provider.ts";
import { environment } from "../testing/environment.ts";

it("an issuer that answers more than can be read, nothing, or in the clear counts as away", async () => {
  const log = createLog("test", "silent");
  const settings = {
    clientId: "console",
    clientSecret: "secret",
    name: "Issuer",
    callback: new URL("https://console.example/sign-in/oidc/callback"),
    allowPlainHttp: true,
  };
  await using issuer = await startIssuer();
  issuer.floodBytes = 300_000;
  const flooded = createOidc({ ...settings, issuer: new URL(issuer.url), timeoutMs: 5_000 }, log);
  assert.equal(await flooded.begin({}), undefined);
  issuer.floodBytes = 0;
  assert.ok(await flooded.begin({}));
  const silent = createServer();
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  const { port } = silent.address() as AddressInfo;
  const patient = createOidc({ ...settings, issuer: new URL(`http://127.0.0.1:${port}`), timeoutMs: 50 }, log);
  assert.equal(await patient.begin({}), undefined);
  silent.close();
  const strict = createOidc({ ...settings, issuer: new URL(issuer.url), timeoutMs: 5_000, allowPlainHttp: false }, log);
  assert.equal(await strict.begin({}), undefined, "plain HTTP is for this machine and when it is allowed");
});

it("the settings are all or none, and the issuer is reached over HTTPS unless it is on this machine", () => {
  const all = {
    OIDC_ISSUER: "https://id.example/realm",
    OIDC_CLIENT_ID: "console",
    OIDC_CLIENT_SECRET_FILE: "file",
    OIDC_NAME: "Example",
  };
  assert.ok(readConfig({ ...environment, ...all }));
  for (const name of Object.keys(all)) {
    assert.throws(() => readConfig({ ...environment, ...all, [name]: "" }), /all or none/, name);
  }
  for (const OIDC_ISSUER of ["nonsense", "http://id.example", "http://localhost:1", "https://a/?b", "https://u:p@a"]) {
    assert.throws(() => readConfig({ ...environment, ...all, OIDC_ISSUER }), /OIDC_ISSUER/, OIDC_ISSUER);
  }
  const local = { ...environment, ...all, ALLOW_PLAIN_HTTP: "loopback" };
  assert.ok(readConfig({ ...local, OIDC_ISSUER: "http://127.0.0.1:9" }));
  assert.throws(() => readConfig({ ...local, OIDC_ISSUER: "http://id.example" }), /OIDC_ISSUER/);
});
