import { createHmac, hash, pbkdf2Sync, randomBytes } from "node:crypto";

const iterations = 4096;

/**
 * What PostgreSQL keeps of a password, by RFC 5803. It is sent in place of the password, which a server that logs its
 * statements would otherwise write down.
 */
export function passwordVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  // RFC 4013 as far as it changes passwords that people have; PostgreSQL and its clients normalise alike.
  const salted = pbkdf2Sync(password.normalize("NFKC"), salt, iterations, 32, "sha256");
  const keyOf = (name: string): Buffer => createHmac("sha256", salted).update(name).digest();
  const storedKey = hash("sha256", keyOf("Client Key"), "base64");
  const serverKey = keyOf("Server Key").toString("base64");
  return `SCRAM-SHA-256$${iterations}:${salt.toString("base64")}$${storedKey}:${serverKey}`;
}
