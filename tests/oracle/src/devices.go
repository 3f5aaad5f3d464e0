// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"errors"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// allocations has, by node and by claim, what DynamicResources would write into the claim if the pod went there.
type allocations map[string]map[string]*resourcev1.AllocationResult

func (c *cluster) asksFor(name string) bool {
	for _, one := range c.Plugins {
		if one.Name == name {
			return true
		}
	}
	return false
}

// dynamic returns the objects that the plugin hears of by events: they have to be in an API server.
func (c *cluster) dynamic() []runtime.Object {
	var found []runtime.Object
	for _, one := range c.ResourceSlices {
		found = append(found, one)
	}
	for _, one := range c.DeviceClasses {
		found = append(found, one)
	}
	for _, one := range c.ResourceClaims {
		found = append(found, one)
	}
	return found
}

// deviceManager makes what kube-scheduler makes for the plugin, and waits until it has heard of everything. The
// informers that it needs are the first of the factory: no other is started.
func deviceManager(ctx context.Context, factory informers.SharedInformerFactory, c *cluster) (fwk.SharedDRAManager, error) {
	resources := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{EnableConsumableCapacity: true, SliceInformer: resources.ResourceSlices()})
	if err != nil {
		return nil, err
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, slices, factory)
	heard := make(chan struct{}, len(c.ResourceClaims))
	claims.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard <- struct{}{} }})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range c.ResourceClaims {
		select {
		case <-heard:
		case <-time.After(time.Minute):
			return nil, errors.New("a claim has not come to the cache")
		}
	}
	return manager, nil
}

// allocated reserves on each node that the plugin lets pass, looks at what is in flight, and gives it back.
func allocated(
	ctx context.Context, handle framework.Framework, plugin fwk.ReservePlugin, state fwk.CycleState, c *cluster,
	passed map[string]status,
) allocations {
	found := allocations{}
	tracked := handle.SharedDRAManager().ResourceClaims()
	for node, verdict := range passed {
		if verdict.Code != 0 {
			continue
		}
		if reserved := plugin.Reserve(ctx, state, c.Pod, node); !reserved.IsSuccess() {
			fail(reserved.AsError())
		}
		found[node] = map[string]*resourcev1.AllocationResult{}
		for _, one := range c.ResourceClaims {
			if pending := tracked.GetPendingAllocation(one.UID); pending != nil {
				found[node][one.Name] = pending
			}
		}
		plugin.Unreserve(ctx, state, c.Pod, node)
	}
	return found
}
