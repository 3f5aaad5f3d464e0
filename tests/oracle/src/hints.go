// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// happening is one change of one object, and a pod that waits: refused by each plugin in turn.
type happening struct {
	Pod  *v1.Pod         `json:"pod"`
	Kind string          `json:"kind"`
	Old  json.RawMessage `json:"old"`
	New  json.RawMessage `json:"new"`
}

// waking is what kube-scheduler's plugins listen to, and of each happening: which of them, asked about it, would have
// the pod tried again (true) or not (false). Who listens to nothing of the kind is left out.
type waking struct {
	Registered map[string][]registered   `json:"registered"`
	Said       []map[string]map[int]bool `json:"said"`
}

type registered struct {
	Resource string   `json:"resource"`
	Actions  []string `json:"actions"`
	Hinted   bool     `json:"hinted"`
}

var kinds = map[fwk.EventResource]func() runtime.Object{
	fwk.Pod:                   func() runtime.Object { return &v1.Pod{} },
	fwk.Node:                  func() runtime.Object { return &v1.Node{} },
	fwk.PersistentVolume:      func() runtime.Object { return &v1.PersistentVolume{} },
	fwk.PersistentVolumeClaim: func() runtime.Object { return &v1.PersistentVolumeClaim{} },
	fwk.StorageClass:          func() runtime.Object { return &storagev1.StorageClass{} },
	fwk.CSINode:               func() runtime.Object { return &storagev1.CSINode{} },
	fwk.CSIDriver:             func() runtime.Object { return &storagev1.CSIDriver{} },
	fwk.CSIStorageCapacity:    func() runtime.Object { return &storagev1.CSIStorageCapacity{} },
	fwk.VolumeAttachment:      func() runtime.Object { return &storagev1.VolumeAttachment{} },
	fwk.ResourceClaim:         func() runtime.Object { return &resourcev1.ResourceClaim{} },
	fwk.ResourceSlice:         func() runtime.Object { return &resourcev1.ResourceSlice{} },
	fwk.DeviceClass:           func() runtime.Object { return &resourcev1.DeviceClass{} },
}

// plain is the name of a resource without its group.
func plain(resource fwk.EventResource) string {
	parts := strings.Split(string(resource), "/")
	return parts[len(parts)-1]
}

func wake(c *cluster) (*waking, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, one := range c.Happenings {
		if err := defaultPod(one.Pod); err != nil {
			return nil, err
		}
	}
	_, pluginsByName, err := build(ctx, c)
	if err != nil {
		return nil, err
	}
	found := &waking{Registered: map[string][]registered{}}
	listening := map[string][]fwk.ClusterEventWithHint{}
	for _, asked := range c.Plugins {
		plugin, able := pluginsByName[asked.Name].(fwk.EnqueueExtensions)
		if !able {
			continue
		}
		events, err := plugin.EventsToRegister(ctx)
		if err != nil {
			return nil, err
		}
		listening[asked.Name] = events
		found.Registered[asked.Name] = []registered{}
		for _, one := range events {
			listed := registered{plain(one.Event.Resource), actions(one.Event.ActionType), one.QueueingHintFn != nil}
			found.Registered[asked.Name] = append(found.Registered[asked.Name], listed)
		}
	}
	for _, one := range c.Happenings {
		said, err := ask(klog.FromContext(ctx), one, listening)
		if err != nil {
			return nil, err
		}
		found.Said = append(found.Said, said)
	}
	return found, nil
}

// ask goes through the plugins as the scheduling queue does for a pod that each of them has refused.
func ask(logger klog.Logger, one happening, listening map[string][]fwk.ClusterEventWithHint) (map[string]map[int]bool, error) {
	before, after, events, err := one.read()
	if err != nil {
		return nil, err
	}
	said := map[string]map[int]bool{}
	for name, wanted := range listening {
		for index, wish := range wanted {
			for _, event := range events {
				if !framework.MatchClusterEvents(wish.Event, event) {
					continue
				}
				hint, failed := fwk.Queue, error(nil)
				if wish.QueueingHintFn != nil {
					hint, failed = wish.QueueingHintFn(logger, one.Pod, before, after)
				}
				if said[name] == nil {
					said[name] = map[int]bool{}
				}
				said[name][index] = said[name][index] || failed != nil || hint == fwk.Queue
			}
		}
	}
	return said, nil
}

// read returns the objects, nil for one that is not there, and the events that kube-scheduler makes of them.
func (h happening) read() (before, after any, events []fwk.ClusterEvent, err error) {
	for resource, empty := range kinds {
		if plain(resource) != h.Kind {
			continue
		}
		for _, side := range []struct {
			source json.RawMessage
			into   *any
		}{{h.Old, &before}, {h.New, &after}} {
			if len(side.source) == 0 || string(side.source) == "null" {
				continue
			}
			object := empty()
			if err = json.Unmarshal(side.source, object); err != nil {
				return nil, nil, nil, err
			}
			if pod, is := object.(*v1.Pod); is {
				if err = defaultPod(pod); err != nil {
					return nil, nil, nil, err
				}
			}
			*side.into = object
		}
		return before, after, eventsOf(resource, before, after), nil
	}
	return nil, nil, nil, fmt.Errorf("no such kind: %q", h.Kind)
}

func eventsOf(resource fwk.EventResource, before, after any) []fwk.ClusterEvent {
	if before == nil {
		return []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Add}}
	}
	if after == nil {
		return []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Delete}}
	}
	switch newer := after.(type) {
	case *v1.Pod:
		return framework.PodSchedulingPropertiesChange(newer, before.(*v1.Pod))
	case *v1.Node:
		return framework.NodeSchedulingPropertiesChange(newer, before.(*v1.Node))
	}
	return []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Update}}
}

// actions takes a set of actions apart.
func actions(all fwk.ActionType) []string {
	listed := []string{}
	for bit := fwk.ActionType(1); bit <= all; bit <<= 1 {
		if all&bit != 0 {
			listed = append(listed, bit.String())
		}
	}
	return listed
}
