import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Logger } from "#shared/log.ts";
import { followFiles } from "#shared/follow-files.ts";

/** Where the certificate chain and its private key lie, both as PEM. */
export type CertificateFiles = { certFile: string; keyFile: string };

/** What of a TLS server can be replaced while it runs. */
export type SecureServer = { setSecureContext: (options: SecureContextOptions) => void };

/** A certificate that follows its files. */
export type LiveCertificate = Disposable & {
  current: () => SecureContextOptions;
  /** Gives the server every later certificate; connections that are open keep theirs. */
  serve: (server: SecureServer) => void;
};

/** Reads a pair and checks that a TLS server could use it; throws when it cannot. */
function readPair({ certFile, keyFile }: CertificateFiles): { context: SecureContextOptions; expires: string } {
  const cert = readFileSync(certFile);
  const key = readFileSync(keyFile);
  const leaf = new X509Certificate(cert);
  if (!leaf.checkPrivateKey(createPrivateKey(key))) throw new Error("the private key is not that of the certificate");
  if (leaf.validToDate.getTime() <= Date.now()) throw new Error(`the certificate expired on ${leaf.validTo}`);
  const context: SecureContextOptions = { cert, key, minVersion: "TLSv1.2" };
  // Finds what only OpenSSL knows, such as a chain that cannot be read or a key that is too small.
  createSecureContext(context);
  return { context, expires: leaf.validTo };
}

/**
 * Reads a certificate and follows its files without a restart. A first pair that cannot be used throws; a later one is
 * refused in the log and the last good one stays in force, also while only one of the two files has been replaced.
 */
export function followCertificate(files: CertificateFiles, log: Logger): LiveCertificate {
  let serving: SecureServer | undefined;
  const followed = followFiles([files.certFile, files.keyFile], () => readPair(files), {
    onReplaced: ({ context, expires }) => {
      serving?.setSecureContext(context);
      log.info({ expires }, "certificate reloaded");
    },
    onRefused: (error) => log.error({ err: error }, "certificate refused, the last good one stays"),
  });
  log.info({ expires: followed.current().expires }, "certificate loaded");
  return {
    current: () => followed.current().context,
    serve: (server) => (serving = server),
    [Symbol.dispose]: () => followed[Symbol.dispose](),
  };
}
