// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	kubestoragev1 "k8s.io/kubernetes/pkg/apis/storage/v1"
	registrypod "k8s.io/kubernetes/pkg/registry/core/pod"
)

// plugin is one that the case asks for, in the order of the profile.
type plugin struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
}

// cluster is one case.
type cluster struct {
	Nodes                  []*v1.Node                      `json:"nodes"`
	Pods                   []*v1.Pod                       `json:"pods"`
	Namespaces             []*v1.Namespace                 `json:"namespaces"`
	Volumes                []*v1.PersistentVolume          `json:"pvs"`
	Claims                 []*v1.PersistentVolumeClaim     `json:"pvcs"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers"`
	Capacities             []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	Attachments            []*storagev1.VolumeAttachment   `json:"volumeAttachments"`
	Services               []*v1.Service                   `json:"services"`
	ReplicationControllers []*v1.ReplicationController     `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets"`
	Budgets                []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`
	ResourceSlices         []*resourcev1.ResourceSlice     `json:"resourceSlices"`
	DeviceClasses          []*resourcev1.DeviceClass       `json:"deviceClasses"`
	ResourceClaims         []*resourcev1.ResourceClaim     `json:"resourceClaims"`
	Nominated              []*v1.Pod                       `json:"nominated"`
	Pod                    *v1.Pod                         `json:"pod"`
	Plugins                []plugin                        `json:"plugins"`
	PluginConfig           []json.RawMessage               `json:"pluginConfig"`
	Configuration          json.RawMessage                 `json:"configuration"`
	Happenings             []happening                     `json:"happenings"`
}

// setDefaults does to the objects what the API server does before it stores them.
func (c *cluster) setDefaults() error {
	for _, one := range append(append(append([]*v1.Pod{}, c.Pods...), c.Nominated...), c.Pod) {
		if err := defaultPod(one); err != nil {
			return err
		}
	}
	for _, one := range c.Volumes {
		corev1.SetObjectDefaults_PersistentVolume(one)
	}
	for _, one := range c.Claims {
		corev1.SetObjectDefaults_PersistentVolumeClaim(one)
	}
	for _, one := range c.StorageClasses {
		kubestoragev1.SetObjectDefaults_StorageClass(one)
	}
	return nil
}

func defaultPod(pod *v1.Pod) error {
	corev1.SetObjectDefaults_Pod(pod)
	return mergeLabelKeys(pod)
}

// mergeLabelKeys lets the API server's own code write matchLabelKeys and mismatchLabelKeys into the affinity's selectors.
func mergeLabelKeys(pod *v1.Pod) error {
	if pod.Spec.Affinity == nil {
		return nil
	}
	var stored core.Pod
	if err := corev1.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), &stored, nil); err != nil {
		return err
	}
	registrypod.Strategy.PrepareForCreate(context.Background(), &stored)
	var read v1.Pod
	if err := corev1.Convert_core_Pod_To_v1_Pod(&stored, &read, nil); err != nil {
		return err
	}
	pod.Spec.Affinity = read.Spec.Affinity
	return nil
}

func put[T any](store cache.SharedIndexInformer, objects []T) error {
	for _, one := range objects {
		if err := store.GetIndexer().Add(one); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the objects into the informers' stores.
func fill(factory informers.SharedInformerFactory, c *cluster) error {
	core, storage, apps := factory.Core().V1(), factory.Storage().V1(), factory.Apps().V1()
	for _, err := range []error{
		put(core.Namespaces().Informer(), c.Namespaces),
		put(core.PersistentVolumes().Informer(), c.Volumes),
		put(core.PersistentVolumeClaims().Informer(), c.Claims),
		put(core.Services().Informer(), c.Services),
		put(core.ReplicationControllers().Informer(), c.ReplicationControllers),
		put(apps.ReplicaSets().Informer(), c.ReplicaSets),
		put(apps.StatefulSets().Informer(), c.StatefulSets),
		put(storage.StorageClasses().Informer(), c.StorageClasses),
		put(storage.CSINodes().Informer(), c.CSINodes),
		put(storage.CSIDrivers().Informer(), c.CSIDrivers),
		put(storage.CSIStorageCapacities().Informer(), c.Capacities),
		put(storage.VolumeAttachments().Informer(), c.Attachments),
		put(factory.Policy().V1().PodDisruptionBudgets().Informer(), c.Budgets),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
