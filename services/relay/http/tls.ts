import type { SecureContextOptions } from "node:tls";
import type { Registry } from "prom-client";
import { expiryGauge, readCertificate, type CertificateFiles } from "#shared/stores/certificate.ts";
import { followFiles } from "#shared/process/follow-files.ts";
import type { Logger } from "#shared/process/log.ts";

/** What of a TLS server can be replaced while it runs. */
export type SecureServer = { setSecureContext: (options: SecureContextOptions) => void };

/** A certificate that follows its files. */
export type LiveCertificate = Disposable & {
  current: () => SecureContextOptions;
  /** Gives the server every later certificate; connections that are open keep theirs. */
  serve: (server: SecureServer) => void;
};

function readPair(files: CertificateFiles): { context: SecureContextOptions; notAfter: Date } {
  const { cert, key, notAfter } = readCertificate(files);
  return { context: { cert, key, minVersion: "TLSv1.2" }, notAfter };
}

/**
 * Reads a certificate and follows its files without a restart. A first pair that cannot be used throws; a later one is
 * refused in the log and the last good one stays in force, also while only one of the two files has been replaced.
 */
export function followCertificate(files: CertificateFiles, log: Logger, registry?: Registry): LiveCertificate {
  const tellExpiry = expiryGauge(registry, "http");
  let serving: SecureServer | undefined;
  const followed = followFiles([files.certFile, files.keyFile], () => readPair(files), {
    onReplaced: ({ context, notAfter }) => {
      serving?.setSecureContext(context);
      tellExpiry(notAfter);
      log.info({ expires: notAfter }, "certificate reloaded");
    },
    onRefused: (error) => log.error({ err: error }, "certificate refused, the last good one stays"),
  });
  const { notAfter } = followed.current();
  tellExpiry(notAfter);
  log.info({ expires: notAfter }, "certificate loaded");
  return {
    current: () => followed.current().context,
    serve: (server) => (serving = server),
    [Symbol.dispose]: () => followed[Symbol.dispose](),
  };
}
