# Sourced by `up`: one authority, a certificate for each part of the cluster, a kubeconfig for each
# client. What is there already is kept.
# shellcheck shell=bash

make_pki() {
  if [[ ! -s $PKI/ca.crt ]]; then
    openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/ca.key"
    openssl req -x509 -new -key "$PKI/ca.key" -subj /CN=devcluster -days 3650 -out "$PKI/ca.crt" \
      -addext basicConstraints=critical,CA:TRUE \
      -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature
    # The key pair of service account tokens.
    openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
    openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
  fi
  local api=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$NODE_IP,IP:${SERVICE_NET%.*}.1
  certificate apiserver /CN=kube-apiserver "$api"
  certificate apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client
  certificate front-proxy /CN=front-proxy
  certificate admin /O=system:masters/CN=admin
  certificate controller-manager /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate proxy /CN=system:kube-proxy
  certificate kubelet "/O=system:nodes/CN=system:node:$NAME" "DNS:$NAME,IP:$NODE_IP"
  local client
  for client in admin controller-manager scheduler proxy kubelet; do
    kubeconfig "$client" "{client-certificate: $PKI/$client.crt, client-key: $PKI/$client.key}"
  done
}

certificate() { # certificate NAME SUBJECT [ALTERNATIVE_NAMES]
  local file=$PKI/$1
  [[ -s $file.crt ]] && return 0
  {
    printf '%s\n' basicConstraints=CA:FALSE keyUsage=digitalSignature \
      extendedKeyUsage=serverAuth,clientAuth
    [[ -z ${3:-} ]] || printf 'subjectAltName=%s\n' "$3"
  } >"$file.ext"
  openssl ecparam -name prime256v1 -genkey -noout -out "$file.key"
  openssl req -new -key "$file.key" -subj "$2" |
    openssl x509 -req -CA "$PKI/ca.crt" -CAkey "$PKI/ca.key" -CAcreateserial -days 3650 \
      -extfile "$file.ext" -out "$file.crt" 2>/dev/null
}

kubeconfig() { # kubeconfig NAME USER, the user in YAML
  [[ -s $KUBECONFIG_DIR/$1 ]] && return 0
  cat >"$KUBECONFIG_DIR/$1" <<EOF
apiVersion: v1
kind: Config
current-context: devcluster
clusters:
- {name: devcluster, cluster: {server: "https://127.0.0.1:$API_PORT", certificate-authority: $PKI/ca.crt}}
users:
- {name: $1, user: $2}
contexts:
- {name: devcluster, context: {cluster: devcluster, user: $1}}
EOF
}
