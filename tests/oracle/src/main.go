// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command oracle runs the real scheduling plugins of kube-scheduler over clusters that it is given, and says what they
// say. It reads one JSON document per case from standard input and writes one per case to standard output:
//
//	in:  {"nodes": [...], "pods": [...], "pvs": [...], ... (objects.go has them all), "pod": {...},
//	      "plugins": [{"name": ..., "weight": ...}], "pluginConfig": [{"name": ..., "args": {...}}]}
//	out: {"message": "", "plugins": {"NodePorts": {...}}, "totals": {"n1": 412}}
//
// A document {"configuration": {...}} is read as kube-scheduler reads its file (configuration.go). Of one with
// "happenings" it is said which of them would wake a waiting pod (hints.go).
//
// Objects get the API server's defaults. Nothing is sent anywhere: the objects are put into the informers' stores.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// status is a plugin's answer: 0 success, 1 unschedulable, 2 unschedulable and unresolvable, 3 skip, 4 an error.
type status struct {
	Code    int      `json:"code"`
	Reasons []string `json:"reasons"`
}

// opinion is all that one plugin says by itself, of every node, whatever the others say.
type opinion struct {
	PreFilter *status           `json:"preFilter,omitempty"`
	Nodes     []string          `json:"nodes,omitempty"`
	Filter    map[string]status `json:"filter,omitempty"`
	PreScore  *status           `json:"preScore,omitempty"`
	Raw       map[string]int64  `json:"raw,omitempty"`
	Score     map[string]int64  `json:"score,omitempty"`

	Allocations allocations `json:"allocations,omitempty"`
}

type answer struct {
	Message string             `json:"message"`
	Plugins map[string]opinion `json:"plugins"`
	Totals  map[string]int64   `json:"totals"`

	Preemption *preemption `json:"preemption,omitempty"`
}

func main() {
	metrics.Register()
	// Extended resources that are backed by devices are not covered by berth.
	if err := utilfeature.DefaultMutableFeatureGate.Set("DRAExtendedResource=false"); err != nil {
		fail(err)
	}
	reader, writer := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for {
		var one cluster
		if err := reader.Decode(&one); err == io.EOF {
			return
		} else if err != nil {
			fail(err)
		}
		found, err := answerTo(&one)
		if err != nil {
			fail(err)
		}
		if err := writer.Encode(found); err != nil {
			fail(err)
		}
	}
}

func answerTo(one *cluster) (any, error) {
	switch {
	case one.Configuration != nil:
		return readConfiguration(one.Configuration), nil
	case one.Happenings != nil:
		return wake(one)
	default:
		return judge(one)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}

func judge(c *cluster) (*answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	handle, pluginsByName, err := build(ctx, c)
	if err != nil {
		return nil, err
	}
	all, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	found := &answer{Plugins: map[string]opinion{}, Totals: map[string]int64{}}
	state := framework.NewCycleState()
	diagnosis := framework.NewDefaultNodeToStatus()
	feasible := together(ctx, handle, c.Pod, all, found, state, diagnosis)
	if plugin, asked := pluginsByName[defaultpreemption.Name].(*defaultpreemption.DefaultPreemption); asked {
		if len(feasible) == 0 {
			found.Preemption, err = preempt(ctx, plugin, handle, state, c.Pod, c.Budgets, diagnosis)
		}
		return found, err
	}
	for _, one := range c.Plugins {
		said, state := alone(ctx, pluginsByName[one.Name], c.Pod, all, feasible)
		if one.Name == dynamicresources.Name {
			said.Allocations = allocated(ctx, handle, pluginsByName[one.Name].(fwk.ReservePlugin), state, c, said.Filter)
		}
		found.Plugins[one.Name] = said
	}
	return found, nil
}

// build makes the framework with exactly the listed plugins, over a snapshot of the cluster.
func build(ctx context.Context, c *cluster) (framework.Framework, map[string]fwk.Plugin, error) {
	profile, err := readProfile(c)
	if err != nil {
		return nil, nil, err
	}
	client := fake.NewClientset(c.dynamic()...)
	factory := informers.NewSharedInformerFactory(client, 0)
	known := sets.New[string]()
	for _, node := range c.Nodes {
		known.Insert(node.Name)
	}
	running := make([]*v1.Pod, 0, len(c.Pods))
	for _, pod := range c.Pods {
		// The scheduler's informer leaves out pods that have ended, and its snapshot those of nodes that are not there.
		if known.Has(pod.Spec.NodeName) && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
			running = append(running, pod)
		}
	}
	pluginsByName := map[string]fwk.Plugin{}
	registry := frameworkruntime.Registry{}
	for name, make := range plugins.NewInTreeRegistry() {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := make(ctx, args, handle)
			pluginsByName[name] = plugin
			return plugin, err
		}
	}
	waiting, err := nominated(c)
	if err != nil {
		return nil, nil, err
	}
	more := []frameworkruntime.Option{frameworkruntime.WithPodNominator(waiting)}
	if c.asksFor(dynamicresources.Name) {
		manager, err := deviceManager(ctx, factory, c)
		if err != nil {
			return nil, nil, err
		}
		more = append(more, frameworkruntime.WithSharedDRAManager(manager))
	}
	handle, err := newFramework(ctx, registry, profile, c, running, factory, client, more...)
	if err != nil {
		return nil, nil, err
	}
	return handle, pluginsByName, fill(factory, c)
}

