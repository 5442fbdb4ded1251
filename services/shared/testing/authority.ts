import { execFile } from "node:child_process";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { CertificateFiles } from "./certificate.ts";

const run = promisify(execFile);

/** Whoever signs certificates for tests; `caFile` is what others know it by. */
export type Authority = {
  caFile: string;
  /** Signs a certificate for 127.0.0.1 and localhost, or other `hosts`; it and its key replace what is there. */
  issue: (files: CertificateFiles, name: string, hosts?: string) => Promise<void>;
};

const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];

/** Makes an authority whose files lie in the folder under its name. Needs OpenSSL 3, the program. */
export async function makeAuthority(folder: string, name: string): Promise<Authority> {
  const [caFile, caKeyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  await run("openssl", ["req", "-x509", ...key, "-subj", `/CN=${name}`, "-keyout", caKeyFile, "-out", caFile]);
  return {
    caFile,
    issue: async ({ certFile, keyFile }, subject, hosts = "IP:127.0.0.1,DNS:localhost") => {
      const [newCert, newKey] = [`${certFile}.new`, `${keyFile}.new`];
      const extensions = [`subjectAltName=${hosts}`, "extendedKeyUsage=serverAuth,clientAuth"];
      const signed = ["-CA", caFile, "-CAkey", caKeyFile, ...extensions.flatMap((line) => ["-addext", line])];
      const out = ["-keyout", newKey, "-out", newCert];
      await run("openssl", ["req", "-x509", ...key, ...signed, "-subj", `/CN=${subject}`, ...out]);
      renameSync(newKey, keyFile);
      renameSync(newCert, certFile);
    },
  };
}
