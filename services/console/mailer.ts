import { readFileSync } from "node:fs";
import { createTransport } from "nodemailer";
import type { Config } from "./config.ts";

/** Sends a mail; rejects when the server does not take it. */
export type Mailer = { send: (mail: { to: string; subject: string; text: string }) => Promise<void> };

const timeoutMs = 15_000;

/** By the SMTP server that is set up, if one is. Throws an Error that does not have the URL, in which a password is. */
export function createMailer({ SMTP_URL_FILE, MAIL_FROM }: Config): Mailer | undefined {
  if (SMTP_URL_FILE === "") return undefined;
  const url = URL.parse(readFileSync(SMTP_URL_FILE, "utf8").trim());
  if (!url || !/^smtps?:$/.test(url.protocol) || url.hostname === "" || url.search !== "")
    throw new Error("SMTP_URL_FILE must name a file with a URL such as smtps://user:password@mail.example.org");
  const isSecure = url.protocol === "smtps:";
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  const transport = createTransport({
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? (isSecure ? 465 : 587) : Number(url.port),
    secure: isSecure,
    // Neither the password nor what is told goes over a network in the clear.
    requireTLS: !isSecure && !isLocal,
    ...(url.username !== "" && {
      auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
    }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    send: async ({ to, subject, text }) => {
      // As an object it is one address, whatever is in it.
      await transport.sendMail({ from: MAIL_FROM, to: { name: "", address: to }, subject, text });
    },
  };
}
