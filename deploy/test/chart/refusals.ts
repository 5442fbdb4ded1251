/** Values over those of a set that cannot be used, and what helm must say: the remedy in words. */
export type Refusal = { set: "minimal" | "dev"; words: string[]; says: RegExp };

const own = (words: string[], says: RegExp): Refusal => ({ set: "minimal", words, says });
const dev = (words: string[], says: RegExp): Refusal => ({ set: "dev", words, says });

/** Values that are well formed and cannot work: the checks of `helm/templates/validate.tpl`. */
export const refusals: Refusal[] = [
  own(["image.repository="], /image\.repository is empty: set it to where/),
  own(["catalog.inline=models: {}"], /catalog\.inline and catalog\.existingConfigMap are both set: take one/),
  own(["catalog.existingConfigMap="], /there is no catalog: helm install --set-file/),
  own(["redis.existingSecret.name="], /redis\.existingSecret\.name is empty: name the Secret .* key redis-url/),
  own(["billing.databaseSecret.name="], /billing\.databaseSecret\.name is empty: name the Secret/),
  own(["postgres.ownerSecret.name="], /postgres\.ownerSecret\.name is empty/),
  own(["nats.url="], /nats\.url is empty: set it, or nats\.existingSecret\.name/),
  own(["nats.existingSecret.name=a"], /nats\.url and nats\.existingSecret\.name are both set/),
  own(["nats.url=nats://me:word@nats:4222"], /nats\.url holds a user: put it into a Secret/),
  own(["relay.terminationGracePeriodSeconds=600"], /relay\.terminationGracePeriodSeconds is 600.*at least 6\d\d/),
  own(["billing.env.DRAIN_MS=a"], /billing\.env\.DRAIN_MS: set billing\.drainSeconds instead/),
  own(["relay.podDisruptionBudget.maxUnavailable=0"], /maxUnavailable is 0, so no node .* set it to 1/),
  own(
    ["relay.autoscaling.hpa.enabled=true", "relay.autoscaling.keda.enabled=true"],
    /relay\.autoscaling: hpa and keda .* disable one of them/,
  ),
  own(["relay.autoscaling.max=1"], /relay\.autoscaling\.max is below min: raise it to at least 2/),
  own(
    ["console.autoscaling.hpa.enabled=true", "console.resources.requests=null"],
    /console\.resources\.requests\.cpu is not set/,
  ),
  own(["relay.resources.limits=null"], /relay\.resources\.limits\.memory is not set/),
  own(["relay.autoscaling.keda.enabled=true"], /relay\.autoscaling\.keda\.prometheusAddress is empty: set it/),
  own(["billing.autoscaling.keda.enabled=true"], /billing\.autoscaling\.keda\.natsMonitoringEndpoint is empty/),
  own(["relay.trustedProxies=null"], /answer every call with 403.*set relay\.trustedProxies/),
  own(["httpRoute.enabled=true", "httpRoute.parentRefs[0].name=a"], /httpRoute\.relay\.hostnames is empty/),
  own(["httpRoute.enabled=true", "httpRoute.relay.hostnames[0]=a.example"], /httpRoute\.parentRefs is empty/),
  own(["ingress.enabled=true"], /ingress\.relay\.hosts is empty: name the host/),
  own(["relay.service.externalTrafficPolicy=Local"], /externalTrafficPolicy is for an address outside/),
  own(["relay.service.loadBalancerClass=a"], /loadBalancerClass is for a load balancer: take it away/),
  own(["console.publicUrl=http://console.example.org"], /console\.publicUrl must be where people open it/),
  own(["console.apiUrl=api.example.org"], /console\.apiUrl must be where callers reach the relay/),
  own(["console.trustedProxies=null"], /console\.trustedProxies is empty, so nobody could sign in/),
  own(["console.smtp.secret=mail"], /console\.smtp: secret and from are set both or none/),
  own(["console.oidc.issuer=https://id.example.org"], /console\.oidc: issuer, .* are set all or none/),
  own(
    ["nats.url=nats://a:4222\\,nats://b:4333"],
    /networkPolicy\.nats\.ports lacks 4333, the port of nats\.url: add it/,
  ),
  own(["tracing.otlpEndpoint=https://traces.example.org/otlp"], /networkPolicy\.tracing\.ports lacks 443/),
  own(
    ["backup.enabled=true", "backup.volume.emptyDir.sizeLimit=1Gi"],
    /backup\.databaseSecret\.name is empty: name the Secret/,
  ),
  own(["billing.archive.keepDays=89"], /billing\.archive\.keepDays is below 90.*[^]*billing\.archive\.url: say where/),
  own(
    ["billing.archive.url=file:///archive"],
    /billing\.signingKeySecret\.name: .*[^]*billing\.archive\.volume is empty/,
  ),
  own(["billing.archive.url=https://a/b"], /billing\.archive\.credentialsSecret\.name is empty: name the Secret/),
  own(["restore.folder=a"], /backup\.volume is empty: say where backups are/),
  own(
    ["restore.folder=a", "postgres.ownerSecret.name="],
    /restore\.folder is set, but not postgres\.ownerSecret\.name/,
  ),
  dev(["backup.enabled=true"], /backup\.enabled or restore\.folder is set, but the stores of dev\.enabled/),
  dev(["redis.existingSecret.name=a"], /redis\.existingSecret\.name is set, but dev\.enabled brings its own/),
  dev(["nats.url=nats://nats:4222"], /nats\.url or nats\.existingSecret\.name is set, but dev\.enabled brings/),
];

/** Values that are not well formed: what `helm/values.schema.json` refuses. */
export const malformed: Refusal[] = [
  own(["relay.replcas=3"], /replcas is not allowed/),
  own(["rellay.replicas=3"], /rellay is not allowed/),
  own(["relay.replicas=many"], /relay\.replicas: Invalid type/),
  own(["monitoring.podMonitor.enabled=maybe"], /monitoring\.podMonitor\.enabled: Invalid type/),
  own(["grpcTls.certManager.use=perhaps"], /grpcTls\.certManager\.use: .* must be one of/),
  own(["image.pullPolicy=Sometimes"], /image\.pullPolicy: .* must be one of/),
  own(["image.digest=latest"], /image\.digest: Does not match pattern/),
  own(["commonLabels.app\\.kubernetes\\.io/name=mine"], /commonLabels: Must not validate the schema/),
  own(["restore.folder=../a"], /restore\.folder: Does not match pattern/),
  own(["relay.drainSeconds=-1"], /relay\.drainSeconds: Must be greater than or equal to/),
];
