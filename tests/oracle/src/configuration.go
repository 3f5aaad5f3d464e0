// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// reading is what kube-scheduler makes of a configuration: an error, or the whole with all defaults, and the plugins
// of each profile's extension points in order.
type reading struct {
	Error         string                        `json:"error"`
	Configuration json.RawMessage               `json:"configuration,omitempty"`
	Profiles      []map[string][]map[string]any `json:"profiles,omitempty"`
}

func readConfiguration(source json.RawMessage) *reading {
	decoded, _, err := scheme.Codecs.UniversalDecoder().Decode(source, nil, nil)
	if err != nil {
		return &reading{Error: err.Error()}
	}
	read, known := decoded.(*config.KubeSchedulerConfiguration)
	if !known {
		return &reading{Error: "not a KubeSchedulerConfiguration"}
	}
	read.APIVersion = configv1.SchemeGroupVersion.String()
	if err := validation.ValidateKubeSchedulerConfiguration(read); err != nil {
		return &reading{Error: err.Error()}
	}
	found := &reading{}
	for index := range read.Profiles {
		points, err := expand(&read.Profiles[index])
		if err != nil {
			return &reading{Error: err.Error()}
		}
		found.Profiles = append(found.Profiles, points)
	}
	serializer, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	text, err := runtime.Encode(scheme.Codecs.EncoderForVersion(serializer.Serializer, configv1.SchemeGroupVersion), read)
	if err != nil {
		fail(err)
	}
	found.Configuration = text
	return found
}

// expand makes the framework of a profile, and returns its plugins by extension point.
func expand(profile *config.KubeSchedulerProfile) (map[string][]map[string]any, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewClientset()
	handle, err := newFramework(ctx, plugins.NewInTreeRegistry(), profile, &cluster{}, nil, informers.NewSharedInformerFactory(client, 0), client,
		frameworkruntime.WithPodNominator(nil))
	if err != nil {
		return nil, err
	}
	points := map[string][]map[string]any{}
	listed := reflect.ValueOf(handle.ListPlugins()).Elem()
	for index := range listed.NumField() {
		set, known := listed.Field(index).Interface().(config.PluginSet)
		if !known {
			continue
		}
		field := listed.Type().Field(index).Name
		for _, one := range set.Enabled {
			name := strings.ToLower(field[:1]) + field[1:]
			points[name] = append(points[name], map[string]any{"name": one.Name, "weight": one.Weight})
		}
	}
	return points, nil
}
