import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, beforeEach, describe, it } from "node:test";
import { Webhook } from "standardwebhooks";
import { until } from "#shared/testing/until.ts";
import { startWorld, type World } from "../testing/console.ts";
import { startMailbox, type Mailbox } from "../testing/mailbox.ts";
import { checkPage } from "../testing/pages.ts";
import { join, setUp, type TestPerson } from "../testing/people.ts";

const path = "/accounts/acme/alerts";

type Message = { path: string; headers: IncomingHttpHeaders; body: string };

/** A server of a customer; `status` is what it answers. */
async function startReceiver() {
  const state = { messages: [] as Message[], status: 204, port: 0 };
  const server: Server = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      state.messages.push({ path: request.url ?? "", headers: request.headers, body });
      response.writeHead(state.status, { location: "/elsewhere" }).end("not read");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  state.port = (server.address() as AddressInfo).port;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return Object.assign(state, { [Symbol.asyncDispose]: close });
}

let world: World;
let mailbox: Mailbox;
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let owner: TestPerson;
let reader: TestPerson;
const resources = new AsyncDisposableStack();

before(async () => {
  mailbox = resources.use(await startMailbox());
  receiver = resources.use(await startReceiver());
  const rules = {
    ports: { "http:": [String(receiver.port)] },
    isAllowedAddress: (address: string) => address === "127.0.0.1",
  };
  const mail = { SMTP_URL_FILE: mailbox.urlFile, MAIL_FROM: "relay@example.org" };
  world = resources.use(await startWorld(mail, { webhookRules: rules }));
  // Of several replicas one tells.
  await world.startReplica();
  const operator = await setUp(world);
  world.neighbours.addAccount("acme");
  world.neighbours.addAccount("other");
  owner = await join(world, operator.browser, "acme", "owner");
  reader = await join(world, operator.browser, "acme", "viewer");
});
after(() => resources.disposeAsync());

beforeEach(async () => {
  mailbox.mails.length = 0;
  receiver.messages.length = 0;
  receiver.status = 204;
  mailbox.isFull = false;
  for (const table of ["webhook", "delivery", "alert_crossing", "alert_rule"])
    await world.database.sql(`DELETE FROM console.${table}`);
  world.neighbours.balances.set("acme", 10_000_000_000n);
});

const save = async (fields: Record<string, string>) => {
  await owner.browser.get(path);
  return owner.browser.post(path, { "low-balance": "", "limit-percent": "", "by-mail": "yes", ...fields });
};

const url = (of = ""): string => `http://127.0.0.1:${receiver.port}/hook${of}`;

/** Adds a webhook; tells its secret. */
async function addWebhook(to = url()): Promise<string> {
  await owner.browser.get(path);
  const { text } = await owner.browser.post(`${path}/webhooks`, { url: to });
  return secretIn(text);
}

const secretIn = (text: string): string =>
  /id="secret">(whsec_[^<]+)</.exec(text)?.[1]?.replaceAll("&#61;", "=").replaceAll("&#43;", "+") ?? text;

/** Has the rules compared with again now; gives once that has begun. */
async function compareAgain(): Promise<void> {
  await world.database.sql("UPDATE console.alert_rule SET checked_at = '-infinity'");
  await until("the rules are compared with", async () => {
    const [row] = await world.database.sql(
      "SELECT count(*)::int AS waiting FROM console.alert_rule WHERE checked_at < now() - interval '10 seconds'",
    );
    return row?.["waiting"] === 0;
  });
}

/** Compares again until nothing is on the wrong side any more. */
const untilBack = (): Promise<unknown> =>
  until("it is back", async () => {
    await compareAgain();
    return (await world.database.sql("SELECT FROM console.alert_crossing")).length === 0;
  });

const untilTold = (mails: number): Promise<unknown> =>
  until(`${mails} are told`, async () => {
    await compareAgain();
    return mailbox.mails.length >= mails;
  });

async function deliveries(state = ""): Promise<number> {
  const [row] = await world.database.sql(
    `SELECT count(*)::int AS found FROM console.delivery WHERE '${state}' IN ('', state)`,
  );
  return Number(row?.["found"]);
}

