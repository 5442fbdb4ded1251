import dns2 from "dns2";

/** A DNS server on a loopback socket. */
export type DnsServer = AsyncDisposable & {
  /** As `Resolver.setServers` takes it. */
  address: string;
  /** TXT records by name, each in the pieces that it is sent in. */
  records: Map<string, string[][]>;
  /** IPv4 addresses by name, those of each question behind the other; the last ones stay. */
  addresses: Map<string, string[][]>;
  /** What it says instead: an error of the server, or nothing at all. */
  failure: "servfail" | "silence" | undefined;
  /** Every name that was asked for. */
  asked: string[];
};

const { TYPE, CLASS, RCODE } = dns2.Packet;

type Answer = InstanceType<typeof dns2.Packet>["answers"][number];

/** Starts one that knows the names of `records` and `addresses` alone. */
export async function startDnsServer(): Promise<DnsServer> {
  const kept: Omit<DnsServer, "address" | typeof Symbol.asyncDispose> = {
    records: new Map(),
    addresses: new Map(),
    failure: undefined,
    asked: [],
  };
  const server = dns2.createServer({
    udp: true,
    handle: (request, send) => {
      const [question] = request.questions;
      const name = question?.name.toLowerCase() ?? "";
      kept.asked.push(name);
      if (kept.failure === "silence") return;
      const response = dns2.Packet.createResponseFromRequest(request);
      const [texts, addresses] = [kept.records.get(name), kept.addresses.get(name)];
      if (kept.failure === "servfail") response.header.rcode = RCODE.SERVFAIL;
      else if (!texts && !addresses) response.header.rcode = RCODE.NXDOMAIN;
      const add = (fields: object) =>
        response.answers.push({ name, class: CLASS.IN, ttl: 0, ...fields } as unknown as Answer);
      if (question?.type === TYPE.TXT) for (const data of texts ?? []) add({ type: TYPE.TXT, data });
      if (question?.type === TYPE.A && addresses) {
        const now = (addresses.length > 1 ? addresses.shift() : addresses[0]) ?? [];
        for (const address of now) add({ type: TYPE.A, address });
      }
      void send(response);
    },
  });
  await server.listen({ udp: { port: 0, address: "127.0.0.1" } });
  const { udp } = server.addresses() as { udp: { port: number } };
  return Object.assign(kept, {
    address: `127.0.0.1:${udp.port}`,
    [Symbol.asyncDispose]: () => server.close(),
  });
}
