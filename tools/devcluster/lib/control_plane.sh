# Sourced by `up`: etcd, API server, controller-manager, scheduler and the agent-sandbox controller.
# shellcheck shell=bash

start_etcd() {
  local peer=http://127.0.0.1:2380
  # shellcheck disable=SC2153  # NAME is the cluster's
  # The data need not outlive this machine, so nothing waits for its disk.
  start etcd "$BIN/etcd" --name "$NAME" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$ETCD_URL" --advertise-client-urls "$ETCD_URL" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "$NAME=$peer"
  wait_for etcd in_network curl -sf "$ETCD_URL/readyz"
}

start_apiserver() {
  local audit=()
  if has_option audit; then
    printf '%s\n' 'apiVersion: audit.k8s.io/v1' 'kind: Policy' 'omitStages: [RequestReceived]' \
      'rules: [{level: Metadata}]' >"$STATE/audit.yaml"
    audit=(--audit-policy-file="$STATE/audit.yaml" --audit-log-path="$LOGS/audit.log")
  fi
  start apiserver "$BIN/kube-apiserver" --etcd-servers="$ETCD_URL" \
    --bind-address=0.0.0.0 --secure-port="$API_PORT" --advertise-address="$NODE_IP" \
    --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --client-ca-file="$PKI/ca.crt" --authorization-mode=Node,RBAC \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --service-cluster-ip-range="$SERVICE_NET" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$PKI/sa.pub" --service-account-signing-key-file="$PKI/sa.key" \
    --kubelet-client-certificate="$PKI/apiserver-kubelet.crt" \
    --kubelet-client-key="$PKI/apiserver-kubelet.key" \
    --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$PKI/ca.crt" --requestheader-allowed-names=front-proxy \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$PKI/front-proxy.crt" --proxy-client-key-file="$PKI/front-proxy.key" \
    --profiling=false "${audit[@]}"
}

start_controllers() {
  local name
  for name in controller-manager scheduler; do
    local options=(--kubeconfig="$KUBECONFIG_DIR/$name"
      --authentication-kubeconfig="$KUBECONFIG_DIR/$name"
      --authorization-kubeconfig="$KUBECONFIG_DIR/$name"
      --bind-address=127.0.0.1 --leader-elect=false --profiling=false)
    [[ $name == scheduler ]] || options+=(--use-service-account-credentials=true
      --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt"
      --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key"
      --flex-volume-plugin-dir="$STATE/kubelet/plugins")
    start "$name" "$BIN/kube-$name" "${options[@]}"
  done
}

# agent-sandbox runs beside the cluster, as the service account and with the roles that it has in one.
start_agent_sandbox() {
  alive agent-sandbox && return 0
  local log=$LOGS/agent-sandbox.log account=agent-sandbox-controller namespace=agent-sandbox-system
  {
    kubectl apply --server-side -f "$BIN/crds"
    kubectl wait --for=condition=Established --timeout=180s -f "$BIN/crds"
    kubectl apply --server-side -f "$BIN/rbac.generated.yaml" -f "$BIN/extensions-rbac.generated.yaml" \
      -f "$BIN/extensions.yaml" -f - <<EOF
{apiVersion: v1, kind: Namespace, metadata: {name: $namespace}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: $account, namespace: $namespace}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $account}
subjects: [{kind: ServiceAccount, name: $account, namespace: $namespace}]
roleRef: {kind: ClusterRole, name: $account, apiGroup: rbac.authorization.k8s.io}
EOF
  } >>"$log" 2>&1
  # A token, since that name is longer than the CN of a certificate may be.
  local token
  token=$(kubectl -n "$namespace" create token "$account" --duration=48h)
  rm -f "$KUBECONFIG_DIR/agent-sandbox"
  kubeconfig agent-sandbox "{token: \"$token\"}"
  start agent-sandbox "$BIN/agent-sandbox-controller" --kubeconfig="$KUBECONFIG_DIR/agent-sandbox" \
    --extensions --leader-elect=false --metrics-bind-address=127.0.0.1:18080 \
    --health-probe-bind-address=127.0.0.1:18081
}
