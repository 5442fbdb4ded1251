// Far more than there are files: it closes connections when less than a sixteenth of them is free.
const connections = 65_536;

/** Where nginx listens, whom it asks, where it may write, and how many files it may open. */
export type NginxPlan = { port: number; upstreamPort: number; folder: string; files: number };

/** The text of a configuration that only forwards: one process, nothing kept back, connections kept alive. */
export function nginxConfig({ port, upstreamPort, folder, files }: NginxPlan): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const folders = kinds.map((kind) => `  ${kind}_temp_path ${folder}/${kind};`).join("\n");
  return `daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr error;
worker_rlimit_nofile ${files};
events { worker_connections ${connections}; }
http {
${folders}
  access_log off;
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  upstream bench { server 127.0.0.1:${upstreamPort}; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`;
}
