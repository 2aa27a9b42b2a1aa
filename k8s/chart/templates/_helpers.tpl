{{/* What the examples' pods are made of: the same as ../component, with values for what can be chosen. */}}

{{- define "agent-sidecar.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ with .digest }}@{{ . }}{{ else }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end }}

{{/* A configuration, which has to listen where the probe asks, the scraper comes and the policy lets it in; takes
     {root, config}. */}}
{{- define "agent-sidecar.config" -}}
{{- $port := toString (int64 .root.Values.sidecar.port) }}
{{- $listen := toString .config.scrape_listen }}
{{- if ne $port (regexFind "[0-9]+$" $listen) }}
{{- fail (printf "scrape_listen is %s, but the port of the probe and of scrapes is sidecar.port, %s: give both the same" $listen $port) }}
{{- end }}
{{- toYaml .config }}
{{- end }}

{{- define "agent-sidecar.labels" -}}
app.kubernetes.io/name: agent-sidecar
{{- end }}

{{- define "agent-sidecar.restricted" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "agent-sidecar.pod" -}}
automountServiceAccountToken: false
terminationGracePeriodSeconds: {{ .Values.agent.terminationGracePeriodSeconds | int64 }}
{{- if .Values.shareProcessNamespace }}
shareProcessNamespace: true
{{- end }}
{{- end }}

{{- define "agent-sidecar.user" -}}
runAsUser: {{ .Values.agent.user | int64 }}
runAsGroup: {{ .Values.agent.group | int64 }}
runAsNonRoot: true
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* The native sidecar; takes {root, mounts}. */}}
{{- define "agent-sidecar.container" -}}
name: agent-sidecar
image: {{ include "agent-sidecar.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
restartPolicy: Always
args: [run, --config, /etc/agent-sidecar/config.yaml]
ports:
  - {name: agent-metrics, containerPort: {{ .root.Values.sidecar.port | int64 }}, protocol: TCP}
env:
  - {name: K8S_CONTAINER_NAME, value: agent-sidecar}
  - name: K8S_NAMESPACE_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  - name: K8S_NODE_NAME
    valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
  - name: K8S_POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: K8S_POD_UID
    valueFrom: {fieldRef: {fieldPath: metadata.uid}}
  {{- with .root.Values.sidecar.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: agent-metrics}
  {{- toYaml .root.Values.sidecar.livenessProbe | nindent 2 }}
resources:
  {{- toYaml .root.Values.sidecar.resources | nindent 2 }}
securityContext:
  {{- include "agent-sidecar.restricted" .root | nindent 2 }}
volumeMounts:
  {{- with .mounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  - {mountPath: /agent, name: agent-home, readOnly: true}
  - {mountPath: /etc/agent-sidecar, name: agent-sidecar-config, readOnly: true}
  - {mountPath: /run/agent, name: agent-control, readOnly: true}
  - {mountPath: /var/lib/agent-sidecar, name: agent-sidecar-state}
{{- end }}

{{/* Brings the host and its Python. */}}
{{- define "agent-sidecar.host" -}}
name: agent-host
image: {{ include "agent-sidecar.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
command: [cp, -Rf, /opt/agent-host/., /copy]
resources:
  {{- toYaml .Values.host.resources | nindent 2 }}
securityContext:
  {{- include "agent-sidecar.restricted" . | nindent 2 }}
volumeMounts:
  - {mountPath: /copy, name: agent-host}
{{- end }}

{{/* The agent's container beside its command and its own environment. */}}
{{- define "agent-sidecar.agent" -}}
workingDir: /agent
resources:
  {{- toYaml .Values.agent.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
{{- end }}

{{/* Volumes of the sidecar but the home; takes {root, config: the ConfigMap's name}. */}}
{{- define "agent-sidecar.volumes" -}}
- name: agent-control
  emptyDir: {sizeLimit: {{ .root.Values.sidecar.volumes.control }}}
- name: agent-sidecar-state
  emptyDir: {sizeLimit: {{ .root.Values.sidecar.volumes.state }}}
- name: agent-sidecar-config
  projected:
    sources:
      - configMap:
          name: {{ .config }}
          items: [{key: config.yaml, path: config.yaml}]
      - configMap:
          name: agent-sidecar-hold
          optional: true
          items: [{key: hold, path: hold}]
{{- end }}

{{- define "agent-sidecar.home" -}}
- name: agent-home
  emptyDir: {sizeLimit: {{ .Values.sidecar.volumes.home }}}
{{- end }}
