// The names by which objects on the cluster carry what is ours: labels and annotations of claims
// and receipts, and the resources that are asked for. Changing one makes older objects unreadable.
#pragma once

#include <string_view>

namespace sandbroker::kubernetes {

// Labels. Ours are on the claim's own metadata, never on the pod's.
inline constexpr std::string_view kManagedBy = "sandbroker.dev/managed-by";
inline constexpr std::string_view kManagedByUs = "sandbroker";
inline constexpr std::string_view kPoolLabel = "sandbroker.dev/pool";
// The receipt's key, cut to what a label holds; the whole one is in the claim's annotation.
inline constexpr std::string_view kReceiptLabel = "sandbroker.dev/receipt";
// Token of whoever may bind the claim.
inline constexpr std::string_view kHolderLabel = "sandbroker.dev/holder";

// Annotations.
inline constexpr std::string_view kClaimAnnotation = "sandbroker.dev/claim";
// The lease's end, apart because every change of a claim tests it. Empty: no lease was written yet,
// so nobody was told of the claim.
inline constexpr std::string_view kUntilAnnotation = "sandbroker.dev/lease-until";
// The controller's: the sandbox that it is about to hand to a claim.
inline constexpr std::string_view kSandboxHint = "agents.x-k8s.io/sandbox-name";
inline constexpr std::string_view kRequestedAt = "agents.x-k8s.io/client-first-requested-at";
// The controller's, a label of sandboxes: "warm" or "cold".
inline constexpr std::string_view kLaunchType = "agents.x-k8s.io/launch-type";

inline constexpr std::string_view kExtensionsGroup = "extensions.agents.x-k8s.io";
inline constexpr std::string_view kAgentsGroup = "agents.x-k8s.io";
inline constexpr std::string_view kApiVersion = "v1beta1";

}  // namespace sandbroker::kubernetes
