import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import { test } from "node:test";
import { limitConnections, proxyMatcher } from "./connection-limit.ts";

/** A server as far as the limit sees it. */
function listenTo(most: number, proxies: string[] = []) {
  const server = new EventEmitter();
  const refused: string[] = [];
  const isProxy = proxyMatcher(proxies);
  limitConnections(server as Server, { most, isProxy, onRefused: (address) => refused.push(address) });
  const connect = (remoteAddress: string) => {
    const socket = Object.assign(new EventEmitter(), { remoteAddress, destroyed: false, destroy: () => undefined });
    socket.destroy = () => void (socket.destroyed = true);
    server.emit("connection", socket);
    return socket;
  };
  return { connect, refused };
}

test("an address has so many connections at once; one that closes makes room, others do not count", () => {
  const { connect, refused } = listenTo(2);
  const [first] = [connect("192.0.2.1"), connect("::ffff:192.0.2.1")];
  assert.equal(connect("192.0.2.1").destroyed, true);
  assert.equal(connect("192.0.2.2").destroyed, false);
  first?.emit("close");
  assert.equal(connect("192.0.2.1").destroyed, false);
  assert.equal(connect("192.0.2.1").destroyed, true);
  assert.deepEqual(refused, ["192.0.2.1", "192.0.2.1"]);
});

test("all addresses of an IPv6 network of 64 bits count as one", () => {
  const { connect } = listenTo(2);
  for (const host of ["1", "2"]) assert.equal(connect(`2001:db8::${host}`).destroyed, false);
  assert.equal(connect("2001:db8::ffff:ffff:ffff:ffff").destroyed, true);
  assert.equal(connect("2001:db8:0:1::1").destroyed, false);
});

test("connections of trusted proxies are not counted", () => {
  const { connect } = listenTo(1, ["10.0.0.0/8", "loopback"]);
  for (const address of ["10.1.2.3", "10.1.2.3", "127.0.0.1", "127.0.0.1"])
    assert.equal(connect(address).destroyed, false);
  assert.deepEqual([connect("11.0.0.1").destroyed, connect("11.0.0.1").destroyed], [false, true]);
});

test("a proxy is given as an address, a network, a mask or a name", () => {
  const rows: [proxy: string, address: string, is: boolean][] = [
    ["192.0.2.1", "192.0.2.1", true],
    ["192.0.2.1", "::ffff:192.0.2.1", true],
    ["192.0.2.1", "192.0.2.2", false],
    ["192.0.2.0/24", "192.0.2.255", true],
    ["192.0.2.0/255.255.255.0", "192.0.2.255", true],
    ["192.0.2.0/24", "192.0.3.1", false],
    ["192.0.2.0/24", "2001:db8::1", false],
    ["2001:db8::/32", "2001:db8:1::1", true],
    ["2001:db8::1", "2001:db8:0::1", true],
    ["uniquelocal", "10.0.0.1", true],
    ["uniquelocal", "fd00::1", true],
    ["linklocal", "169.254.1.1", true],
    ["loopback", "::1", true],
    ["loopback", "192.0.2.1", false],
    ["nonsense", "192.0.2.1", false],
  ];
  for (const [proxy, address, is] of rows) assert.equal(proxyMatcher([proxy])(address), is, `${proxy} ${address}`);
});
