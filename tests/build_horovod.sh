#!/bin/sh
# Builds Horovod 0.28.1, its last release, for the torch of an environment: build_horovod.sh PYTHON
# Takes minutes, and needs cmake, g++ and Open MPI's headers (apt-get install libopenmpi-dev).
set -e
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
# The headers of torch 2.13 need C++17, and Horovod's build files ask for C++14.
cat > "$tools/c++17" <<'END'
#!/bin/sh
for word do
  shift
  case $word in -std=gnu++14 | -std=c++14) word=-std=gnu++17 ;; esac
  set -- "$@" "$word"
done
exec g++ "$@"
END
chmod +x "$tools/c++17"
export CXX="$tools/c++17" HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
  HOROVOD_WITH_MPI=1 HOROVOD_WITH_GLOO=1 HOROVOD_CPU_OPERATIONS=MPI
"$1" -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps horovod==0.28.1
