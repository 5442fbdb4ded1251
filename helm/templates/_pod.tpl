{{/*
The Deployment of a service. Takes root, component, links (what it reaches, from _links.tpl) and own: parts of the same
form that only this service has.
*/}}
{{- define "model-relay.deployment" -}}
{{- $values := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $place := dict "root" .root "component" .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "model-relay.componentName" $place }}
  labels: {{- include "model-relay.labels" $place | nindent 4 }}
  {{- with $values.deploymentAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with include "model-relay.replicas" $place }}
  replicas: {{ . }}
  {{- end }}
  minReadySeconds: 10
  strategy: {{- toYaml $values.strategy | nindent 4 }}
  selector:
    matchLabels: {{- include "model-relay.selectorLabels" $place | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "model-relay.podLabels" $place | nindent 8 }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec: {{- include "model-relay.podSpec" . | nindent 6 }}
{{- end -}}

{{/*
How many pods a Deployment asks for. One that is scaled asks for as many as it has: whoever takes the number out of an
object that had it has Kubernetes put 1 in its place. Where helm asks no cluster, as in `helm template`, there is none.
*/}}
{{- define "model-relay.replicas" -}}
{{- $values := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $scaling := $values.autoscaling -}}
{{- if or $scaling.hpa.enabled (default dict $scaling.keda).enabled -}}
{{- with lookup "apps/v1" "Deployment" .root.Release.Namespace (include "model-relay.componentName" .) -}}
{{- .spec.replicas -}}
{{- end -}}
{{- else -}}
{{- $values.replicas -}}
{{- end -}}
{{- end -}}

{{- define "model-relay.podSpec" -}}
{{- $values := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $place := dict "root" .root "component" .component -}}
{{- $parts := include "model-relay.parts" . | fromYaml -}}
serviceAccountName: {{ include "model-relay.serviceAccountName" $place }}
{{ include "model-relay.podDefaults" .root }}
terminationGracePeriodSeconds: {{ include "model-relay.graceSeconds" $place }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- if $values.topologySpreadConstraints }}
  {{- toYaml $values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "model-relay.selectorLabels" $place | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
  {{- end }}
{{- with $values.extraInitContainers }}
initContainers: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: {{ .component }}
    image: {{ include "model-relay.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    args: [{{ .component }}]
    securityContext: {{- include "model-relay.containerSecurity" . | nindent 6 }}
    ports:
      {{- range $name, $port := include "model-relay.ports" .component | fromYaml }}
      - { name: {{ $name }}, containerPort: {{ $port }} }
      {{- end }}
    {{- include "model-relay.variables" (dict "parts" $parts "values" $values) | nindent 4 }}
    resources:
      {{- mergeOverwrite (dict "requests" $parts.requests) (deepCopy $values.resources) | toYaml | nindent 6 }}
    {{- include "model-relay.probes" $values | nindent 4 }}
    volumeMounts:
      - { name: tmp, mountPath: /tmp }
      {{- range $name, $mount := $parts.mounts }}
      - { name: {{ $name }}, mountPath: {{ $mount.path }}{{ if not $mount.isWritable }}, readOnly: true{{ end }} }
      {{- end }}
      {{- with $values.extraVolumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  {{- with $values.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  - name: tmp
    emptyDir: { sizeLimit: 64Mi }
  {{- range $name, $mount := $parts.mounts }}
  - name: {{ $name }}
    {{- toYaml $mount.volume | nindent 4 }}
  {{- end }}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* All parts of a service in one; what its values name wins. */}}
{{- define "model-relay.parts" -}}
{{- $place := dict "root" .root "component" .component -}}
{{- $values := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $parts := include "model-relay.baseParts" $place | fromYaml -}}
{{- range .links -}}
{{- $parts = mergeOverwrite $parts (include (printf "model-relay.link.%s" .) $place | fromYaml) -}}
{{- end -}}
{{- $parts = mergeOverwrite $parts .own -}}
{{- range $name, $_ := $values.env -}}
{{- if hasKey $parts.secretEnv $name -}}
{{- printf "%s.env.%s: the chart takes it from a Secret; name another Secret instead" (include "model-relay.valuesKey" $place.component) $name | fail -}}
{{- end -}}
{{- end -}}
{{- $_ := set $parts "env" (mergeOverwrite $parts.env $values.env) -}}
{{- toYaml $parts -}}
{{- end -}}

{{/* What every service is told: where to listen, how long it may drain, how much of the memory is for JavaScript. */}}
{{- define "model-relay.baseParts" -}}
{{- $values := index .root.Values (include "model-relay.valuesKey" .component) -}}
{{- $tracing := .root.Values.tracing -}}
env:
  {{- range $name, $port := include "model-relay.ports" .component | fromYaml }}
  {{ upper $name }}_HOST: 0.0.0.0
  {{ upper $name }}_PORT: {{ $port | quote }}
  {{- end }}
  DRAIN_MS: {{ mul 1000 (int $values.drainSeconds) | quote }}
  # Bodies, sockets and hashes are outside of JavaScript's heap; the relay has most of them.
  NODE_OPTIONS: --max-old-space-size-percentage={{ eq .component "relay" | ternary 50 65 }}
  UV_THREADPOOL_SIZE: "16"
  {{- with $tracing.otlpEndpoint }}
  OTEL_EXPORTER_OTLP_ENDPOINT: {{ . | quote }}
  {{- if has $.component (list "relay" "console") }}
  OTEL_TRACES_SAMPLER_ARG: {{ $tracing.samplerArg | quote }}
  {{- end }}
  {{- end }}
secretEnv: {}
secretFolders: []
mounts: {}
requests: {}
{{- end -}}

{{- define "model-relay.variables" -}}
env:
  {{- range $name, $value := .parts.env }}
  - { name: {{ $name }}, value: {{ $value | toString | quote }} }
  {{- end }}
  {{- range $name, $ref := .parts.secretEnv }}
  - name: {{ $name }}
    valueFrom:
      secretKeyRef: { name: {{ $ref.name | quote }}, key: {{ $ref.key | quote }} }
  {{- end }}
  {{- with .values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .parts.secretFolders .values.extraEnvFrom }}
envFrom:
  {{- range .parts.secretFolders }}
  - secretRef: { name: {{ . | quote }} }
  {{- end }}
  {{- with .values.extraEnvFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The pod security standard `restricted`, for every pod of this image. */}}
{{- define "model-relay.podDefaults" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "model-relay.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/*
/livez tells that the event loop turns and asks nobody else, so no neighbour's fault restarts a pod. preStop sleeps
while endpoints and proxies learn that the pod leaves: until then it works as ever, and is told to stop after that.
*/}}
{{- define "model-relay.probes" -}}
startupProbe:
  httpGet: { path: /livez, port: ops }
  periodSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /livez, port: ops }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: ops }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
lifecycle:
  preStop:
    sleep: { seconds: {{ .preStopSeconds }} }
{{- end -}}
