import assert from "node:assert/strict";
import { hash } from "@node-rs/argon2";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { readConfig } from "../config.ts";
import { minPasswordCost } from "../config.ts";
import { createPasswords } from "./passwords.ts";
import { render } from "../html/html.ts";
import { createSecretBox, createToken, hashToken, readSecretsKeys } from "./secrets.ts";
import { createRecoveryCodes, createTotpSecret, hashRecoveryCode, qrOf, stepOfCode } from "./totp.ts";
import { environment } from "../testing/environment.ts";

describe("sealed secrets", () => {
  const box = createSecretBox([randomBytes(32)]);
  const sealed = box.seal(Buffer.from("secret"), "person-1");

  it("open for whom they were sealed, with the key they were sealed with, unchanged", () => {
    assert.equal(box.open(sealed, "person-1").toString(), "secret");
    assert.ok(!sealed.includes("secret"));
    assert.notDeepEqual(box.seal(Buffer.from("secret"), "person-1"), sealed, "each time another nonce");
    assert.throws(() => box.open(sealed, "person-2"));
    assert.throws(() => createSecretBox([randomBytes(32)]).open(sealed, "person-1"));
    for (let index = 0; index < sealed.length; index += 1) {
      const changed = Buffer.from(sealed);
      changed[index] = (changed[index] ?? 0) ^ 1;
      assert.throws(() => box.open(changed, "person-1"), `byte ${index}`);
    }
    for (const short of [Buffer.alloc(0), sealed.subarray(0, 20)]) assert.throws(() => box.open(short, "person-1"));
  });

  it("open with each key of the file, and are sealed with its first", () => {
    const [former, first] = [randomBytes(32), randomBytes(32)];
    const known = createSecretBox([former, first]);
    const rotated = createSecretBox([first, former]);
    const ofFormer = known.seal(Buffer.from("secret"), "person-1");
    assert.deepEqual([known.isRotating, createSecretBox([first]).isRotating], [true, false]);
    assert.equal(rotated.open(ofFormer, "person-1").toString(), "secret");
    const resealed = rotated.reseal(ofFormer, "person-1") ?? assert.fail("nothing was sealed anew");
    assert.equal(createSecretBox([first]).open(resealed, "person-1").toString(), "secret");
    assert.throws(() => createSecretBox([former]).open(resealed, "person-1"));
    assert.equal(known.open(resealed, "person-1").toString(), "secret", "a replica with the order of before");
    assert.equal(rotated.reseal(resealed, "person-1"), undefined);
    assert.throws(() => rotated.reseal(ofFormer, "person-2"));
    assert.throws(() => rotated.reseal(sealed, "person-1"));
  });

  it("need keys of 32 bytes as base64; what is wrong is told without the content", () => {
    const right = randomBytes(32).toString("base64");
    const texts = (content: string) => readSecretsKeys(content).map((key) => key.toString("base64"));
    assert.deepEqual(texts(`${right}\n`), [right]);
    const other = randomBytes(32).toString("base64");
    assert.deepEqual(texts(`${other}\n${right}\r\n`), [other, right]);
    for (const wrong of [
      "",
      "x",
      randomBytes(31).toString("base64"),
      randomBytes(33).toString("base64"),
      "a".repeat(64),
      `${right}\nx`,
      `${right}\n`.repeat(4),
    ]) {
      assert.throws(() => readSecretsKeys(wrong), /^Error: SECRETS_KEY_FILE must hold 32 bytes as base64[^=]*$/);
    }
    assert.notDeepEqual(box.deriveKey("a"), box.deriveKey("b"));
  });
});

