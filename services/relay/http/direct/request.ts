import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import type { DirectHead } from "./read-head.ts";

/** A request that is here as a whole, as far as the relay and Fastify read one of Node's. */
export class DirectRequest extends EventEmitter {
  readonly method = "POST";
  readonly httpVersion = "1.1";
  readonly httpVersionMajor = 1;
  readonly complete = true;
  readonly destroyed = false;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly rawHeaders: string[];
  readonly socket: Socket;
  private body: Buffer | null;

  constructor(socket: Socket, { url, headers, rawHeaders }: DirectHead, body: Buffer) {
    super();
    this.socket = socket;
    this.url = url;
    this.headers = headers;
    this.rawHeaders = rawHeaders;
    this.body = body;
  }

  get readableLength(): number {
    return this.body?.length ?? 0;
  }

  read(): Buffer | null {
    const { body } = this;
    this.body = null;
    return body;
  }

  resume(): this {
    this.body = null;
    return this;
  }
}
