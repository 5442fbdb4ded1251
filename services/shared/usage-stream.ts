/** The JetStream stream that carries usage events; declared by billing, published to by relays and billing. */
export const usageStream = "USAGE_V1";

/** Subject of every usage event batch. */
export const usageSubject = "usage.v1.recorded";
