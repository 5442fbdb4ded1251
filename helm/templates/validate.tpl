{{- /* All problems of the values at once, each with its remedy. Nothing is rendered while there is one. */ -}}
{{- $v := .Values -}}
{{- $problems := list -}}

{{- if not $v.image.repository -}}
{{- $problems = append $problems "image.repository is empty: set it to where you have pushed the image of deploy/Dockerfile" -}}
{{- end -}}
{{- if and $v.catalog.inline $v.catalog.existingConfigMap -}}
{{- $problems = append $problems "catalog.inline and catalog.existingConfigMap are both set: take one of them away" -}}
{{- else if not (or $v.catalog.inline $v.catalog.existingConfigMap) -}}
{{- $problems = append $problems "there is no catalog: helm install --set-file catalog.inline=catalog.yaml, or set catalog.existingConfigMap" -}}
{{- end -}}

{{- /* The stores. */ -}}
{{- $owned := list
  (dict "path" "redis.existingSecret" "ref" $v.redis.existingSecret)
  (dict "path" "authQuota.databaseSecret" "ref" $v.authQuota.databaseSecret)
  (dict "path" "billing.databaseSecret" "ref" $v.billing.databaseSecret)
  (dict "path" "videoTask.databaseSecret" "ref" $v.videoTask.databaseSecret)
  (dict "path" "console.databaseSecret" "ref" $v.console.databaseSecret)
  (dict "path" "console.secretsKeySecret" "ref" $v.console.secretsKeySecret) -}}
{{- if $v.migrate.enabled -}}
{{- $owned = append $owned (dict "path" "postgres.ownerSecret" "ref" $v.postgres.ownerSecret) -}}
{{- end -}}
{{- range $owned -}}
{{- if and $v.dev.enabled .ref.name -}}
{{- $problems = printf "%s.name is set, but dev.enabled brings its own: take one of them away" .path | append $problems -}}
{{- else if not (or $v.dev.enabled .ref.name) -}}
{{- $problems = printf "%s.name is empty: name the Secret that has it under the key %s (README, Secrets)" .path .ref.key | append $problems -}}
{{- end -}}
{{- end -}}
{{- $hasNats := or $v.nats.url $v.nats.existingSecret.name -}}
{{- if and $v.dev.enabled $hasNats -}}
{{- $problems = append $problems "nats.url or nats.existingSecret.name is set, but dev.enabled brings its own: take one of them away" -}}
{{- else if and $v.nats.url $v.nats.existingSecret.name -}}
{{- $problems = append $problems "nats.url and nats.existingSecret.name are both set: take one of them away" -}}
{{- else if not (or $v.dev.enabled $hasNats) -}}
{{- $problems = append $problems "nats.url is empty: set it, or nats.existingSecret.name where it holds a password" -}}
{{- end -}}
{{- if contains "@" $v.nats.url -}}
{{- $problems = append $problems "nats.url holds a user: put it into a Secret and name that in nats.existingSecret.name" -}}
{{- end -}}

{{- /* Backup and restore. */ -}}
{{- if and $v.dev.enabled (or $v.backup.enabled $v.restore.folder) -}}
{{- $problems = append $problems "backup.enabled or restore.folder is set, but the stores of dev.enabled are for throwing away: take one of them away" -}}
{{- end -}}
{{- if and $v.backup.enabled (not $v.backup.databaseSecret.name) -}}
{{- $problems = append $problems "backup.databaseSecret.name is empty: name the Secret that has the URL of a login for backups, which the migration makes" -}}
{{- end -}}
{{- if and (or $v.backup.enabled $v.restore.folder) (not $v.backup.volume) -}}
{{- $problems = append $problems "backup.volume is empty: say where backups are, such as {persistentVolumeClaim: {claimName: backups}}" -}}
{{- end -}}
{{- if and $v.restore.folder (not $v.postgres.ownerSecret.name) -}}
{{- $problems = append $problems "restore.folder is set, but not postgres.ownerSecret.name, of whose login a restore makes a database: name it" -}}
{{- end -}}

