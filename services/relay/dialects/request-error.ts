/** A request that the relay itself cannot serve; the message is for the caller and names the field. */
export class RequestError extends Error {
  /** By which clients of Format B know what to do about it. */
  readonly errorCode: string | undefined;

  constructor(message: string, errorCode?: string) {
    super(message);
    this.errorCode = errorCode;
  }
}
