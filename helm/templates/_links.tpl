{{/*
What a pod needs to reach something, as parts: env (plain variables), secretEnv (variables by Secret and key) and mounts
(by name: path and volume). Folders are mounted whole and never single files, so that what is renewed reaches the pod.
Modes are decimal: 288 is 0440.
*/}}

{{- define "model-relay.link.grpc" -}}
{{- if .root.Values.grpcTls.enabled }}
env:
  GRPC_CERT_FILE: /etc/model-relay/grpc/tls.crt
  GRPC_KEY_FILE: /etc/model-relay/grpc/tls.key
  GRPC_CA_FILE: /etc/model-relay/grpc/ca.crt
mounts:
  grpc-tls:
    path: /etc/model-relay/grpc
    volume:
      secret:
        secretName: {{ include "model-relay.grpcTlsSecret" . }}
        defaultMode: 288
{{- else }}
env:
  ALLOW_PLAIN_GRPC: always
{{- end }}
{{- end -}}

{{- define "model-relay.link.nats" -}}
{{- $nats := .root.Values.nats }}
{{- $env := dict }}
{{- $sources := list }}
{{- if $nats.url }}
{{- $_ := set $env "NATS_URL" $nats.url }}
{{- end }}
{{- with $nats.credsSecret }}
{{- if .name }}
{{- $_ := set $env "NATS_CREDS_FILE" "/etc/model-relay/nats/nats.creds" }}
{{- $sources = append $sources (dict "name" .name "items" (list (dict "key" .key "path" "nats.creds"))) }}
{{- end }}
{{- end }}
{{- with $nats.caSecret }}
{{- if .name }}
{{- $_ := set $env "NATS_CA_FILE" "/etc/model-relay/nats/ca.crt" }}
{{- $sources = append $sources (dict "name" .name "items" (list (dict "key" .key "path" "ca.crt"))) }}
{{- end }}
{{- end }}
{{- with $nats.tlsSecret }}
{{- $_ := set $env "NATS_CERT_FILE" "/etc/model-relay/nats/tls.crt" }}
{{- $_ := set $env "NATS_KEY_FILE" "/etc/model-relay/nats/tls.key" }}
{{- $pair := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") }}
{{- $sources = append $sources (dict "name" . "items" $pair) }}
{{- end }}
env: {{- toYaml $env | nindent 2 }}
{{- if not $nats.url }}
secretEnv:
  NATS_URL:
    {{- $key := index $nats.loginKeys (include "model-relay.valuesKey" .component) }}
    {{- $ref := dict "name" $nats.existingSecret.name "key" $key }}
    {{- $devKey := printf "nats-url-%s" .component }}
    {{- include "model-relay.secretRef" (dict "root" .root "ref" $ref "devKey" $devKey) | nindent 4 }}
{{- end }}
{{- with $sources }}
mounts:
  nats:
    path: /etc/model-relay/nats
    volume:
      projected:
        defaultMode: 288
        sources:
          {{- range . }}
          - secret: {{- toYaml . | nindent 14 }}
          {{- end }}
{{- end }}
{{- end -}}

{{- define "model-relay.link.redis" -}}
{{- $redis := .root.Values.redis -}}
secretEnv:
  REDIS_URL:
    {{- include "model-relay.secretRef" (dict "root" .root "ref" $redis.existingSecret "devKey" "redis-url") | nindent 4 }}
env:
  REDIS_SHARDS: {{ $redis.shards | quote }}
{{- if $redis.caSecret.name }}
  REDIS_CA_FILE: /etc/model-relay/redis/ca.crt
mounts:
  redis-ca:
    path: /etc/model-relay/redis
    volume:
      secret:
        secretName: {{ $redis.caSecret.name }}
        defaultMode: 288
        items: [{ key: {{ $redis.caSecret.key | quote }}, path: ca.crt }]
{{- end }}
{{- end -}}

{{/* The login of the component itself. sslrootcert in its URL names the file that is mounted here. */}}
{{- define "model-relay.link.postgres" -}}
{{- $own := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $devKey := printf "%s-url" .component -}}
secretEnv:
  DATABASE_URL:
    {{- include "model-relay.secretRef" (dict "root" .root "ref" $own.databaseSecret "devKey" $devKey) | nindent 4 }}
{{ include "model-relay.link.postgres-ca" . }}
{{- end -}}

{{- define "model-relay.link.postgres-ca" -}}
{{- with .root.Values.postgres.caSecret }}
{{- if .name }}
mounts:
  postgres-ca:
    path: /etc/model-relay/postgres
    volume:
      secret:
        secretName: {{ .name }}
        defaultMode: 288
        items: [{ key: {{ .key | quote }}, path: ca.crt }]
{{- end }}
{{- end }}
{{- end -}}

{{/* A folder: a ConfigMap's change replaces it as a whole, which the services follow. */}}
{{- define "model-relay.link.catalog" -}}
{{- $catalog := .root.Values.catalog -}}
{{- $made := printf "%s-catalog" (include "model-relay.fullname" .root) -}}
env:
  CATALOG_FILE: /etc/model-relay/catalog/catalog.yaml
  {{- if ne $catalog.source "file" }}
  CATALOG_SOURCE: {{ $catalog.source }}
  {{- end }}
mounts:
  catalog:
    path: /etc/model-relay/catalog
    volume:
      configMap:
        name: {{ default $made $catalog.existingConfigMap }}
        items: [{ key: {{ $catalog.key | quote }}, path: catalog.yaml }]
{{- with $catalog.credentialsSecret }}
secretFolders: [{{ . | quote }}]
{{- end }}
{{- end -}}

{{/* The keys' name has the rotation in it, so that another one begins new pods. */}}
{{- define "model-relay.link.hold-proof" -}}
{{- $proof := .root.Values.holdProof -}}
{{- $own := include "model-relay.holdProofSecret" .root -}}
{{- $made := dict "name" $own "key" (printf "keys-%d" (int $proof.rotation)) -}}
secretEnv:
  HOLD_PROOF_KEYS: {{- empty $proof.existingSecret.name | ternary $made $proof.existingSecret | toYaml | nindent 4 }}
{{- if and (eq .component "billing") (not $proof.from) (not $proof.existingSecret.name) }}
  HOLD_PROOF_FROM: { name: {{ $own | quote }}, key: from }
{{- end }}
{{- if and (eq .component "billing") $proof.from }}
env:
  HOLD_PROOF_FROM: {{ $proof.from | quote }}
{{- end }}
{{- end -}}
