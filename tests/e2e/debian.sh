#!/usr/bin/env bash
# Unpacks packages of another Debian suite into .e2e/debian-SUITE/, by this machine's own mirror; installs nothing.
#   tests/e2e/debian.sh trixie victoria-metrics
set -eu
cd "$(dirname "$0")/../.."
suite=$1
shift
root=$PWD/.e2e/debian-$suite
missing=()
for package in "$@"; do [ -e "$root/.have/$package" ] || missing+=("$package"); done
[ ${#missing[@]} -gt 0 ] || exit 0

mirror=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | sed -n 's#^Debian \(.*/debian\)/\{0,1\}$#\1#p' | head -n 1)
# Where nothing was listed yet: where an update would ask.
mirror=${mirror:-$(apt-get update --print-uris | sed -n "s#^'\([^']*/debian\)/dists/.*#\1#p" | head -n 1)}
[ -n "$mirror" ] || { echo "apt has no Debian mirror" >&2; exit 3; }
apt=$root/apt
mkdir -p "$root/.have" "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
  "$mirror" "$suite" >"$apt/parts/suite.sources"
options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts" -o "Dir::State::lists=$apt/lists"
  -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User="$(id -un)")
apt-get "${options[@]}" update
for package in "${missing[@]}"; do
  (cd "$apt/cache" && rm -f "${package}"_*.deb && apt-get "${options[@]}" download "$package" && dpkg-deb -x "${package}"_*.deb "$root")
  touch "$root/.have/$package"
done
rm -rf "$apt"
