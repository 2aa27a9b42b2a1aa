#!/usr/bin/env bash
# Installs the real agents that the tests drive into .e2e/, once: exact versions, nothing else of the machine touched.
set -eu
cd "$(dirname "$0")/../.."

CLAUDE_VERSION=2.1.332
SDK_VERSION=0.2.189
OPENCODE_VERSION=1.18.33
QWEN_VERSION=0.24.4
NODE_VERSION=22.23.3
PYTHON=${PYTHON:-.venv/bin/python}

case "$(uname -m)" in
  x86_64) arch=x64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) echo "no Claude Code for $(uname -m)" >&2; exit 1 ;;
esac
mkdir -p .e2e

# npm only unpacks here (no scripts run), so any version of it will do.
if ! command -v npm >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends npm
  else
    echo "npm is needed to fetch the agents; on Debian: sudo apt-get install npm" >&2; exit 1
  fi
fi

# The page is looked at in a real browser; without one these tests are left out.
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
fi

claude="@anthropic-ai/claude-code-linux-$arch@$CLAUDE_VERSION"
if [ "$(cat .e2e/claude/.version 2>/dev/null)" != "$claude" ]; then
  rm -rf .e2e/claude
  npm install --silent --ignore-scripts --omit=optional --no-save --prefix .e2e/claude "$claude"
  ln -s "node_modules/@anthropic-ai/claude-code-linux-$arch/claude" .e2e/claude/claude
  echo "$claude" >.e2e/claude/.version
fi

opencode="opencode-linux-$arch@$OPENCODE_VERSION"
if [ "$(cat .e2e/opencode/.version 2>/dev/null)" != "$opencode" ]; then
  rm -rf .e2e/opencode
  npm install --silent --ignore-scripts --omit=optional --no-save --prefix .e2e/opencode "$opencode"
  ln -s "node_modules/opencode-linux-$arch/bin/opencode" .e2e/opencode/opencode
  echo "$opencode" >.e2e/opencode/.version
fi

# Qwen Code needs a node of its own generation, whatever the machine has.
qwen="@qwen-code/qwen-code@$QWEN_VERSION node-linux-$arch@$NODE_VERSION"
if [ "$(cat .e2e/qwen/.version 2>/dev/null)" != "$qwen" ]; then
  rm -rf .e2e/qwen
  # shellcheck disable=SC2086 # two packages
  npm install --silent --ignore-scripts --omit=optional --no-save --prefix .e2e/qwen $qwen
  ln -s "node_modules/@qwen-code/qwen-code/cli-entry.js" .e2e/qwen/qwen
  ln -s "node_modules/node-linux-$arch/bin/node" .e2e/qwen/node
  echo "$qwen" >.e2e/qwen/.version
fi

# The SDK gets an environment of its own; its bundled CLI goes, so that every test runs the one above.
if [ "$(cat .e2e/sdk/.version 2>/dev/null)" != "$SDK_VERSION" ]; then
  rm -rf .e2e/sdk
  "$PYTHON" -m venv .e2e/sdk
  .e2e/sdk/bin/python -m pip --quiet --disable-pip-version-check install --no-cache-dir "claude-agent-sdk==$SDK_VERSION"
  rm -rf .e2e/sdk/lib/python3*/site-packages/claude_agent_sdk/_bundled
  echo "$SDK_VERSION" >.e2e/sdk/.version
fi

# Prometheus and Alertmanager, unpacked from Debian's packages; a newer suite's are fetched by the test that runs them.
dashboards/stack/debian.sh own .e2e/stack/own || echo "the tests of the stack will be skipped" >&2
