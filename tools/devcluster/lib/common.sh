# Sourced by the commands of tools/devcluster: where everything is, and how programs of the cluster
# are started, watched and ended. Nothing here keeps state but the files below $STATE.
# shellcheck shell=bash
# shellcheck source=tools/ci/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../ci/setup.sh"

DEVCLUSTER=$ROOT/tools/devcluster
MODULES=$DEVCLUSTER/modules
# shellcheck disable=SC2034  # here and below: used by the commands
IMAGES=$ROOT/build/devcluster/images

# One cluster a name: it decides the state directory, the cgroup and the node's name.
NAME=${DEVCLUSTER_NAME:-dev}
[[ $NAME =~ ^[a-z][a-z0-9-]{0,20}$ ]] || die "DEVCLUSTER_NAME must be up to 21 of a-z, 0-9 and dashes: $NAME"
STATE=/var/lib/sandbroker-devcluster/$NAME
BIN=$STATE/bin
LOGS=$STATE/log
PIDS=$STATE/pid
# shellcheck disable=SC2034
PKI=$STATE/pki
KUBECONFIG_DIR=$STATE/kubeconfig
# shellcheck disable=SC2034
CONTAINERD_SOCKET=$STATE/containerd.sock

# Places that containerd, CNI and kubelet use whatever one tells them; the cluster sees its own there.
# shellcheck disable=SC2034
FIXED_PLACES=(/run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers)

# Inside a network namespace of its own nobody else can have these.
# shellcheck disable=SC2034
BRIDGE=cluster0 NODE_IP=10.244.0.1 POD_NET=10.244.0.0/24 SERVICE_NET=10.96.0.0/24 API_PORT=6443 \
  ETCD_URL=http://127.0.0.1:2379

# What the cluster has besides the usual: netpol, services, audit.
has_option() { [[ -e $STATE/option.$1 ]]; }

usage() { # usage STATUS: the comment at the top of the command is its help
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" | grep -v '^shellcheck'
  exit "$1"
}

# The compiled programs depend on the modules' files and on Go, on nothing else in the checkout.
binaries_dir() {
  local hash
  hash=$({ go version && find "$MODULES" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat; } | sha256sum)
  printf '%s/sandbroker/devcluster/%.16s' "${XDG_CACHE_HOME:-$HOME/.cache}" "$hash"
}

# One command at a time changes the cluster. Descriptor 9 is not passed on to daemons.
take_lock() {
  exec 9>"/run/lock/sandbroker-devcluster-$NAME"
  flock --wait 600 9 || die "another tools/devcluster command has been busy for ten minutes"
}

# alive NAME: a zombie counts as dead, since process 1 of a container may be slow to collect it; so
# does a process that has got the id of a dead one, since it is not in our cgroup.
alive() {
  local pid
  [[ -s $PIDS/$1 ]] && pid=$(<"$PIDS/$1") &&
    grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" &&
    grep -qs "/devcluster-$NAME/daemons$" "/proc/$pid/cgroup"
}

# Folder of the cluster's cgroup in each hierarchy; `daemons` below the first holds all that `start`
# starts and their children, so that the end finds them.
cgroup_roots() {
  if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    echo "/sys/fs/cgroup/devcluster-$NAME"
  else
    # kubelet wants its root in every hierarchy there is.
    local hierarchy
    for hierarchy in /sys/fs/cgroup/pids /sys/fs/cgroup/*; do
      [[ ! -d $hierarchy ]] || echo "$hierarchy/devcluster-$NAME"
    done
  fi
}

# inside COMMAND...: in the network and mount namespace of the cluster.
inside() { nsenter --target "$(<"$PIDS/holder")" --net --mount -- "$@"; }
# in_network COMMAND...: the cluster's network and this machine's files.
in_network() { nsenter --target "$(<"$PIDS/holder")" --net -- "$@"; }

kubectl() { in_network env KUBECONFIG="$KUBECONFIG_DIR/admin" "$BIN/kubectl" "$@"; }

# start NAME COMMAND...: a daemon of the cluster in its namespaces, unless it runs already.
start() {
  local name=$1
  shift
  start_outside "$name" nsenter --target "$(<"$PIDS/holder")" --net --mount -- "$@"
}

start_outside() {
  local name=$1
  shift
  alive "$name" && return 0
  setsid "$@" >>"$LOGS/$name.log" 2>&1 </dev/null 9>&- &
  echo $! >"$PIDS/$name"
  disown
  # Refused when it has ended already; wait_for tells why.
  echo "$(<"$PIDS/$name")" >"$(cgroup_roots | head -n 1)/daemons/cgroup.procs" 2>/dev/null || true
}

# wait_for NAME COMMAND...: until the command succeeds, as long as the daemon lives. Mostly that takes
# a second, on a machine with much else to do minutes.
wait_for() {
  local name=$1 end=$((SECONDS + 180))
  shift
  until "$@" >/dev/null 2>&1; do
    alive "$name" || give_up "$name has ended"
    ((SECONDS < end)) || give_up "$name is not ready in time"
    sleep 0.1
  done
}

give_up() {
  tail -n 20 "$LOGS/${1%% *}.log" >&2
  die "$1; its log: $LOGS/${1%% *}.log; to tidy up: tools/devcluster/down"
}

# stop SECONDS NAME...: asks all of them to end, and kills those that have not after that time.
stop() {
  local end=$((SECONDS + $1)) name
  shift
  for name; do
    if alive "$name"; then kill "$(<"$PIDS/$name")" 2>/dev/null || true; fi
  done
  for name; do
    while alive "$name"; do
      ((SECONDS < end)) || kill -KILL "$(<"$PIDS/$name")" 2>/dev/null || true
      sleep 0.05
    done
    rm -f "$PIDS/$name"
  done
}
