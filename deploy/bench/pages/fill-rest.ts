import pg from "pg";

/** What there is beside the ledger; the first account has the largest share of each. */
export type RestSize = {
  accounts: number;
  /** Of the first account; all others have four. */
  keys: number;
  /** These three in all, a fifth of them the first account's. */
  auditEntries: number;
  tasks: number;
  refusals: number;
};

/** Fills accounts, keys, refusals, video tasks and the audit log, as their owner. */
export async function fillRest(ownerUrl: string, size: RestSize, say: (text: string) => void): Promise<void> {
  const client = new pg.Client({ connectionString: ownerUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica; SET synchronous_commit = off");
    await client.query(insertAccounts, [size.accounts]);
    await client.query(insertKeys, [size.accounts, size.keys]);
    // A hot store that is new must be told of all of them.
    await client.query("INSERT INTO auth_quota.hot_store (is_only, generation) VALUES (true, 'unknown')");
    await client.query(insertRefusals, [size.refusals, size.accounts]);
    await client.query(insertTasks, [size.tasks, size.accounts]);
    await client.query(insertAudit, [size.auditEntries, size.accounts]);
    // The ledger has been looked through already, and is what takes long.
    for (const table of tables) await client.query(`VACUUM ANALYZE ${table}`);
    say("filled accounts, keys, refusals, videos and the audit log");
  } finally {
    await client.end();
  }
}

const tables = [
  "auth_quota.account",
  "auth_quota.key",
  "auth_quota.refusal_count",
  "video_task.task",
  "console.audit_entry",
];

// As fill-ledger shares out its lines.
const accountOf = (accounts: string): string =>
  `'acct_' || CASE WHEN n % 5 = 0 THEN 0 ELSE 1 + n * 7919 % (${accounts} - 1) END`;

const insertAccounts = `
  INSERT INTO auth_quota.account (account_id, name, created_at)
  SELECT 'acct_' || n, 'Customer ' || n, now() - n * interval '1 minute' FROM generate_series(0, $1::bigint - 1) AS n`;

const insertKeys = `
  INSERT INTO auth_quota.key (key_id, account_id, key_hash, secret_prefix, name, created_at)
  SELECT account || '_key_' || n, account, sha256((account || n)::bytea), 'sk-' || left(md5(account || n), 8),
    'Key ' || n, now() - n * interval '1 minute'
  FROM (SELECT i, 'acct_' || i AS account FROM generate_series(0, $1::bigint - 1) AS i) AS a,
    LATERAL generate_series(0, CASE WHEN i = 0 THEN $2::bigint ELSE 4 END - 1) AS n`;

// Each count of another minute of the week that they are kept.
const insertRefusals = `
  INSERT INTO auth_quota.refusal_count (key_id, minute, reason, status, refusals)
  SELECT ${accountOf("$2::bigint")} || '_key_' || n % 4, date_trunc('minute', now() - n % 10000 * interval '1 minute'),
    'key_limit', 402, 3
  FROM generate_series(0, $1::bigint - 1) AS n ON CONFLICT DO NOTHING`;

const uuidAt = `(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - n * 60000), 12, '0') || '7'
  || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid`;

const insertTasks = `
  INSERT INTO video_task.task (rid, account_id, state, request_hash, model, prompt, seconds, size, deadline_seconds,
    charge, upstream, dialect, upstream_id, cost_nanos, accepted_at, progress, ended_at)
  SELECT ${uuidAt}, ${accountOf("$2::bigint")}, 'completed', sha256(''), 'a-video-model', 'A cat on a piano', 4,
    '1280x720', 600, '', 'main', 'openai-videos', 'bench_' || n, 400, now(), 100, now()
  FROM generate_series(0, $1::bigint - 1) AS n`;

const insertAudit = `
  INSERT INTO console.audit_entry (at, operation_id, outcome, email, address, action, account_id, target, before, after)
  SELECT now() - ($1::bigint - n) * interval '1 second', gen_random_uuid(), 'done',
    'person-' || n % 1000 || '@example.org', '203.0.113.7', 'key.change', ${accountOf("$2::bigint")}, 'key ' || n,
    '{"name": "before"}', '{"name": "after"}'
  FROM generate_series(0, $1::bigint - 1) AS n`;