describe("invitations", () => {
  const members = "/accounts/acme/members";
  const invite = async (email: string): Promise<string> => {
    await owner.browser.get(members);
    const seen = await owner.browser.post(members, { email, role: "developer" });
    checkPage(seen, members);
    return seen.text;
  };

  it("are mailed to whom they are for, with the link that the page shows", async () => {
    const text = await invite("invited@example.org");
    assert.match(text, /This link was mailed to invited@example\.org\./);
    const [mail] = mailbox.mails;
    assert.deepEqual(mail?.to, ["invited@example.org"]);
    const link = /class="secret">([^<]+)</.exec(text)?.[1] ?? assert.fail();
    // Quoted-printable folds lines with "=".
    const body = mail?.text.replaceAll(/=\r\n/g, "") ?? "";
    assert.ok(body.includes(link), body);
    assert.ok(body.includes(owner.email));
  });

  it("are handed over where the mail server takes none, or an account has made a hundred on a day", async () => {
    mailbox.isFull = true;
    assert.match(await invite("second@example.org"), /Send this link to second@example\.org\./);
    mailbox.isFull = false;
    await world.database.sql(`
      INSERT INTO console.invitation
        (invitation_id, token_hash, email, account_id, role, invited_by, expires_at, withdrawn_at)
      SELECT gen_random_uuid(), sha256(n::text::bytea), 'x@example.org', 'acme', 'owner', '${owner.personId}',
        now(), now()
      FROM generate_series(1, 100) AS n`);
    assert.match(await invite("third@example.org"), /Send this link to third@example\.org\./);
    assert.equal(mailbox.mails.length, 0);
  });
});

