// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Package kwok runs kwok: fake nodes, kept Ready, and their pods. It is linked into berth-kube where kwok compiles with
// that version of Kubernetes, and is a program of its own (cmd/kwok) beside every other.
package kwok

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// Run keeps fake nodes Ready and runs their pods. kwok reads --config before its command exists, with a flag set
// that lets everything else pass.
func Run() int {
	// cobra adds the global flags to every command; those that Kubernetes' packages have put there (--version, of a type
	// of their own) are not kwok's.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)
	early := pflag.NewFlagSet("global", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}

	ctx, logger := log.InitFlags(signals.SetupSignalContext(), early)
	ctx, err := config.InitFlags(ctx, early)
	if err != nil {
		logger.Error("reading --config", "err", err)
		return 1
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("kwok", "err", err)
		return 1
	}
	return 0
}

// PrintStages prints the configuration that `kwok --config` is given: the stages that kwok's own release ships for
// nodes and pods that become ready at once, so that they always match the linked version.
func PrintStages() int {
	stages := []string{
		nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	}
	fmt.Fprintln(os.Stdout, strings.Join(stages, "\n---\n"))
	return 0
}
