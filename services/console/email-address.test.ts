import assert from "node:assert/strict";
import { test } from "node:test";
import { domainOf, isSameAddress, readAddress, readDomain, spellingsOf } from "./email-address.ts";

test("a domain is read in the letters of DNS, whatever it is written in", () => {
  for (const text of ["Example.org", "example.org", "\uff25xample.org"])
    assert.equal(readDomain(text), "example.org", text);
  for (const text of ["B\u00dccher.example", "bu\u0308cher.example", "xn--bcher-kva.EXAMPLE"]) {
    assert.equal(readDomain(text), "xn--bcher-kva.example", text);
  }
});

test("what is no domain of names, or an encoded one, is none", () => {
  const longLabel = `${"a".repeat(64)}.example`;
  const none = ["", "localhost", "1.2.3.4", "0x7f.1", "[::1]", "a..b", ".a.b", "a.b.", "-a.example", "a_b.example"];
  for (const text of [
    ...none,
    "a b.example",
    "ex%61mple.org",
    "a/b.example",
    "a@b.example",
    "a:1.example",
    longLabel,
  ]) {
    assert.equal(readDomain(text), undefined, text);
  }
  assert.equal(readDomain(`${"a.".repeat(120)}example`), undefined);
});

test("an address is one mailbox in every spelling of its domain, and another one in any other way", () => {
  assert.equal(readAddress("A@B\u00dccher.example"), "a@b\u00fccher.example");
  assert.ok(isSameAddress("a@b\u00fccher.example", "a@xn--bcher-kva.example"));
  assert.deepEqual(
    new Set(spellingsOf("a@xn--bcher-kva.example")),
    new Set(["a@xn--bcher-kva.example", "a@b\u00fccher.example"]),
  );
  for (const other of [
    "b@example.org",
    "a+b@example.org",
    "a@sub.example.org",
    "a@example.org.",
    "a@example.org.evil.example",
  ]) {
    assert.ok(!isSameAddress("a@example.org", other), other);
  }
  assert.equal(domainOf("a@sub.example.org"), "sub.example.org");
  for (const none of [
    "a@b@example.org",
    "a@",
    "@example.org",
    "a b@example.org",
    "<a@example.org>",
    "a@example.org\n",
  ]) {
    assert.equal(readAddress(none), undefined, none);
  }
});
