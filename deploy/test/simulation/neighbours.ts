import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type {
  ListUnpostedRequestSchema,
  ListUnpostedResponse,
  PostRequestSchema,
  PostResponse,
} from "#proto/authquota/v1/authquota_pb.ts";
import type { GetFundsRequestSchema, GetFundsResponse, GetProgressResponse } from "#proto/billing/v1/billing_pb.ts";
import type { SessionResponse, SessionRequest } from "../../../services/auth-quota/session/session-wire.ts";

/** What others can ask of a running auth-quota process. */
export type AuthQuotaService = {
  post: (request: MessageInitShape<typeof PostRequestSchema>) => Promise<PostResponse>;
  listUnposted: (request: MessageInitShape<typeof ListUnpostedRequestSchema>) => Promise<ListUnpostedResponse>;
  /** Tells Redis of a key as the database has it. */
  pushKey: (owner: { accountId: string; keyId: string }) => Promise<void>;
  serve: (stream: ServerDuplexStream<SessionRequest, SessionResponse>) => void;
};

/** What others can ask of a running billing process. */
export type BillingClient = {
  getFunds: (request: MessageInitShape<typeof GetFundsRequestSchema>) => Promise<GetFundsResponse>;
  getProgress: (request: object) => Promise<GetProgressResponse>;
};
