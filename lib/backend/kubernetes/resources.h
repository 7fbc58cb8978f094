// The resources that the backend asks for. charts/sandbroker/rbac.yaml lists what it does with
// them.
#pragma once

#include <string>

#include "lib/backend/kubernetes/keys.h"
#include "lib/kube/api.h"

namespace sandbroker::kubernetes {

inline kube::Resource Claims() {
  return {std::string(kExtensionsGroup), std::string(kApiVersion), "sandboxclaims"};
}
inline kube::Resource WarmPools() {
  return {std::string(kExtensionsGroup), std::string(kApiVersion), "sandboxwarmpools"};
}
inline kube::Resource Sandboxes() {
  return {std::string(kAgentsGroup), std::string(kApiVersion), "sandboxes"};
}
inline kube::Resource Pods() { return {"", "v1", "pods"}; }
inline kube::Resource Secrets() { return {"", "v1", "secrets"}; }
inline kube::Resource Leases() { return {"coordination.k8s.io", "v1", "leases"}; }

}  // namespace sandbroker::kubernetes
