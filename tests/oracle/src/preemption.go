// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
)

// tries is how often the best candidate is asked for: ties are broken by the order of a Go map, and all are wanted.
const tries = 400

type victims struct {
	Pods       []string `json:"pods"`
	Violations int64    `json:"violations"`
}

// preemption is what DefaultPreemption says of a pod that fits nowhere: why not, or whose room it could have on which
// nodes, and among which of them it would choose.
type preemption struct {
	Message    string             `json:"message"`
	Candidates map[string]victims `json:"candidates"`
	Best       []string           `json:"best"`
}

// nominator knows pods that wait for room on a node.
type nominator struct{ pods map[string][]fwk.PodInfo }

func (n *nominator) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (n *nominator) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (n *nominator) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (n *nominator) NominatedPodsForNode(name string) []fwk.PodInfo                { return n.pods[name] }

func nominated(c *cluster) (*nominator, error) {
	found := &nominator{pods: map[string][]fwk.PodInfo{}}
	for _, pod := range c.Nominated {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return nil, err
		}
		name := pod.Status.NominatedNodeName
		found.pods[name] = append(found.pods[name], info)
	}
	return found, nil
}

// preempt goes the way of PostFilter up to the choice, for nothing may be deleted here.
func preempt(
	ctx context.Context, plugin *defaultpreemption.DefaultPreemption, handle framework.Framework, state fwk.CycleState, pod *v1.Pod,
	budgets []*policyv1.PodDisruptionBudget, said *framework.NodeToStatus,
) (*preemption, error) {
	all, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	found := &preemption{Candidates: map[string]victims{}, Best: []string{}}
	if eligible, why := plugin.PodEligibleToPreemptOthers(ctx, pod, said.Get(pod.Status.NominatedNodeName)); !eligible {
		found.Message = "preemption: " + why
		return found, nil
	}
	potential, err := said.NodesForStatusCode(handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	statuses := framework.NewDefaultNodeToStatus()
	if len(potential) > 0 {
		candidates, tried, err := plugin.Evaluator.DryRunPreemption(ctx, state, pod, potential, budgets, 0, int32(len(potential)))
		if err != nil {
			return nil, err
		}
		statuses = tried
		best := sets.New[string]()
		for range tries * min(len(candidates), 1) {
			best.Insert(plugin.Evaluator.SelectCandidate(ctx, candidates).Name())
		}
		found.Best = sets.List(best)
		for _, one := range candidates {
			listed := victims{Violations: one.Victims().NumPDBViolations}
			for _, victim := range one.Victims().Pods {
				listed.Pods = append(listed.Pods, victim.Namespace+"/"+victim.Name)
			}
			found.Candidates[one.Name()] = listed
		}
	}
	if len(found.Candidates) == 0 {
		statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
		why := &framework.FitError{Pod: pod, NumAllNodes: len(all), Diagnosis: framework.Diagnosis{NodeToStatus: statuses}}
		found.Message = "preemption: " + strings.TrimSpace(why.Error())
	}
	return found, nil
}
