/** Schemas of the system; the role `<schema>_rw` may do in each what its service does. */
export const schemas = ["auth_quota", "billing", "video_task", "console"] as const;

export type Schema = (typeof schemas)[number];

/** The role of logins for backups, which may read what a backup holds and change nothing. */
export const backupGroup = "backup_ro";
