#!/usr/bin/env bash
# Makes ready what tests of containers need: build_containers.sh PYTHON, of their environment.
# Installs Debian's Podman where root may, makes an image with Python and numpy, and another one with
# the environment's own torch and grpc. Where the engine does not start a container as it is, writes
# containers.conf beside PYTHON's bin: for hybrid cgroups, and within the hard limits of a shell here.
# Images are kept. Where nothing works it says why and ends well: the tests skip themselves.
set -eu
python=$1
environment=$(dirname "$(dirname "$python")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
give_up() {
  echo "containers: $*; their tests skip themselves. Then remove $environment to try again" >&2
  exit 0
}

packages="podman runc netavark aardvark-dns iptables mmdebstrap"
for program in podman runc mmdebstrap; do command -v $program >/dev/null || missing=yes; done
if [ "${missing-}" ]; then
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || give_up "apt-get install $packages"
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } >&2 ||
    give_up "apt-get cannot install $packages"
fi

numpy_image=localhost/launcher-numpy:1
if ! podman image exists $numpy_image; then
  mmdebstrap --quiet --variant=minbase --include=python3,python3-pip,python-is-python3,python3-numpy bookworm "$work/root.tar" ||
    give_up "mmdebstrap makes no image"
  podman import -q "$work/root.tar" $numpy_image >/dev/null || give_up "podman imports no image"
fi

at_most() { if [ "$2" = unlimited ] || [ "$2" -gt "$1" ]; then echo "$1"; else echo "$2"; fi; }
starts() { podman run --rm $numpy_image true >"$work/said" 2>&1; }
if ! starts; then
  cat > "$environment/runc-plain" <<'WRAPPER'
#!/bin/sh
PATH=$PATH:/usr/sbin exec runc "$@"
WRAPPER
  chmod +x "$environment/runc-plain"
  files=$(at_most 1048576 "$(ulimit -Hn)") processes=$(at_most 32768 "$(ulimit -Hu)")
  cat > "$environment/containers.conf" <<CONF
[engine]
runtime = "runc-plain"
cgroup_manager = "cgroupfs"
[engine.runtimes]
runc-plain = ["$environment/runc-plain"]
[containers]
cgroups = "no-conmon"
cgroupns = "host"
default_ulimits = ["nofile=$files:$files","nproc=$processes:$processes"]
CONF
  export CONTAINERS_CONF="$environment/containers.conf"
  starts || give_up "podman starts no container: $(tail -1 "$work/said")"
fi

case $environment in *-smoke) exit 0 ;; esac
# The packages of torch, Pillow and grpc, with all that they need, as they are in the environment.
"$python" - >"$work/packages" <<'PACKAGES'
import re, sys
from importlib.metadata import PackageNotFoundError, distribution
found, wanted = {}, ["torch", "numpy", "pillow", "grpcio", "protobuf"]
while wanted:
    name = re.sub(r"[-_.]+", "-", wanted.pop()).lower()
    try:
        found[name] = found.get(name) or distribution(name)
    except PackageNotFoundError:
        continue  # of another platform
    needs = [each for each in found[name].requires or () if "extra ==" not in each]
    wanted += {re.match(r"[\w.-]+", each)[0] for each in needs} - found.keys() - {"setuptools"}
tops = {(each.locate_file(""), file.parts[0]) for each in found.values() for file in each.files}
print("{}.{}".format(*sys.version_info))
print(re.sub(r"[^\w.-]", "-", f"{found['torch'].version}-{found['numpy'].version}"))
for folder, top in sorted(tops):
    if top not in ("..", "__pycache__"):
        print(f"-C{folder}\n{top}")
PACKAGES
version=$(sed -n 1p "$work/packages")
torch_image=localhost/launcher-torch:$(sed -n 2p "$work/packages")
if ! podman image exists "$torch_image"; then
  podman run --rm $numpy_image "python$version" -c "" || give_up "the image has no Python $version"
  sed 1,2d "$work/packages" >"$work/files"
  folder=/usr/local/lib/python$version/dist-packages
  podman rm -f launcher-torch >/dev/null 2>&1 || true
  tar -cf - --exclude=__pycache__ -T "$work/files" |
    podman run -i --name launcher-torch $numpy_image tar -xf - --no-same-owner -C "$folder"
  podman commit -q launcher-torch "$torch_image" >/dev/null
  podman rm -f launcher-torch >/dev/null
  podman run --rm "$torch_image" python3 -c "import grpc, numpy, PIL, torch"
fi
