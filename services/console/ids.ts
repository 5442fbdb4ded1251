/** Whether a text may be the id of an account, a key or a batch of vouchers: letters, digits, - and _, at most 64. */
export const isId = (text: string): boolean => /^[A-Za-z0-9_-]{1,64}$/.test(text);

/** Whether a text may be an id that this service has made; PostgreSQL fails on others instead of finding nothing. */
export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);
