import assert from "node:assert/strict";
import { test } from "node:test";
import { openId, sealId } from "./sealed-id.ts";

const binding = { key: Buffer.alloc(32, 1), account: "acct_1", upstream: "openai" };

test("a sealed id keeps its prefix and opens for the same account, upstream and key only", () => {
  for (const id of ["resp_68af4030baa4", "msg_1", "rs_a-b_c", "0b9d9f2c-uuid", "cachedContents/1"]) {
    const sealed = sealId(id, binding);
    assert.match(sealed, /^([a-z]+_)?relay\.1\.[\w-]{22}\./);
    assert.equal(sealed.split("relay.1.")[0], /^[a-z]+_/.exec(id)?.[0] ?? "");
    assert.equal(openId(sealed, binding), id);
    assert.equal(openId(sealed, { ...binding, account: "acct_2" }), undefined);
    assert.equal(openId(sealed, { ...binding, upstream: "azure" }), undefined);
    assert.equal(openId(sealed, { ...binding, key: Buffer.alloc(32, 2) }), undefined);
    assert.equal(openId(`${sealed}x`, binding), undefined);
    assert.equal(openId(sealed.replace(/^[a-z]+_/, "").replace(/^/, "other_"), binding), undefined);
  }
});

test("what was never sealed opens for nobody", () => {
  for (const text of ["", "resp_1", "relay.1.", "resp_relay.1.", `resp_relay.1.${"A".repeat(22)}.1`, "relay.1.x.y"]) {
    assert.equal(openId(text, binding), undefined);
  }
});

test("no two owners share a seal by how their names join", () => {
  const one = sealId("resp_1", { ...binding, account: "a", upstream: "b" });
  assert.notEqual(one, sealId("resp_1", { ...binding, account: "a\0b", upstream: "" }));
});

test("an id that stands otherwise in JSON passes as it is, and so is nobody's", () => {
  for (const id of ['a"b', "a\\b", "ü", "", "x".repeat(300)]) assert.equal(sealId(id, binding), id);
});
