import assert from "node:assert/strict";
import { isIP } from "node:net";
import { test } from "node:test";
import { addressBlock } from "./address-block.ts";

const rows: [address: string, block: string][] = [
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["::FFFF:192.0.2.1", "192.0.2.1"],
  ["::ffff:c000:201", "192.0.2.1"],
  ["0:0:0:0:0:ffff:c000:0201", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"],
  ["2001:DB8:1:2::", "2001:db8:1:2::"],
  ["2001:0db8:0001:0002:ffff:ffff:ffff:ffff", "2001:db8:1:2::"],
  ["2001:db8::1", "2001:db8:0:0::"],
  ["2001:db8:1:3::1", "2001:db8:1:3::"],
  ["fe80::1%eth0", "fe80:0:0:0::"],
  ["::1", "0:0:0:0::"],
];

test("a caller is an IPv4 address, or the first 64 bits of an IPv6 address, however it is written", () => {
  for (const [address, block] of rows) {
    assert.equal(addressBlock(address), block, address);
    assert.notEqual(isIP(addressBlock(block)), 0, block);
    assert.equal(addressBlock(block), block, "the block of a block");
  }
  assert.equal(addressBlock("1.2.3.4:5678"), "1.2.3.4:5678", "what is no address stays");
});