describe("alerts", () => {
  it("tell owners by mail once that the balance is low, and again only after a top-up", async () => {
    await save({ "low-balance": "20" });
    await untilTold(1);
    const [mail] = mailbox.mails;
    assert.deepEqual(mail?.to, [owner.email]);
    assert.match(mail?.text ?? "", /^Subject: The balance of acme is below 20\.00 USD\r$/m);
    assert.match(mail?.text ?? "", /The balance of the account acme is 10\.00 USD\./);
    world.neighbours.balances.set("acme", 5_000_000_000n);
    await compareAgain();
    await compareAgain();
    world.neighbours.balances.set("acme", 20_000_000_000n);
    await untilBack();
    world.neighbours.balances.set("acme", 19_000_000_000n);
    await untilTold(2);
    const told = mailbox.mails.map(({ text }) => /acme is (\d+\.\d\d USD)/.exec(text)?.[1]);
    assert.deepEqual(told, ["10.00 USD", "19.00 USD"], "not while it was still low");
  });

  it("tell that a key has spent its share of a limit, and again in a new period", async () => {
    const { neighbours } = world;
    const keyId = neighbours.addKey("acme", "Nightly");
    const key = neighbours.keys.get(keyId);
    assert.ok(key);
    key.limitNanos = 1_000_000_000n;
    neighbours.spent.set(keyId, 790_000_000n);
    await save({ "limit-percent": "80" });
    await compareAgain();
    await compareAgain();
    neighbours.spent.set(keyId, 800_000_000n);
    await untilTold(1);
    assert.match(mailbox.mails[0]?.text ?? "", /^Subject: The key Nightly has spent 80 % of its limit\r$/m);
    key.spentBeforeNanos = 800_000_000n;
    await untilBack();
    neighbours.spent.set(keyId, 1_700_000_000n);
    await untilTold(2);
    const told = mailbox.mails.map(({ text }) => /has spent (\d+\.\d\d USD)/.exec(text)?.[1]);
    assert.deepEqual(told, ["0.80 USD", "0.90 USD"]);
    neighbours.keys.delete(keyId);
  });

  it("tell by mail and webhook that the keys together have spent their share of the account's budget", async () => {
    const { neighbours } = world;
    const account = neighbours.accounts.get("acme") ?? assert.fail();
    account.limitNanos = 50_000_000_000n;
    account.spentBeforeNanos = 10_000_000_000n;
    neighbours.spent.set("acme", 49_000_000_000n);
    await addWebhook();
    await save({ "limit-percent": "80" });
    await compareAgain();
    await compareAgain();
    assert.equal(await deliveries(), 0, "39 of 50 USD are no 80 %");
    neighbours.spent.set("acme", 50_000_000_000n);
    await untilTold(1);
    const text = mailbox.mails[0]?.text ?? "";
    assert.match(text, /^Subject: The account acme has spent 80 % of its budget\r$/m);
    assert.match(text, /have spent 40\.00 USD of its budget of 50\.00/);
    await until("the message", () => receiver.messages.length > 0);
    assert.deepEqual(JSON.parse(receiver.messages[0]?.body ?? "").data, {
      account_id: "acme",
      spent_nanos: "40000000000",
      limit_nanos: "50000000000",
      threshold_percent: 80,
    });
    account.spentBeforeNanos = 50_000_000_000n;
    await untilBack();
    assert.equal(await deliveries(), 2, "a new period tells nothing");
    Object.assign(account, { limitNanos: undefined, spentBeforeNanos: 0n });
  });

  it("go to webhooks, signed as Standard Webhooks says, with a log of what came of them", async () => {
    const secret = await addWebhook();
    await save({ "low-balance": "20", "by-mail": "no" });
    await until("the message", async () => receiver.messages.length > 0);
    const [{ headers, body } = { headers: {}, body: "" }] = receiver.messages;
    const event = new Webhook(secret).verify(body, headers as Record<string, string>);
    const { timestamp, ...told } = event as { timestamp: string };
    assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < 60_000);
    assert.deepEqual(told, {
      type: "balance.low",
      data: { account_id: "acme", balance_nanos: "10000000000", threshold_nanos: "20000000000" },
    });
    assert.throws(() => new Webhook(secret).verify(body.replace("acme", "evil"), headers as Record<string, string>));
    await until("it is logged", async () => (await deliveries("delivered")) === 1);
    const seen = await reader.browser.get(path);
    checkPage(seen, path);
    assert.match(seen.text, /Low balance<\/td>[^]*delivered<\/span><small>HTTP 204<\/small>/);
    assert.equal(mailbox.mails.length, 0);
    const sealed = await world.database.sql("SELECT encode(sealed_secret, 'base64') AS text FROM console.webhook");
    assert.doesNotMatch(JSON.stringify(sealed), new RegExp(secret.slice(6, 20).replaceAll("+", "\\+")));
  });

  it("are signed with a webhook's new secret and, for a day, with the one before", async () => {
    const first = await addWebhook();
    const [webhook] = await world.database.sql("SELECT webhook_id AS id FROM console.webhook");
    const hook = `${path}/webhooks/${String(webhook?.["id"])}`;
    const verifiedBy = async (secrets: string[]): Promise<boolean[]> => {
      const before = receiver.messages.length;
      await owner.browser.get(path);
      await owner.browser.post(`${hook}/test`);
      await until("the test has come", () => receiver.messages.length > before);
      const { body, headers } = receiver.messages.at(-1) ?? { body: "", headers: {} };
      return secrets.map((secret) => {
        try {
          return Boolean(new Webhook(secret).verify(body, headers as Record<string, string>));
        } catch {
          return false;
        }
      });
    };
    await owner.browser.get(path);
    const made = await owner.browser.post(`${hook}/secret`);
    checkPage(made, "a new secret");
    const second = secretIn(made.text);
    assert.match(second, /^whsec_/);
    assert.deepEqual(await verifiedBy([first, second]), [true, true]);
    await world.database.sql("UPDATE console.webhook SET previous_until = now()");
    assert.deepEqual(await verifiedBy([first, second]), [false, true]);
  });

  it("are tried again with the same id until they are taken, later each time, and given up in the end", async () => {
    const secret = await addWebhook();
    receiver.status = 500;
    await save({ "low-balance": "20", "by-mail": "no" });
    await until("the first attempt", async () => receiver.messages.length === 1);
    for (let attempts = 2; attempts <= 8; attempts += 1) {
      await until("it is put off", async () => {
        const [row] = await world.database.sql("SELECT result FROM console.delivery WHERE due_at > now()");
        return row?.["result"] === "HTTP 500";
      });
      await world.database.sql("UPDATE console.delivery SET due_at = now(), result = ''");
      await until("the next attempt", async () => receiver.messages.length === attempts);
    }
    await until("it is given up", async () => (await deliveries("failed")) === 1);
    assert.equal(new Set(receiver.messages.map(({ headers }) => headers["webhook-id"])).size, 1);
    const last = receiver.messages.at(-1);
    assert.ok(new Webhook(secret).verify(last?.body ?? "", last?.headers as Record<string, string>));
    assert.match((await owner.browser.get(path)).text, /given up<\/span><small>HTTP 500<\/small>/);
  });

  it("follow no redirect, and stop at a webhook that is gone", async () => {
    await addWebhook();
    receiver.status = 307;
    await owner.browser.get(path);
    await save({ "low-balance": "20", "by-mail": "no" });
    await until("an attempt", async () => receiver.messages.length === 1);
    receiver.status = 410;
    await until("it is put off", async () => (await deliveries("due")) === 1 && receiver.messages.length === 1);
    await until("it is given up", async () => {
      await world.database.sql("UPDATE console.delivery SET due_at = now() WHERE result = 'HTTP 307'");
      return (await deliveries("failed")) === 1;
    });
    assert.deepEqual(
      receiver.messages.map(({ path: asked }) => asked),
      ["/hook", "/hook"],
    );
  });

  it("wait for a mail server that takes none now", async () => {
    mailbox.isFull = true;
    await save({ "low-balance": "20" });
    await until("it is put off", async () => {
      const [row] = await world.database.sql("SELECT result FROM console.delivery WHERE attempts = 1");
      return row?.["result"] === "no connection";
    });
    mailbox.isFull = false;
    await world.database.sql("UPDATE console.delivery SET due_at = now()");
    await until("the mail", async () => mailbox.mails.length === 1);
  });

  it("are tested by a button, whose message goes to that webhook alone", async () => {
    await addWebhook(url("/first"));
    await addWebhook(url("/second"));
    const [row] = await world.database.sql("SELECT webhook_id FROM console.webhook ORDER BY created_at");
    const { status } = await owner.browser.post(`${path}/webhooks/${String(row?.["webhook_id"])}/test`, {});
    assert.equal(status, 303);
    await until("the message", async () => (await deliveries("delivered")) === 1);
    assert.deepEqual(
      receiver.messages.map((message) => [message.path, JSON.parse(message.body).type]),
      [["/hook/first", "test"]],
    );
  });

  it("are tested ten times a minute at most, and a test is sent once", async () => {
    await addWebhook();
    receiver.status = 500;
    const [row] = await world.database.sql("SELECT webhook_id FROM console.webhook");
    const hook = `${path}/webhooks/${String(row?.["webhook_id"])}/test`;
    for (let tests = 0; tests < 12; tests += 1) {
      await owner.browser.get(path);
      await owner.browser.post(hook);
    }
    assert.match((await owner.browser.get(path)).text, /Too many tests were sent in the last minute/);
    await until("all are given up", async () => (await deliveries("failed")) === 10);
    assert.equal(receiver.messages.length, 10);
    assert.equal(await deliveries(), 10);
  });

  it("go to no address but those that are allowed, whatever a name resolves to", async () => {
    const wrong = [
      "ftp://127.0.0.1/",
      "http://127.0.0.1:1/",
      `http://10.0.0.1:${receiver.port}/`,
      `http://169.254.169.254:${receiver.port}/`,
      `http://user:pass@127.0.0.1:${receiver.port}/`,
      "no address",
    ];
    for (const one of wrong) assert.match(await addWebhook(one), /of the public internet/, one);
    // It may pass as it is written, and is refused where it leads.
    await addWebhook(`http://ip6-localhost.invalid:${receiver.port}/`);
    await save({ "low-balance": "20", "by-mail": "no" });
    await until("it was tried", async () => {
      const [row] = await world.database.sql("SELECT result FROM console.delivery WHERE attempts = 1");
      return /no connection|not allowed/.test(String(row?.["result"]));
    });
    assert.equal(receiver.messages.length, 0);
  });

  it("of one account are not another's, and an account has five webhooks at most", async () => {
    for (let index = 0; index < 5; index += 1) assert.match(await addWebhook(url(`/${index}`)), /^whsec_/);
    assert.match(await addWebhook(), /at most 5 webhooks/);
    const [row] = await world.database.sql("SELECT webhook_id FROM console.webhook");
    await world.database.sql("UPDATE console.webhook SET account_id = 'other'");
    const id = String(row?.["webhook_id"]);
    for (const action of ["test", "delete"])
      assert.equal((await owner.browser.post(`${path}/webhooks/${id}/${action}`, {})).status, 404);
  });

  it("are refused with a sentence when a field is wrong", async () => {
    const wrong = { "low-balance": ["0", "abc", "-1"], "limit-percent": ["0", "101", "x"] };
    for (const [field, values] of Object.entries(wrong)) {
      for (const value of values) assert.equal((await save({ [field]: value })).status, 422, `${field}: ${value}`);
    }
  });
});
