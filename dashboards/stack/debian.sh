#!/usr/bin/env bash
# Unpacks Prometheus and Alertmanager of a Debian suite into DIR, once: nothing is installed, no service starts, no root is
# needed. The mirror is the one this machine's apt uses; so are its proxies and keys.
#   debian.sh SUITE DIR      SUITE: a suite's name, or `own` for the one this machine runs
set -eu

suite=$1
mkdir -p "$2" && cd "$2"
own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
if [ "$suite" = own ]; then suite=$own; fi
if [ "$(cat .suite 2>/dev/null)" = "$suite" ]; then exit 0; fi
if ! command -v apt-get >/dev/null || [ -z "$own" ]; then
  echo "not a Debian machine: put prometheus and prometheus-alertmanager on the PATH yourself" >&2; exit 3
fi
rm -rf apt usr .suite && mkdir -p apt/lists/partial apt/archives/partial

# Its main archive, however the machine's sources spell it.
uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' \
  | awk -v own="$own" '$2 == own { print $1; exit }')
if [ -z "$uri" ]; then echo "apt has no source for $own" >&2; exit 3; fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -e "$keys" ]; then signed="[signed-by=$keys]"; else signed=; fi
echo "deb $signed $uri $suite main" >apt/sources.list

isolated=(-qq -o Dir::Etc::sourcelist="$PWD/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::State="$PWD/apt" -o Dir::State::lists="$PWD/apt/lists" -o Dir::State::status=/dev/null
  -o Dir::Cache="$PWD/apt" -o APT::Sandbox::User= -o Acquire::Languages=none -o Acquire::Retries=3)
apt-get "${isolated[@]}" update
packages=(prometheus prometheus-alertmanager)
# Newer suites have promtool and amtool in packages of their own.
for tool in promtool amtool; do
  if apt-cache "${isolated[@]}" show "$tool" >/dev/null 2>&1; then packages+=("$tool"); fi
done
(cd apt && apt-get "${isolated[@]}" download "${packages[@]}" && for deb in *.deb; do dpkg-deb -x "$deb" ..; done)
rm -rf apt etc lib var usr/share
echo "$suite" >.suite
