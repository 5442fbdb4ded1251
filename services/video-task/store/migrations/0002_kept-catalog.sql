-- The catalog that was taken last, for a process whose file cannot be used.
CREATE TABLE video_task.kept_catalog (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version bigint NOT NULL DEFAULT 1,
  hash text NOT NULL CHECK (hash ~ '^[0-9a-f]{64}$'),
  content text NOT NULL CHECK (char_length(content) BETWEEN 1 AND 1048576),
  proof bytea NOT NULL CHECK (octet_length(proof) = 32),
  taken_by text NOT NULL CHECK (char_length(taken_by) BETWEEN 1 AND 100),
  taken_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT, UPDATE ON video_task.kept_catalog TO video_task_rw;
