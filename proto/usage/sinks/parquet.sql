-- A month of usage events as Parquet, one file a day, each event once: run it again whenever late events may have come.
-- For Google Cloud Storage write gcs('https://storage.googleapis.com/BUCKET/usage/{_partition_id}.parquet', ...) with
-- an HMAC key; BigQuery loads the files from there.
INSERT INTO FUNCTION s3('https://BUCKET.s3.amazonaws.com/usage/{_partition_id}.parquet', 'KEY_ID', 'SECRET', 'Parquet')
  PARTITION BY toString(day)
  SELECT *, day FROM usage_event FINAL WHERE toStartOfMonth(day) = '2026-03-01'
  SETTINGS s3_truncate_on_insert = 1;
