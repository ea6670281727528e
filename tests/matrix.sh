#!/usr/bin/env bash
# ruff, mypy and the tests on each Python that this machine has: PYTHONS="3.10 3.13" takes some,
# TESTS="tests/spec" takes some tests. Each Python gets an environment of its own, .matrix/X.Y.
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

check() {
  local bin=".matrix/$1/bin"
  [[ -e .matrix/$1/ready ]] || {
    "$2" -m venv ".matrix/$1" &&
      "$bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt \
        -e '.[torch,examples,test,dev]' && touch ".matrix/$1/ready"
  } || return
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
