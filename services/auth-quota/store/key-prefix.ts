/** Beginning of all names. Within braces: the part that Redis Cluster places keys by. One script, so one slot. */
export const keyPrefix = "{auth-quota}";
