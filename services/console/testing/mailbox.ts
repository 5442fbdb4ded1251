import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SMTPServer } from "smtp-server";

export type Mail = { to: string[]; text: string };

/** A mail server that keeps what it gets. */
export type Mailbox = AsyncDisposable & {
  mails: Mail[];
  /** A file with its URL, as SMTP_URL_FILE names one. */
  urlFile: string;
  /** While true, mails are refused. */
  isFull: boolean;
};

const login = { user: "relay", password: "a p@ssword" };

/** Starts one on a loopback port, which takes mails of its one user. */
export async function startMailbox(): Promise<Mailbox> {
  await using resources = new AsyncDisposableStack();
  const folder = resources.use(await mkdtempDisposable(join(tmpdir(), "mailbox-")));
  const urlFile = join(folder.path, "url");
  const box: Omit<Mailbox, typeof Symbol.asyncDispose> = { mails: [], urlFile, isFull: false };
  const server = new SMTPServer({
    disabledCommands: ["STARTTLS"],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, done) => {
      const isRight = username === login.user && password === login.password;
      done(isRight ? null : new Error("wrong password"), isRight ? { user: username } : {});
    },
    onData: (stream, { envelope }, done) => {
      let text = "";
      stream.on("data", (piece: Buffer) => (text += piece.toString()));
      stream.on("end", () => {
        if (box.isFull) return done(Object.assign(new Error("mailbox full"), { responseCode: 452 }));
        box.mails.push({ to: envelope.rcptTo.map(({ address }) => address), text });
        done();
      });
    },
  });
  server.on("error", () => undefined);
  server.listen(0, "127.0.0.1");
  await once(server.server, "listening");
  resources.defer(() => new Promise<void>((resolve) => server.close(resolve)));
  const { port } = server.server.address() as AddressInfo;
  writeFileSync(urlFile, `smtp://${login.user}:${encodeURIComponent(login.password)}@127.0.0.1:${port}\n`);
  const owned = resources.move();
  return Object.assign(box, { [Symbol.asyncDispose]: () => owned.disposeAsync() });
}