{{- /* The archive of the ledger. */ -}}
{{- $archive := $v.billing.archive -}}
{{- if and $archive.keepDays (lt (int64 $archive.keepDays) 90) -}}
{{- $problems = append $problems "billing.archive.keepDays is below 90: younger days may still be booked on or be replayed" -}}
{{- end -}}
{{- if and $archive.keepDays (not $archive.url) -}}
{{- $problems = append $problems "billing.archive.keepDays is set, but not billing.archive.url: say where days are archived" -}}
{{- end -}}
{{- if and $archive.url (not $v.billing.signingKeySecret.name) -}}
{{- $problems = append $problems "billing.archive.url is set, but not billing.signingKeySecret.name: archived days are signed" -}}
{{- end -}}
{{- if and (hasPrefix "http" $archive.url) (not $archive.credentialsSecret.name) -}}
{{- $problems = append $problems "billing.archive.credentialsSecret.name is empty: name the Secret that has the bucket's access key" -}}
{{- end -}}
{{- if and (hasPrefix "file:" $archive.url) (not $archive.volume) -}}
{{- $problems = append $problems "billing.archive.volume is empty: a folder in a pod is lost with it, so say which volume is at /archive" -}}
{{- end -}}

{{- /* Ports that stand in values; those in Secrets nobody sees here. */ -}}
{{- $told := list -}}
{{- range compact (splitList "," $v.nats.url) -}}
{{- $told = append $told (dict "path" "nats.url" "link" "nats" "port" (regexFind ":[0-9]+/?$" . | default ":4222" | trimAll ":/")) -}}
{{- end -}}
{{- with $v.tracing.otlpEndpoint -}}
{{- $usual := hasPrefix "https:" . | ternary "443" "80" -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" | default $usual -}}
{{- $told = append $told (dict "path" "tracing.otlpEndpoint" "link" "tracing" "port" $port) -}}
{{- end -}}
{{- range $told -}}
{{- if and $v.networkPolicy.enabled (not (has .port (toStrings (index $v.networkPolicy .link).ports))) -}}
{{- $problems = printf "networkPolicy.%s.ports lacks %s, the port of %s: add it" .link .port .path | append $problems -}}
{{- end -}}
{{- end -}}

{{- /* Each service. */ -}}
{{- range $component := list "relay" "auth-quota" "billing" "video-task" "console" -}}
{{- $key := include "model-relay.valuesKey" $component -}}
{{- $own := index $v $key -}}
{{- $place := dict "root" $ "component" $component -}}
{{- $needed := include "model-relay.neededGraceSeconds" $place | int -}}
{{- if lt (include "model-relay.graceSeconds" $place | int) $needed -}}
{{- $text := "%s.terminationGracePeriodSeconds is %d, but preStopSeconds %d and up to %d s to drain and flush need %d: set it to 0 or to at least %d" -}}
{{- $leave := include "model-relay.leaveSeconds" $place | int -}}
{{- $problems = printf $text $key (int $own.terminationGracePeriodSeconds) (int $own.preStopSeconds) $leave $needed $needed | append $problems -}}
{{- end -}}
{{- if hasKey $own.env "DRAIN_MS" -}}
{{- $problems = printf "%s.env.DRAIN_MS: set %s.drainSeconds instead, by which the grace period is computed" $key $key | append $problems -}}
{{- end -}}
{{- if and $own.podDisruptionBudget.enabled (has (toString $own.podDisruptionBudget.maxUnavailable) (list "0" "0%")) -}}
{{- $text := "%s.podDisruptionBudget.maxUnavailable is 0, so no node with such a pod can ever be drained: set it to 1 or more" -}}
{{- $problems = printf $text $key | append $problems -}}
{{- end -}}
{{- $scaling := $own.autoscaling -}}
{{- if and $scaling.hpa.enabled (default dict $scaling.keda).enabled -}}
{{- $problems = printf "%s.autoscaling: hpa and keda would both set the number of pods: disable one of them" $key | append $problems -}}
{{- end -}}
{{- if lt (int $scaling.max) (int $scaling.min) -}}
{{- $problems = printf "%s.autoscaling.max is below min: raise it to at least %d" $key (int $scaling.min) | append $problems -}}
{{- end -}}
{{- if and $scaling.hpa.enabled (not (default dict $own.resources.requests).cpu) -}}
{{- $problems = printf "%s.resources.requests.cpu is not set, of which the HorizontalPodAutoscaler takes a share: set it" $key | append $problems -}}
{{- end -}}
{{- if not (default dict $own.resources.limits).memory -}}
{{- $problems = printf "%s.resources.limits.memory is not set, of which JavaScript's heap is a share: set it to the requested memory" $key | append $problems -}}
{{- end -}}
{{- end -}}

{{- with $v.relay.autoscaling.keda -}}
{{- if and .enabled (not .prometheusAddress) -}}
{{- $problems = append $problems "relay.autoscaling.keda.prometheusAddress is empty: set it to Prometheus' address, such as http://prometheus.monitoring:9090" -}}
{{- end -}}
{{- end -}}
{{- with $v.billing.autoscaling.keda -}}
{{- if and .enabled (not .natsMonitoringEndpoint) -}}
{{- $problems = append $problems "billing.autoscaling.keda.natsMonitoringEndpoint is empty: set it to NATS' monitoring port, such as nats.nats.svc.cluster.local:8222" -}}
{{- end -}}
{{- end -}}

{{- /* The way in. */ -}}
{{- if not (or $v.dev.enabled $v.relay.tls.secret $v.relay.trustedProxies) -}}
{{- $problems = append $problems "the relay would answer every call with 403, for nobody says that it came by TLS: set relay.trustedProxies to the addresses of the proxies in front, or relay.tls.secret to serve TLS itself" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.relay.hostnames) -}}
{{- $problems = append $problems "httpRoute.relay.hostnames is empty: name the host of callers, such as [api.example.org]" -}}
{{- end -}}
{{- if and $v.httpRoute.enabled (not $v.httpRoute.parentRefs) -}}
{{- $problems = append $problems "httpRoute.parentRefs is empty: name the Gateway, such as [{name: public, namespace: gateways}]" -}}
{{- end -}}
{{- if and $v.ingress.enabled (not $v.ingress.relay.hosts) -}}
{{- $problems = append $problems "ingress.relay.hosts is empty: name the host of callers, such as [api.example.org]" -}}
{{- end -}}
{{- if and (eq $v.relay.service.type "ClusterIP") $v.relay.service.externalTrafficPolicy -}}
{{- $problems = append $problems "relay.service.externalTrafficPolicy is for an address outside: take it away, or set relay.service.type to LoadBalancer" -}}
{{- end -}}

{{- if and (ne $v.relay.service.type "LoadBalancer") $v.relay.service.loadBalancerClass -}}
{{- $problems = append $problems "relay.service.loadBalancerClass is for a load balancer: take it away, or set relay.service.type to LoadBalancer" -}}
{{- end -}}

{{- /* The console. */ -}}
{{- $console := $v.console -}}
{{- $publicPattern := $v.dev.enabled | ternary "^https?://[^/]+/?$" "^https://[^/]+/?$" -}}
{{- if not (regexMatch $publicPattern $console.publicUrl) -}}
{{- $problems = append $problems "console.publicUrl must be where people open it, such as https://console.example.org, without a path" -}}
{{- end -}}
{{- if not (regexMatch "^https?://[^/]+/?$" $console.apiUrl) -}}
{{- $problems = append $problems "console.apiUrl must be where callers reach the relay, such as https://api.example.org, without a path" -}}
{{- end -}}
{{- if not (or $v.dev.enabled $console.trustedProxies) -}}
{{- $problems = append $problems "console.trustedProxies is empty, so nobody could sign in: set it to the addresses of the proxies in front, which serve its TLS" -}}
{{- end -}}
{{- if ne (empty $console.smtp.secret) (empty $console.smtp.from) -}}
{{- $problems = append $problems "console.smtp: secret and from are set both or none" -}}
{{- end -}}
{{- $oidc := list $console.oidc.issuer $console.oidc.clientId $console.oidc.name $console.oidc.clientSecret.name -}}
{{- if not (has (len (compact $oidc)) (list 0 4)) -}}
{{- $problems = append $problems "console.oidc: issuer, clientId, name and clientSecret.name are set all or none" -}}
{{- end -}}

{{- if $problems -}}
{{- printf "the values cannot be used:\n\n- %s\n" (join "\n- " $problems) | fail -}}
{{- end -}}
