import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ask, chat, errorOf, type Reply } from "./ask.ts";
import { type Refusal, rows } from "./refusal.ts";
import { videoCatalog, videoCost } from "./video-catalog.ts";
import {
  checkFree,
  checkVideoMoney,
  checkVideoRefusal,
  createVideoCustomer,
  getVideo,
  makeVideo,
  onlyJob,
  submitVideo,
  type VideoCall,
  type VideoCustomer,
  videoOf,
  videoRows,
} from "./videos.ts";
import { sharedWorld } from "./shared-world.ts";

const world = await sharedWorld(videoCatalog);

const models = ["sora-model", "veo-model"];

/** Submits and checks that nothing came of it: the provider took no task, and nothing is held or charged. */
async function checkNothing(customer: VideoCustomer, asking: () => Promise<Reply>, check: (reply: Reply) => void) {
  const taken = world.videos.jobs.length;
  check(await asking());
  assert.equal(world.videos.jobs.length, taken, "the provider took no task");
  await checkFree(world, customer);
}

const unavailable = "The model service is temporarily unavailable, please try again later";

describe("API spec, States and transitions: 4. Errors returned at submission are free of charge. The provider", () => {
  const answers = {
    reject: videoRows.rejected,
    rate: {
      status: 429,
      message: "The model service is temporarily rate limited, please retry after 60 seconds",
      code: "rate_limit_exceeded",
      retryAfter: "60",
    },
    account: { status: 503, message: unavailable, code: "service_unavailable", retryAfter: "60" },
    unavailable: { status: 503, message: unavailable, code: "service_unavailable", retryAfter: "5" },
  } as const satisfies Record<string, Refusal>;
  for (const model of models) {
    for (const [submit, wanted] of Object.entries(answers) as [keyof typeof answers, Refusal][]) {
      const row =
        submit === "reject"
          ? "API spec, Video generation errors: Provider rejected the request | 400, `upstream_error` | `The model service rejected the request, check the parameters and try again`, "
          : "";
      test(`${row}${model}: ${submit} is ${wanted.status}`, async () => {
        const customer = await createVideoCustomer(world);
        const asking = () => submitVideo(customer, { model, behaviour: { submit } });
        await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, wanted));
        assert.deepEqual((await getVideo(customer, "?")).json()["data"], []);
      });
    }
  }

  test("cannot be reached: 500", async () => {
    const customer = await createVideoCustomer(world);
    const wanted = { status: 500, message: unavailable, code: "server_error" };
    const asking = () => submitVideo(customer, { model: "nowhere-model" });
    await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, wanted));
  });
});

