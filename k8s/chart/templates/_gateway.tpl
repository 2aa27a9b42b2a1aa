{{/* A server of many sessions with its Service and policy. Takes {root, name, port: name, settings, command, env,
     mounts, volumes}. */}}
{{- define "agent-sidecar.gateway" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}-sidecar
data:
  config.yaml: |
    {{- include "agent-sidecar.config" (dict "root" .root "config" .settings.config) | nindent 4 }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
spec:
  selector: {app.kubernetes.io/name: {{ .name }}}
  ports:
    - {name: {{ .port }}, port: {{ .settings.port | int64 }}, targetPort: {{ .port }}, protocol: TCP}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
spec:
  podSelector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  policyTypes: [Ingress]
  ingress:
    - from:
        - podSelector: {}
      ports:
        - {port: {{ .settings.port | int64 }}, protocol: TCP}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels:
    agent-sidecar/inject: "true"
spec:
  replicas: 1
  strategy: {type: Recreate}
  selector:
    matchLabels: {app.kubernetes.io/name: {{ .name }}}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: {{ .name }}
        agent-sidecar/watched: "true"
    spec:
      {{- include "agent-sidecar.pod" .root | nindent 6 }}
      securityContext:
        {{- include "agent-sidecar.user" .root | nindent 8 }}
      initContainers:
        - {{- include "agent-sidecar.container" (dict "root" .root "mounts" .mounts) | nindent 10 }}
      containers:
        - name: agent
          image: {{ .settings.image }}
          {{- with .command }}
          command:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- include "agent-sidecar.agent" .root | nindent 10 }}
          ports:
            - {name: {{ .port }}, containerPort: {{ .settings.port | int64 }}, protocol: TCP}
          env:
            - {name: CLAUDE_CONFIG_DIR, value: /agent/.claude}
            {{- toYaml .env | nindent 12 }}
          volumeMounts:
            - {mountPath: /agent, name: agent-home}
            - {mountPath: /run/agent, name: agent-control}
            - {mountPath: /tmp, name: tmp}
      volumes:
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "agent-sidecar.home" .root | nindent 8 }}
        {{- include "agent-sidecar.volumes" (dict "root" .root "config" (printf "%s-sidecar" .name)) | nindent 8 }}
        - name: tmp
          emptyDir: {sizeLimit: {{ .settings.tmp }}}
{{- end }}

{{/* An environment variable from a Secret; takes {name, secret, key}. */}}
{{- define "agent-sidecar.secret" -}}
name: {{ .name }}
valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- end }}