it("tokens have 256 random bits and are kept as SHA-256", () => {
  const tokens = new Set(Array.from({ length: 100 }, createToken));
  assert.equal(tokens.size, 100);
  for (const token of tokens) assert.equal(Buffer.from(token, "base64url").length, 32);
  assert.equal(hashToken("a").toString("hex"), "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
});

describe("passwords", () => {
  it("are hashed with Argon2id, each with its salt, and compared", async () => {
    const passwords = await createPasswords({ memoryKib: 8, passes: 1 });
    const encoded = await passwords.hash("a password");
    assert.match(encoded, /^\$argon2id\$v=19\$m=8,t=1,p=1\$/);
    assert.notEqual(await passwords.hash("a password"), encoded);
    assert.equal(await passwords.verify(encoded, "a password"), true);
    assert.equal(await passwords.verify(encoded, "another"), false);
    assert.equal(await passwords.verify(undefined, "nobody has this password"), false);
    assert.equal(passwords.isOutdated(encoded), false);
    assert.equal(passwords.isOutdated(await hash("x", { memoryCost: 16, timeCost: 1 })), true);
  });

  it("wait in a line that has an end", async () => {
    const passwords = await createPasswords({ memoryKib: 8, passes: 1 });
    const many = await Promise.allSettled(Array.from({ length: 100 }, () => passwords.hash("x")));
    assert.equal(many.filter(({ status }) => status === "fulfilled").length, 36);
    assert.ok(await passwords.hash("x"), "and the line is free again");
    const ofNobody = await Promise.allSettled(Array.from({ length: 100 }, () => passwords.verify(undefined, "x")));
    assert.equal(ofNobody.filter(({ status }) => status === "fulfilled").length, 36, "the same work for nobody");
  });

  it("cannot be made cheaper in production than OWASP's minimum", () => {
    assert.deepEqual(minPasswordCost, { memoryKib: 19_456, passes: 2 });
    assert.equal(readConfig(environment).PASSWORD_MEMORY_KIB, 19_456);
    assert.throws(() => readConfig({ ...environment, PASSWORD_MEMORY_KIB: "19455" }), /PASSWORD_MEMORY_KIB/);
    assert.throws(() => readConfig({ ...environment, PASSWORD_PASSES: "1" }), /PASSWORD_PASSES/);
    for (const PUBLIC_URL of [
      "http://console.example",
      "http://localhost:1",
      "https://a/path",
      "nonsense",
      "ftp://a",
    ]) {
      assert.throws(() => readConfig({ ...environment, PUBLIC_URL }), /PUBLIC_URL/, PUBLIC_URL);
    }
    const local = { ...environment, ALLOW_PLAIN_HTTP: "loopback" };
    assert.ok(readConfig({ ...local, PUBLIC_URL: "http://localhost:8090" }));
    assert.throws(() => readConfig({ ...local, PUBLIC_URL: "http://console.example" }), /PUBLIC_URL/);
    const owned = { ...local, BOOTSTRAP_ACCOUNT: "acct_local" };
    assert.ok(readConfig({ ...owned, PUBLIC_URL: "http://localhost:8090" }));
    assert.throws(() => readConfig(owned), /BOOTSTRAP_ACCOUNT needs/, "with https:// it is no console of one's own");
    const other = { ...owned, PUBLIC_URL: "http://localhost:8090", BOOTSTRAP_ACCOUNT: "no id" };
    assert.throws(() => readConfig(other), /BOOTSTRAP_ACCOUNT is not/);
  });
});

describe("codes", () => {
  it("of RFC 6238, appendix B, one step early or late and no further", () => {
    const secret = Buffer.from("12345678901234567890");
    const cases: [number, string][] = [
      [59, "287082"],
      [1_111_111_109, "081804"],
      [2_000_000_000, "279037"],
    ];
    for (const [seconds, code] of cases) {
      const step = Math.floor(seconds / 30);
      for (const drift of [-1, 0, 1]) assert.equal(stepOfCode(secret, code, (step + drift) * 30_000), step);
      for (const drift of [-2, 2]) assert.equal(stepOfCode(secret, code, (step + drift) * 30_000), undefined);
    }
    assert.equal(createTotpSecret().length, 20);
  });

  it("are set up by a QR code with corners to find and a border of four modules, without style or script", () => {
    const drawn = render(qrOf(Buffer.from("12345678901234567890"), "a&b@example.org"));
    const size = Number(/viewBox="0 0 (\d+) \1"/.exec(drawn)?.[1]);
    const dark = new Set([...drawn.matchAll(/M(\d+) (\d+)h1v1h-1z/g)].map(([, x, y]) => `${x} ${y}`));
    const [first, last] = [4, size - 5];
    for (const corner of [`${first} ${first}`, `${last} ${first}`, `${first} ${last}`])
      assert.ok(dark.has(corner), corner);
    for (const place of dark) {
      assert.ok(
        place.split(" ").every((at) => Number(at) >= first && Number(at) <= last),
        place,
      );
    }
    assert.ok(dark.size > 400);
    assert.match(drawn, /role="img" aria-label="QR code for your authenticator app"/);
    assert.doesNotMatch(drawn, /style|script|image/);
  });

  it("for recovery are ten, all different, and are read however they are typed", () => {
    const codes = createRecoveryCodes();
    assert.equal(new Set(codes).size, 10);
    for (const code of codes) {
      assert.match(code, /^(?:[A-HJ-NP-Z2-9]{4}-){3}[A-HJ-NP-Z2-9]{4}$/);
      const typed = ` ${code.toLowerCase().replaceAll("-", " ")} `;
      assert.deepEqual(hashRecoveryCode(typed), hashRecoveryCode(code));
    }
    assert.equal(hashRecoveryCode("short"), undefined);
  });
});
