#!/usr/bin/env bash
# ruff, mypy and the tests on each Python that this machine has: PYTHONS="3.10 3.13" takes some,
# TESTS="tests/spec" takes some tests, and EXTRAS=examples,test,dev leaves PyTorch out, and with it
# the tests that need it. Each Python gets an environment of its own, .matrix/X.Y, which is made
# again when pyproject.toml, constraints.txt or EXTRAS change.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The interpreter of a version: on the path, or one of pyenv's or uv's.
find_python() {
  local candidate
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python \
    "$HOME"/.local/share/uv/python/cpython-"$1".*/bin/python3; do
    # pyenv's shims are there for versions that are not chosen, and then do not run.
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

readonly EXTRAS=${EXTRAS:-torch,examples,test,dev}

# The environment of a version, from an interpreter; nothing is done when it is ready.
set_up() {
  local home=".matrix/$1" wanted
  wanted=$(echo "$EXTRAS" | cat - pyproject.toml constraints.txt | sha256sum)
  [[ $(cat "$home/ready" 2>/dev/null) == "$wanted" ]] && return
  "$2" -m venv --clear "$home" &&
    "$home/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt \
      -e ".[$EXTRAS]" && echo "$wanted" >"$home/ready"
}

check() {
  local bin=".matrix/$1/bin"
  set_up "$1" "$2" || return
  "$bin/ruff" check . && "$bin/mypy" --python-version "$1" &&
    "$bin/python" -m pytest -q -n "${WORKERS:-4}" --dist worksteal ${TESTS:-}
}

declare -a words=()
failed=0
for version in ${PYTHONS:-3.10 3.11 3.12 3.13}; do
  if ! python=$(find_python "$version"); then
    words+=("$version  not checked: this machine has no Python $version")
    continue
  fi
  echo "== Python $version ($python)"
  if check "$version" "$python"; then
    words+=("$version  passed")
  else
    words+=("$version  FAILED")
    failed=1
  fi
done
printf '%s\n' "" "== matrix" "${words[@]}"
exit $failed
