// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// berth-runc is Docker's runtime on a machine without CAP_SYS_RESOURCE: it takes out of what runc is asked for what
// needs that capability (the capability itself, resource limits, an oom_score_adj below zero), then becomes runc.
//
// A runtime is called with options, a command and its options (runc(8)). Two files are changed, both made by containerd
// for this one call: config.json of the bundle, and the process file of an exec.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const capability = "CAP_SYS_RESOURCE"

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "berth-runc:", err)
		os.Exit(1)
	}
}

// run changes what is asked for, and becomes runc.
func run(args []string) error {
	switch command, bundle, process := parse(args[1:]); {
	case command == "create" || command == "run":
		err := change(filepath.Join(bundle, "config.json"), func(spec map[string]any) {
			if inner, ok := spec["process"].(map[string]any); ok {
				soften(inner)
			}
		})
		if err != nil {
			return err
		}
	case command == "exec" && process != "":
		if err := change(process, soften); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{runc}, args[1:]...), os.Environ())
}

// parse finds the command, the bundle's folder and an exec's process file.
func parse(args []string) (command, bundle, process string) {
	bundle = "."
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case command == "" && slices.Contains([]string{"create", "run", "exec"}, arg):
			command = arg
		case name == "--bundle" || name == "-b":
			bundle = value
		case name == "--process" || name == "-p":
			process = value
		}
	}
	return command, bundle, process
}

// soften takes out of a process what needs the capability.
func soften(process map[string]any) {
	if sets, ok := process["capabilities"].(map[string]any); ok {
		for name, set := range sets {
			if list, ok := set.([]any); ok {
				sets[name] = slices.DeleteFunc(list, func(each any) bool { return each == capability })
			}
		}
	}
	delete(process, "rlimits")
	if score, ok := process["oomScoreAdj"].(json.Number); ok && strings.HasPrefix(score.String(), "-") {
		process["oomScoreAdj"] = 0
	}
}

// change reads a file of JSON, changes the object and writes it; numbers stay as they were written.
func change(path string, how func(map[string]any)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	how(object)
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
