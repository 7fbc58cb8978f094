package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

// runPolicyEnforcer judges packets by the cluster's NetworkPolicy objects. The packets come from a
// netfilter queue that the caller's own rules fill: the library would make nftables rules itself,
// which kernels without the nftables "queue" expression refuse; it logs that and goes on.
func runPolicyEnforcer() int {
	flags := flag.NewFlagSet("policy-enforcer", flag.ExitOnError)
	klog.InitFlags(flags)
	kubeconfig := flags.String("kubeconfig", "", "how to reach the API server")
	queue := flags.Int("queue", 100, "number of the netfilter queue")
	node := flags.String("node", "", "name of this node")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := enforce(ctx, *kubeconfig, *queue, *node); err != nil {
		klog.Error(err)
		return 1
	}
	return 0
}

func enforce(ctx context.Context, kubeconfig string, queue int, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	// NRI stays on though this containerd has none: with it off, version 0.8.0 panics at a packet
	// whose address is no pod's.
	settings := networkpolicy.Config{QueueID: queue, NodeName: node, FailOpen: false}
	controller, err := networkpolicy.NewController(client, factory.Networking().V1().NetworkPolicies(),
		factory.Core().V1().Namespaces(), factory.Core().V1().Pods(), nil, nil, nil, nil, settings)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return controller.Run(ctx)
}