func newFramework(
	ctx context.Context, registry frameworkruntime.Registry, profile *config.KubeSchedulerProfile, c *cluster, running []*v1.Pod,
	factory informers.SharedInformerFactory, client kubernetes.Interface, more ...frameworkruntime.Option,
) (framework.Framework, error) {
	return frameworkruntime.NewFramework(ctx, registry, profile, append(more,
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithSnapshotSharedLister(internalcache.NewSnapshot(running, c.Nodes)),
		frameworkruntime.WithMetricsRecorder(metrics.NewMetricsAsyncRecorder(1000, time.Second, ctx.Done())),
	)...)
}

func readProfile(c *cluster) (*config.KubeSchedulerProfile, error) {
	pluginConfig := c.PluginConfig
	if pluginConfig == nil {
		pluginConfig = []json.RawMessage{}
	}
	source, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
		"profiles":   []any{map[string]any{"schedulerName": "oracle", "pluginConfig": pluginConfig}},
	})
	if err != nil {
		return nil, err
	}
	read, err := runtime.Decode(scheme.Codecs.UniversalDecoder(), source)
	if err != nil {
		return nil, err
	}
	profile := read.(*config.KubeSchedulerConfiguration).Profiles[0]
	enabled := []config.Plugin{{Name: "PrioritySort"}}
	for _, one := range c.Plugins {
		enabled = append(enabled, config.Plugin{Name: one.Name, Weight: one.Weight})
	}
	profile.Plugins = &config.Plugins{MultiPoint: config.PluginSet{Enabled: append(enabled, config.Plugin{Name: "DefaultBinder"})}}
	return &profile, nil
}

// together runs the cycle as schedule_one.go does, without sampling: the feasible nodes with their totals, or the message.
func together(ctx context.Context, handle framework.Framework, pod *v1.Pod, all []fwk.NodeInfo, found *answer, state fwk.CycleState, statuses *framework.NodeToStatus) []fwk.NodeInfo {
	diagnosis := framework.Diagnosis{NodeToStatus: statuses}
	fitError := &framework.FitError{Pod: pod, NumAllNodes: len(all), Diagnosis: diagnosis}
	narrowed, rejected, by := handle.RunPreFilterPlugins(ctx, state, pod)
	if !rejected.IsSuccess() {
		statuses.SetAbsentNodesStatus(rejected)
		fitError.Diagnosis.PreFilterMsg = rejected.Message()
		found.Message = fitError.Error()
		return nil
	}
	if !narrowed.AllNodes() {
		absent := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(by))
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, absent))
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(node.Node().Name) {
			continue
		}
		if verdict := handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); verdict.IsSuccess() {
			feasible = append(feasible, node)
		} else {
			diagnosis.NodeToStatus.Set(node.Node().Name, verdict)
		}
	}
	if len(feasible) == 0 {
		found.Message = fitError.Error()
		return nil
	}
	if verdict := handle.RunPreScorePlugins(ctx, state, pod, feasible); !verdict.IsSuccess() {
		fail(verdict.AsError())
	}
	scores, verdict := handle.RunScorePlugins(ctx, state, pod, feasible)
	if !verdict.IsSuccess() {
		fail(verdict.AsError())
	}
	for _, one := range scores {
		found.Totals[one.Name] = one.TotalScore
	}
	return feasible
}

// alone asks one plugin about every node, and for its scores of the nodes that passed all plugins.
func alone(ctx context.Context, plugin fwk.Plugin, pod *v1.Pod, all, feasible []fwk.NodeInfo) (opinion, fwk.CycleState) {
	state := framework.NewCycleState()
	said := opinion{}
	if preFilter, ok := plugin.(fwk.PreFilterPlugin); ok {
		narrowed, verdict := preFilter.PreFilter(ctx, state, pod, all)
		said.PreFilter = read(verdict)
		if narrowed != nil {
			said.Nodes = sets.List(narrowed.NodeNames)
		}
		if !verdict.IsSuccess() && !verdict.IsSkip() {
			return said, state
		}
	}
	if filter, ok := plugin.(fwk.FilterPlugin); ok && (said.PreFilter == nil || said.PreFilter.Code == 0) {
		said.Filter = map[string]status{}
		for _, node := range all {
			said.Filter[node.Node().Name] = *read(filter.Filter(ctx, state, pod, node))
		}
	}
	if score, ok := plugin.(fwk.ScorePlugin); ok && len(feasible) > 0 {
		rate(ctx, score, state, pod, feasible, &said)
	}
	return said, state
}

func rate(ctx context.Context, plugin fwk.ScorePlugin, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, said *opinion) {
	if preScore, ok := plugin.(fwk.PreScorePlugin); ok {
		said.PreScore = read(preScore.PreScore(ctx, state, pod, feasible))
		if said.PreScore.Code != 0 {
			return
		}
	}
	var scores fwk.NodeScoreList
	said.Raw, said.Score = map[string]int64{}, map[string]int64{}
	for _, node := range feasible {
		value, verdict := plugin.Score(ctx, state, pod, node)
		if !verdict.IsSuccess() {
			fail(verdict.AsError())
		}
		scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: value})
		said.Raw[node.Node().Name] = value
	}
	if extensions := plugin.ScoreExtensions(); extensions != nil {
		if verdict := extensions.NormalizeScore(ctx, state, pod, scores); !verdict.IsSuccess() {
			fail(verdict.AsError())
		}
	}
	for _, one := range scores {
		said.Score[one.Name] = one.Score
	}
}

func read(found *fwk.Status) *status {
	if found == nil {
		return &status{Reasons: []string{}}
	}
	codes := map[fwk.Code]int{fwk.Success: 0, fwk.Unschedulable: 1, fwk.UnschedulableAndUnresolvable: 2, fwk.Skip: 3, fwk.Error: 4}
	code, known := codes[found.Code()]
	if !known {
		fail(found.AsError())
	}
	return &status{Code: code, Reasons: append([]string{}, found.Reasons()...)}
}
