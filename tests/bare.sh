#!/usr/bin/env bash
# `make demo` and `make test` on a bare machine: PATH has Python with venv, make, git and a few of
# the programs that every Debian has; HOME is empty; of the variables only those are left by which
# pip finds its packages. Each run has a clone of the last commit and an environment of its own.
# Root runs it as root, and again as nobody.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly CHECKOUT=$PWD

readonly TOOLS="make git sh dash [ awk basename bash cat chgrp chmod chown cmp comm cp cut date dd
  df diff dirname du echo env expr false find flock getent grep groups gunzip gzip head hostname id
  install kill ln ls md5sum mkdir mkfifo mktemp mount mv nice nohup nproc od paste perl printenv
  printf pwd readlink realpath rm rmdir sed seq sha256sum sleep sort split stat stty sync tac tail
  tar tee test timeout touch tr true truncate tty umount uname uniq wc which who whoami xargs yes"
readonly HAS_VENV='import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))'
#: What names or opens the way to a package index.
readonly OF_PIP='^(PIP_[A-Z_]+|https?_proxy|HTTPS?_PROXY|(no|all)_proxy|(NO|ALL)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE)='

place=$(mktemp -d)
readonly place
trap 'rm -rf "$place"' EXIT
chmod 755 "$place"
# The checkout may be somebody else's, as in a container.
export GIT_CONFIG_GLOBAL="$place/gitconfig"
printf '[safe]\n\tdirectory = *\n' >"$GIT_CONFIG_GLOBAL"

# Run a command as a user, with what it has inherited.
as() {
  local user=$1
  shift
  if [[ $user == "$(id -un)" ]]; then
    "$@"
  else
    runuser -u "$user" -- "$@"
  fi
}

# The interpreter itself, without the environment or the version manager that has chosen it.
python_of() {
  local candidate
  for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
    candidate=$("$candidate" -c 'import os, sys
print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))') || continue
    as "$1" "$candidate" -c "$HAS_VENV" 2>/dev/null && echo "$candidate" && return
  done
  echo "bare: $1 can run no Python >= 3.10 with venv: apt-get install python3-venv" >&2
  return 1
}

# A folder with the programs, in which python3 is the interpreter of a user.
link_tools() {
  local folder=$1 python=$2 tool path
  mkdir -p "$folder"
  for tool in $TOOLS; do
    path=$(type -P "$tool") && ln -s "$(realpath "$path")" "$folder/$tool"
  done || true
  # A link would tell the interpreter that its library is below the link.
  printf '#!/bin/sh\nexec %q "$@"\n' "$python" >"$folder/python3"
  chmod 755 "$folder/python3"
}

# Copy pip's settings of whoever runs this into another home.
copy_pip_settings() {
  local home=$1 settings
  for settings in "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "$HOME/.pip/pip.conf"; do
    if [[ -f $settings ]]; then
      install -D -m 600 "$settings" "$home/.config/pip/pip.conf"
      break
    fi
  done
}

run_as() {
  local user=$1 folder="$place/$1" python variables
  python=$(python_of "$user")
  mkdir -p "$folder/home" "$place/pip-cache"
  link_tools "$folder/bin" "$python"
  copy_pip_settings "$folder/home"
  git clone -q "$CHECKOUT" "$folder/launcher"
  chown -R "$user" "$folder" "$place/pip-cache"
  mapfile -d '' variables < <(env -0 | grep -zE "$OF_PIP")
  echo "== bare, as $user, with $("$python" -V)" >&2
  cd "$place" # nobody may not enter every folder
  as "$user" env -i "${variables[@]}" PATH="$folder/bin" HOME="$folder/home" \
    PIP_CACHE_DIR="$place/pip-cache" \
    make -C "$folder/launcher" demo test WORKERS="${WORKERS:-6}" TESTS="${TESTS:-}" </dev/null
}

[[ -z $(git status --porcelain) ]] || echo "bare: what is not committed is left out" >&2
users=("$(id -un)")
[[ $EUID -ne 0 ]] || users+=(nobody)
for user in "${users[@]}"; do
  run_as "$user"
  rm -rf "${place:?}/$user"
done
