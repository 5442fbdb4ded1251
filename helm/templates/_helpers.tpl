{{/*
Names, labels and sums. Most take a dictionary: root (the top context) and component, one of relay, auth-quota, billing,
video-task, console, migrate, backup, restore, dev-nats, dev-redis, dev-postgres.
*/}}

{{- define "model-relay.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 40 characters, so that every name made of it fits into the 63 of a DNS label. */}}
{{- define "model-relay.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* <fullname>-<component>: the name of a component's Deployment and Service, and of its ServiceAccount by default. */}}
{{- define "model-relay.componentName" -}}
{{- printf "%s-%s" (include "model-relay.fullname" .root) .component -}}
{{- end -}}

{{- define "model-relay.serviceAccountName" -}}
{{- $account := (index .root.Values (include "model-relay.valuesKey" .component)).serviceAccount -}}
{{- $account.name | default (ternary (include "model-relay.componentName" .) "default" $account.create) -}}
{{- end -}}

{{- define "model-relay.selectorLabels" -}}
app.kubernetes.io/name: {{ include "model-relay.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Objects that belong to no component give none. */}}
{{- define "model-relay.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{ include "model-relay.podLabels" . }}
{{- end -}}

{{/* Without the chart's version, with which every release of it would restart pods that stay as they are. */}}
{{- define "model-relay.podLabels" -}}
app.kubernetes.io/name: {{ include "model-relay.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: model-relay
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The key of a component in values: authQuota for auth-quota. */}}
{{- define "model-relay.valuesKey" -}}
{{- . | replace "-" "_" | camelcase | untitle -}}
{{- end -}}

{{/* Listening ports by component; the ops port has /livez, /readyz and /metrics. */}}
{{- define "model-relay.ports" -}}
{{- $ports := dict
  "relay" (dict "http" 8080 "grpc" 7004 "ops" 9080)
  "auth-quota" (dict "grpc" 7001 "ops" 9081)
  "billing" (dict "grpc" 7002 "ops" 9082)
  "video-task" (dict "grpc" 7003 "ops" 9083)
  "console" (dict "http" 8090 "ops" 9084) -}}
{{- toYaml (index $ports .) -}}
{{- end -}}

{{/* Where a headless Service is looked up: a name that ends in a dot needs no search list. */}}
{{- define "model-relay.host" -}}
{{- printf "%s.%s.svc.%s." (include "model-relay.componentName" .) .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{/* What a service is told of where another one's pods answer: all of them, in turn. */}}
{{- define "model-relay.grpcTarget" -}}
{{- $ports := include "model-relay.ports" .component | fromYaml -}}
{{- printf "dns:///%s:%d" (include "model-relay.host" .) (int $ports.grpc) -}}
{{- end -}}

{{/*
Seconds from the end of preStop until a process has left, at the most. auth-quota ends streams and then lets unary calls
end, video-task does so with calls and then with what they left behind, each for drainSeconds. Then comes what each
needs to flush and close: callers of the relay have 3 s for their last bytes and auth-quota and JetStream 10 s to
confirm, a provider that video-task has asked has 20 s to answer, a look of billing at the books may wait 30 s for
auth-quota, and NATS and traces are closed.
*/}}
{{- define "model-relay.leaveSeconds" -}}
{{- $own := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $drains := has .component (list "auth-quota" "video-task") | ternary 2 1 -}}
{{- $flush := dict "relay" 25 "auth-quota" 15 "billing" 45 "video-task" 30 "console" 15 -}}
{{- add (mul $drains (int $own.drainSeconds)) (index $flush .component) -}}
{{- end -}}

{{- define "model-relay.neededGraceSeconds" -}}
{{- $own := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- add (int $own.preStopSeconds) (include "model-relay.leaveSeconds" . | int) -}}
{{- end -}}

{{- define "model-relay.graceSeconds" -}}
{{- $own := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- int $own.terminationGracePeriodSeconds | default (include "model-relay.neededGraceSeconds" . | int) -}}
{{- end -}}

{{- define "model-relay.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Whether cert-manager makes the certificates for gRPC; what the release itself once made it goes on with. */}}
{{- define "model-relay.usesCertManager" -}}
{{- $manager := .Values.grpcTls.certManager -}}
{{- $authority := printf "%s-grpc-authority" (include "model-relay.fullname" .) -}}
{{- if or $manager.issuerRef.name (eq $manager.use "always") -}}
yes
{{- else if and (eq $manager.use "auto") (.Capabilities.APIVersions.Has "cert-manager.io/v1") -}}
{{- $kept := default dict (lookup "v1" "Secret" .Release.Namespace $authority) -}}
{{- $makers := default dict (default dict $kept.metadata).annotations -}}
{{- if or (not $kept) (hasKey $makers "cert-manager.io/certificate-name") -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Secret of a component's certificate for gRPC: a given one, or one that is made. */}}
{{- define "model-relay.grpcTlsSecret" -}}
{{- $given := index .root.Values.grpcTls.existingSecrets (include "model-relay.valuesKey" .component) -}}
{{- default (printf "%s-grpc-tls" (include "model-relay.componentName" .)) $given -}}
{{- end -}}

{{- define "model-relay.holdProofSecret" -}}
{{- printf "%s-hold-proof" (include "model-relay.fullname" .) -}}
{{- end -}}

{{- define "model-relay.devSecret" -}}
{{- printf "%s-dev" (include "model-relay.fullname" .) -}}
{{- end -}}

{{/*
A variable's source: the given Secret (ref: name and key), or, with the throw-away stores, theirs, in which devKey is
the key.
*/}}
{{- define "model-relay.secretRef" -}}
{{- if .root.Values.dev.enabled -}}
{{- dict "name" (include "model-relay.devSecret" .root) "key" .devKey | toYaml -}}
{{- else -}}
{{- dict "name" .ref.name "key" .ref.key | toYaml -}}
{{- end -}}
{{- end -}}
