import assert from "node:assert/strict";
import { test } from "node:test";
import { checkLinks } from "./link-variables.ts";

test("the files of gRPC are set unless plain connections are allowed, and all or none, those of NATS' certificate both or neither; every problem is told", () => {
  const plain = { ALLOW_PLAIN_GRPC: "always" } as const;
  const none = {
    ...plain,
    GRPC_CERT_FILE: "",
    GRPC_KEY_FILE: "",
    GRPC_CA_FILE: "",
    NATS_CERT_FILE: "",
    NATS_KEY_FILE: "",
  };
  assert.doesNotThrow(() => checkLinks(none));
  assert.doesNotThrow(() => checkLinks({ GRPC_CERT_FILE: "a", GRPC_KEY_FILE: "b", GRPC_CA_FILE: "c" }));
  assert.throws(() => checkLinks({ ...none, ALLOW_PLAIN_GRPC: "never" }), /ALLOW_PLAIN_GRPC=always does without/);
  assert.throws(() => checkLinks({ ...none, DEBUG_CALLS: "on" }), /DEBUG_CALLS=on needs GRPC_CERT_FILE/);
  assert.throws(() => checkLinks({ ...none, GRPC_CERT_FILE: "a", GRPC_KEY_FILE: "b" }), {
    message: "configuration is not usable:\n  GRPC_CERT_FILE, GRPC_KEY_FILE and GRPC_CA_FILE are set all or none",
  });
  assert.throws(() => checkLinks({ ...none, GRPC_CA_FILE: "c", NATS_KEY_FILE: "b" }), {
    message:
      "configuration is not usable:\n  GRPC_CERT_FILE, GRPC_KEY_FILE and GRPC_CA_FILE are set all or none\n" +
      "  NATS_CERT_FILE and NATS_KEY_FILE are set both or neither",
  });
});
