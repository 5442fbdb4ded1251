import type { Server } from "node:http";
import type { Socket } from "node:net";
import ipaddr from "ipaddr.js";
import { addressBlock } from "../charge/address-block.ts";

type Address = ipaddr.IPv4 | ipaddr.IPv6;

// The names for networks that Fastify takes where it trusts proxies.
const rangesByName: Record<string, readonly string[]> = {
  loopback: ["loopback"],
  linklocal: ["linkLocal"],
  uniquelocal: ["private", "uniqueLocal"],
};

function readNetwork(text: string): (address: Address) => boolean {
  const ranges = rangesByName[text];
  if (ranges) return (address) => ranges.includes(address.range());
  const [host = "", mask] = text.split("/");
  if (!ipaddr.isValid(host)) return () => false;
  const network = ipaddr.process(host);
  const isOfOneKind = (address: Address): boolean => address.kind() === network.kind();
  if (mask === undefined) return (address) => address.toString() === network.toString();
  const bits = mask.includes(".") ? ipaddr.IPv4.parse(mask).prefixLengthFromSubnetMask() : Number(mask);
  return (address) => isOfOneKind(address) && (address as ipaddr.IPv4).match(network as ipaddr.IPv4, bits ?? 0);
}

/** Whether an address is one of the proxies: single addresses, networks, or names of networks. */
export function proxyMatcher(proxies: readonly string[]): (address: string) => boolean {
  const networks = proxies.map(readNetwork);
  return (address) => {
    if (networks.length === 0 || !ipaddr.isValid(address)) return false;
    const parsed = ipaddr.process(address);
    return networks.some((isOf) => isOf(parsed));
  };
}

type ConnectionLimit = {
  most: number;
  /** Trusted proxies bring the connections of everybody. */
  isProxy: (address: string) => boolean;
  onRefused: (address: string) => void;
};

/** Closes what an address, or the /64 of an IPv6 address, opens beyond so many connections, before any handshake. */
export function limitConnections(server: Server, { most, isProxy, onRefused }: ConnectionLimit): void {
  const counts = new Map<string, number>();
  server.on("connection", (socket: Socket) => {
    const { remoteAddress = "" } = socket;
    if (isProxy(remoteAddress)) return;
    const block = addressBlock(remoteAddress);
    const count = counts.get(block) ?? 0;
    if (count >= most) {
      socket.destroy();
      onRefused(remoteAddress);
      return;
    }
    counts.set(block, count + 1);
    socket.once("close", () => {
      const left = (counts.get(block) ?? 0) - 1;
      if (left > 0) counts.set(block, left);
      else counts.delete(block);
    });
  });
}