describe("API spec, Video generation errors: Value such as length or resolution unusable with the model | 400, `invalid_request` or empty string | English sentence giving the reason:", () => {
  const png = `data:image/png;base64,${Buffer.from("\x89PNG\r\n\x1a\n").toString("base64")}`;
  const wrong: [string, VideoCall][] = [
    ["a length that it does not make", { more: { seconds: "7" } }],
    ["a length that is none", { more: { seconds: "long" } }],
    ["a size that it does not make", { more: { size: "640x480" } }],
    ["a size that is none", { more: { size: "large" } }],
    ["a picture where it takes none", { model: "bare-sora-model", more: { input_reference: { image_url: png } } }],
    ["a prompt that is no text", { more: { prompt: 1 } }],
  ];
  for (const model of models) {
    for (const [what, call] of wrong) {
      test(`${model}: ${what}`, async () => {
        const customer = await createVideoCustomer(world);
        await checkNothing(
          customer,
          () => submitVideo(customer, { model, ...call }),
          (reply) => {
            const { error } = reply.json() as { error: { message: string } };
            assert.match(error.message, /^[A-Za-z`].*\w/);
            checkVideoRefusal(reply, { status: 400, message: error.message, code: "invalid_request" });
          },
        );
      });
    }
  }
});

describe("what every endpoint refuses, with the type that errors of videos have", () => {
  const cases: [string, VideoCall, Refusal][] = [
    ["no prompt", { more: { prompt: null } }, rows.fieldRequired("prompt")],
    ["a wrong model", { model: "no-such-model" }, rows.unknownModel("no-such-model")],
    ["a model of conversations", { model: "test-model" }, rows.wrongEndpoint("/v1/videos")],
    ["a wrong key", { headers: { authorization: "Bearer sk-wrong" } }, rows.keyInvalid],
  ];
  for (const [what, call, wanted] of cases) {
    test(`${what}: ${wanted.status}`, async () => {
      const customer = await createVideoCustomer(world);
      await checkNothing(
        customer,
        () => submitVideo(customer, call),
        (reply) => checkVideoRefusal(reply, wanted),
      );
    });
  }

  test("a model that the key is not allowed to use: 503", async () => {
    const customer = await createVideoCustomer(world, { key: { models: ["veo-model"] } });
    const asking = () => submitVideo(customer);
    await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, rows.unknownModel("sora-model")));
    assert.equal((await makeVideo(world, customer, { model: "veo-model" })).ended.status, "completed");
  });

  test("a body that is no JSON: 400", async () => {
    const customer = await createVideoCustomer(world);
    const asking = () => ask(`${world.relayUrl}/v1/videos`, { headers: chat.headers(customer.secret), body: "{" });
    await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, rows.invalidJson));
  });

  test("a wrong key, whatever is asked for: 401", async () => {
    const caller = { relayUrl: world.relayUrl, secret: "sk-wrong" };
    for (const place of ["?", "video_1", "video_1/content"])
      checkVideoRefusal(await getVideo(caller, place), rows.keyInvalid);
  });

  test("a model of videos cannot hold a conversation, and its caller is told where it is served: 400", async () => {
    const customer = await createVideoCustomer(world);
    const body = JSON.stringify({ model: "sora-model", messages: [{ role: "user", content: "Hello" }] });
    const asking = () => ask(`${world.relayUrl}${chat.path}`, { headers: chat.headers(customer.secret), body });
    await checkNothing(customer, asking, (reply) => {
      assert.equal(reply.status, 400, reply.text);
      assert.match(errorOf(chat, reply).message, /not served at .* but at \/v1\/videos$/);
    });
  });
});

describe("money", () => {
  const seconds = 8;
  const price = videoCost({ model: "sora-model", seconds });
  const call = { more: { seconds: String(seconds) } };

  test("a balance that is short by a nano-dollar: 403", async () => {
    for (const creditNanos of [0n, price - 1n]) {
      const customer = await createVideoCustomer(world, { creditNanos });
      const asking = () => submitVideo(customer, call);
      await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, rows.balance));
    }
  });

  test("a key's limit that is short by a nano-dollar: 403", async () => {
    const customer = await createVideoCustomer(world, { key: { limitNanos: price - 1n } });
    const asking = () => submitVideo(customer, call);
    await checkNothing(customer, asking, (reply) => checkVideoRefusal(reply, rows.keyLimit));
  });

  test("a balance of exactly the price is enough, for one", async () => {
    const customer = await createVideoCustomer(world, { creditNanos: price });
    const { rid } = await makeVideo(world, customer, call);
    checkVideoRefusal(await submitVideo(customer, call), rows.balance);
    await checkVideoMoney(world, customer, { rid, charged: { model: "sora-model", seconds } });
  });
});

describe("Idempotency-Key", () => {
  const withKey = (key: string, call: VideoCall = {}): VideoCall => ({ ...call, headers: { "idempotency-key": key } });

  for (const model of models) {
    test(`the same request again, also many at once, is the same video and one charge (${model})`, async () => {
      const customer = await createVideoCustomer(world);
      const call = withKey(`once-${model}`, { model, behaviour: { submitMs: 200 } });
      const taken = world.videos.jobs.length;
      const replies = await Promise.all(Array.from({ length: 5 }, () => submitVideo(customer, call)));
      const [id, ...others] = new Set(replies.map((reply) => videoOf(reply).id));
      assert.deepEqual(others, []);
      assert.equal(videoOf(await submitVideo(customer, call)).id, id);
      assert.equal(world.videos.jobs.length, taken + 1);
      const rid = world.videos.jobs.at(-1)?.rid ?? "";
      await checkVideoMoney(world, customer, { rid, charged: { model, seconds: model === "veo-model" ? 8 : 4 } });
      assert.equal((await world.ledgerOf(customer.accountId)).length, 1);
    });
  }

  test("another request with it: 409, and nothing comes of it", async () => {
    const customer = await createVideoCustomer(world);
    const { rid } = await makeVideo(world, customer, withKey("first"));
    const taken = world.videos.jobs.length;
    const wanted = {
      status: 409,
      message: "This Idempotency-Key was used with another request",
      code: "invalid_request",
      shouldRetry: "false",
    };
    for (const more of [{ seconds: "8" }, { prompt: "another" }, { size: "1280x720" }])
      checkVideoRefusal(await submitVideo(customer, withKey("first", { more })), wanted);
    assert.equal(world.videos.jobs.length, taken);
    await checkVideoMoney(world, customer, { rid, charged: { model: "sora-model", seconds: 4 } });
  });

  test("is each account's own", async () => {
    const [one, other] = [await createVideoCustomer(world), await createVideoCustomer(world)];
    const [first, second] = [await makeVideo(world, one, withKey("k")), await makeVideo(world, other, withKey("k"))];
    assert.notEqual(first.ended.id, second.ended.id);
    onlyJob(world, second.rid);
  });

  test("that came with a refused request can come again", async () => {
    const customer = await createVideoCustomer(world);
    checkVideoRefusal(
      await submitVideo(customer, withKey("again", { behaviour: { submit: "reject" } })),
      videoRows.rejected,
    );
    assert.equal((await makeVideo(world, customer, withKey("again"))).ended.status, "completed");
  });

  test("that came with a request whose outcome nobody knows submits nothing again", async () => {
    const customer = await createVideoCustomer(world);
    const call = withKey("unknown", { behaviour: { submit: "accept-then-cut" } });
    const taken = world.videos.jobs.length;
    for (let count = 0; count < 3; count += 1) checkVideoRefusal(await submitVideo(customer, call), videoRows.unknown);
    assert.equal(world.videos.jobs.length, taken + 1);
    await checkFree(world, customer);
  });
});
