import type { DescMethod } from "@bufbuild/protobuf";
import type { GenService } from "@bufbuild/protobuf/codegenv2";
import {
  AuthQuotaService,
  type SessionRequestSchema,
  type SessionResponseSchema,
} from "#proto/authquota/v1/authquota_pb.ts";

type Decide = { methodKind: "unary"; input: typeof SessionRequestSchema; output: typeof SessionResponseSchema };

const decide = {
  ...AuthQuotaService.method.session,
  name: "Decide",
  localName: "decide",
  methodKind: "unary",
} as unknown as Decide & DescMethod;

/** A contract that the product does not have: the messages of the session stream, in a call of their own. */
export const UnaryService: GenService<{ decide: Decide }> = {
  ...AuthQuotaService,
  typeName: "bench.v1.UnaryAuthQuotaService",
  methods: [decide],
  method: { decide },
};
