# Sourced by `up`: the namespaces that everything runs in, containerd with a bridge network, kubelet,
# and on demand kube-proxy and the enforcement of NetworkPolicy.
# shellcheck shell=bash

# The holder keeps a network and a mount namespace alive. With the last process in them, links,
# rules, sysctls and mounts are gone.
start_holder() {
  alive holder && return 0
  local place
  for place in "${FIXED_PLACES[@]}"; do mkdir -p "$place" "$STATE/fixed$place"; done
  : >"$LOGS/holder.log"
  # shellcheck disable=SC2016  # for the inner shell
  start_outside holder unshare --mount --net --propagation private bash -euc '
    state=$1; shift
    for place; do mount --bind "$state/fixed$place" "$place"; done
    mount --make-rshared /  # kubelet and runc pass mounts on
    ip link set lo up
    ip link add "$BRIDGE" type bridge
    ip address add "$NODE_IP/24" dev "$BRIDGE"
    ip link set "$BRIDGE" up
    echo ready
    exec sleep infinity' holder "$STATE" "${FIXED_PLACES[@]}"
  wait_for holder grep -qx ready "$LOGS/holder.log"
}

# kubelets that share a cgroup root kill each other's pods.
make_cgroups() {
  local folder
  while read -r folder; do
    mkdir -p "$folder/daemons"
    if [[ -e $folder/cpuset.cpus && -e ${folder%/*}/tasks ]]; then
      # Version 1 does not hand these down by itself.
      cat "${folder%/*}/cpuset.cpus" >"$folder/cpuset.cpus"
      cat "${folder%/*}/cpuset.mems" >"$folder/cpuset.mems"
    fi
  done < <(cgroup_roots)
}

start_containerd() {
  mkdir -p "$STATE/cni"
  cat >"$STATE/cni/10-bridge.conflist" <<EOF
{"cniVersion": "0.4.0", "name": "devcluster", "plugins": [
  {"type": "bridge", "bridge": "$BRIDGE", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$STATE/cni/addresses",
            "ranges": [[{"subnet": "$POD_NET", "gateway": "$NODE_IP"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
EOF
  # restrict_oom_score_adj: root without CAP_SYS_RESOURCE can't lower it, and no pod would start.
  cat >"$STATE/containerd.toml" <<EOF
version = 2
root = "$STATE/containerd"
state = "$STATE/containerd-run"
oom_score = 0
[grpc]
  address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "sandbroker.dev/pause:dev"
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$STATE/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
EOF
  start containerd containerd --config "$STATE/containerd.toml"
}

# An archive that has not changed since is not imported again.
import_images() {
  local archive stamp ctr=(inside ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io)
  wait_for containerd "${ctr[@]}" version
  for archive in "$IMAGES"/*.tar; do
    stamp=$STATE/imported.$(basename "$archive")
    [[ $stamp -nt $archive ]] && continue
    "${ctr[@]}" images import "$archive" >>"$LOGS/import.log" 2>&1 || give_up "import of $archive failed"
    touch "$stamp"
  done
}

start_kubelet() {
  mkdir -p "$STATE/kubelet/plugins" "$STATE/pod-logs"
  echo "nameserver 127.0.0.1" >"$STATE/resolv.conf"
  cat >"$STATE/kubelet.yaml" <<EOF
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $NODE_IP
tlsCertFile: $PKI/kubelet.crt
tlsPrivateKeyFile: $PKI/kubelet.key
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
clusterDNS: [$NODE_IP]
clusterDomain: cluster.local
resolvConf: $STATE/resolv.conf
podLogsDir: $STATE/pod-logs
volumePluginDir: $STATE/kubelet/plugins
cgroupDriver: cgroupfs
cgroupRoot: /devcluster-$NAME
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
oomScoreAdj: 0
maxPods: 200
serializeImagePulls: false
syncFrequency: 10s
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
EOF
  start kubelet "$BIN/kubelet" --config="$STATE/kubelet.yaml" --kubeconfig="$KUBECONFIG_DIR/kubelet" \
    --root-dir="$STATE/kubelet" --cert-dir="$STATE/kubelet/pki" --hostname-override="$NAME" \
    --node-ip="$NODE_IP"
}

start_proxy() {
  inside ip route replace "$SERVICE_NET" dev "$BRIDGE"
  cat >"$STATE/kube-proxy.yaml" <<EOF
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
hostnameOverride: $NAME
clientConnection: {kubeconfig: $KUBECONFIG_DIR/proxy}
clusterCIDR: $POD_NET
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0, min: 0}
EOF
  start proxy "$BIN/kube-proxy" --config="$STATE/kube-proxy.yaml"
  wait_for proxy in_network curl -sf http://127.0.0.1:10256/healthz
}

# New connections from and to pods are judged by the enforcer, through netfilter queue 100. Root on
# the node is let through: kubelet's probes are. iptables, since not every kernel has the queue
# expression of nftables.
start_policy_enforcer() {
  alive policy-enforcer && return 0
  # shellcheck disable=SC2016  # for the inner shell
  inside bash -euo pipefail -c '
    rules() { printf "%s\n" "*mangle" ":POLICY - [0:0]" ":POLICY_TO_NODE - [0:0]" \
      "-A POLICY -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN" \
      "-A POLICY -m owner --uid-owner 0 -j RETURN" \
      "-A POLICY -s $POD_NET -j NFQUEUE --queue-num 100" \
      "-A POLICY -d $POD_NET -j NFQUEUE --queue-num 100" \
      "-A POSTROUTING -j POLICY" \
      "-A POLICY_TO_NODE -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN" \
      "-A POLICY_TO_NODE -j NFQUEUE --queue-num 100" \
      "-A INPUT -i $BRIDGE -s $POD_NET -j POLICY_TO_NODE" COMMIT; }
    echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
    rules | iptables-restore --table mangle' >>"$LOGS/policy-enforcer.log" 2>&1 ||
    give_up "policy-enforcer can't have its netfilter rules"
  start policy-enforcer "$BIN/policy-enforcer" --kubeconfig="$KUBECONFIG_DIR/admin" --node="$NAME" --queue=100
  wait_for policy-enforcer in_network grep -q '^ *100 ' /proc/net/netfilter/nfnetlink_queue
}
