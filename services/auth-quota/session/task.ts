import type { Shard } from "../store/shards.ts";
import type { Caller, PreparedOperation } from "./operations.ts";
import type { Result } from "./session-wire.ts";

/** An operation on its way to a result. `parts`: it concerns several shards, each of which has one of them. */
export type Task = {
  prepared: PreparedOperation;
  caller: Caller;
  result: Result | undefined;
  shard?: Shard;
  parts?: Task[];
};
