import assert from "node:assert/strict";
import { test } from "node:test";
import { networkDigits, networkOf } from "./network.ts";

const networks: [text: string, shortest: string, digits: string][] = [
  ["192.0.2.7", "192.0.2.7", "4c0000207/32"],
  ["192.0.2.0/24", "192.0.2.0/24", "4c00002/24"],
  ["192.0.2.128/25", "192.0.2.128/25", "4c000028/25"],
  ["192.0.2.7/32", "192.0.2.7", "4c0000207/32"],
  ["0.0.0.0/0", "0.0.0.0/0", "4/0"],
  ["2001:DB8:0:0::1", "2001:db8::1", "620010db8000000000000000000000001/128"],
  ["2001:db8::/48", "2001:db8::/48", "620010db80000/48"],
  ["::/0", "::/0", "6/0"],
  ["::ffff:192.0.2.7", "192.0.2.7", "4c0000207/32"],
];
for (const [text, shortest, digits] of networks) {
  test(`${text} is ${shortest}`, () => {
    assert.equal(networkOf(text), shortest);
    assert.equal(networkDigits(text), digits);
  });
}

const wrong = ["", "x", "192.0.2", "192.0.2.7/24", "192.0.2.0/33", "192.0.2.0/", "192.0.2.0/024", "192.0.2.0/24/24"];
const alsoWrong = [
  "3221225991",
  "0300.0.2.7",
  "2001:db8::1/48",
  "2001:db8::/129",
  "fe80::1%eth0",
  "::ffff:192.0.2.0/120",
];
for (const text of [...wrong, ...alsoWrong, `192.0.2.7${" ".repeat(50)}`]) {
  test(`${JSON.stringify(text.slice(0, 20))} is no address or network`, () => {
    assert.equal(networkOf(text), undefined);
  });
}
