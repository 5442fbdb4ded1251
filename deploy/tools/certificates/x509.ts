import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

// Certificates in DER, as far as this system makes them: EC keys, one name each. Node reads but does not write them.

type Part = Buffer | readonly Part[];
const join = (part: Part): Buffer => (Buffer.isBuffer(part) ? part : Buffer.concat(part.map(join)));

function tagged(tag: number, ...parts: Part[]): Buffer {
  const body = join(parts);
  if (body.length < 128) return Buffer.concat([Buffer.of(tag, body.length), body]);
  const size = body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.of(tag, ...size), body]);
}

const sequence = (...parts: Part[]): Buffer => tagged(0x30, ...parts);
const octets = (part: Part): Buffer => tagged(0x04, part);
const bits = (unused: number, part: Part): Buffer => tagged(0x03, Buffer.of(unused), part);
const yes = tagged(0x01, Buffer.of(255));

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  const bytes = rest.flatMap((arc) => {
    const groups = [arc & 127];
    for (let left = arc >> 7; left > 0; left >>= 7) groups.unshift((left & 127) | 128);
    return groups;
  });
  return tagged(0x06, Buffer.of(first * 40 + second, ...bytes));
}

const nameOf = (common: string): Buffer =>
  sequence(tagged(0x31, sequence(oid("2.5.4.3"), tagged(0x0c, Buffer.from(common)))));

/** UTCTime holds two digits of the year, up to 2049. */
function time(at: Date): Buffer {
  const digits = at.toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return at.getUTCFullYear() < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}

const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));
const keyOf = (key: KeyObject): Buffer =>
  (key.type === "private" ? createPublicKey(key) : key).export({ type: "spki", format: "der" });
const keyIdOf = (key: KeyObject): Buffer => createHash("sha1").update(keyOf(key)).digest();
const extension = (id: string, value: Buffer, isCritical = false): Buffer =>
  sequence(oid(id), isCritical ? yes : [], octets(value));

const ofAuthority = [
  extension("2.5.29.19", sequence(yes, tagged(0x02, Buffer.of(0))), true),
  extension("2.5.29.15", bits(1, Buffer.of(0x06)), true),
];
const ofService = [
  extension("2.5.29.15", bits(7, Buffer.of(0x80)), true),
  extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"), oid("1.3.6.1.5.5.7.3.2"))),
];

/** Names as certificates hold them: DNS names, and the bytes of addresses of IPv4. */
const hosts = (names: readonly string[]): Buffer =>
  extension(
    "2.5.29.17",
    sequence(
      names.map((name) =>
        /^[\d.]+$/.test(name)
          ? tagged(0x87, Buffer.from(name.split(".").map(Number)))
          : tagged(0x82, Buffer.from(name)),
      ),
    ),
  );

/** A certificate and its private key, both as PEM. */
export type Pair = { cert: string; key: string };

/** A pair that signs others. */
export type Authority = { name: string; key: KeyObject };

export type Validity = { from: Date; until: Date };

function pemOf(der: Buffer): string {
  const lines = der.toString("base64").replaceAll(/(.{64})(?=.)/g, "$1\n");
  return `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`;
}

type Wanted = { name: string; valid: Validity; publicKey: KeyObject; extensions: Buffer[] };

function signed(issuer: Authority, { name, valid, publicKey, extensions }: Wanted): string {
  const serial = randomBytes(16);
  // Positive, and of the length that it has.
  serial[0] = ((serial[0] ?? 0) & 127) | 64;
  const keyIds = [
    extension("2.5.29.14", octets(keyIdOf(publicKey))),
    extension("2.5.29.35", sequence(tagged(0x80, keyIdOf(issuer.key)))),
  ];
  const content = sequence(
    tagged(0xa0, tagged(0x02, Buffer.of(2))),
    tagged(0x02, serial),
    ecdsaWithSha256,
    nameOf(issuer.name),
    sequence(time(valid.from), time(valid.until)),
    nameOf(name),
    keyOf(publicKey),
    tagged(0xa3, sequence(extensions, keyIds)),
  );
  return pemOf(sequence(content, ecdsaWithSha256, bits(0, sign("sha256", content, issuer.key))));
}

const newKeys = () => generateKeyPairSync("ec", { namedCurve: "prime256v1" });
const textOf = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }) as string;

/** Makes an authority that signs itself. */
export function makeAuthority(name: string, valid: Validity): Pair {
  const { privateKey, publicKey } = newKeys();
  const cert = signed({ name, key: privateKey }, { name, valid, publicKey, extensions: ofAuthority });
  return { cert, key: textOf(privateKey) };
}

/** Makes a certificate, for both ends of a connection, with a key of its own. */
export function issueCertificate(authority: Authority, names: readonly [string, ...string[]], valid: Validity): Pair {
  const { privateKey, publicKey } = newKeys();
  const cert = signed(authority, { name: names[0], valid, publicKey, extensions: [...ofService, hosts(names)] });
  return { cert, key: textOf(privateKey) };
}
