# Everything a developer runs. `make help` lists it. Nothing here needs a terminal, and a run's leftovers never matter to the next one.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
LINT := .venv-lint/bin
# The source tree, seen by Ansible as berth.stateful (tools/venv.py makes the link).
export ANSIBLE_COLLECTIONS_PATH := $(CURDIR)/.venv/collections
# The user's own ansible.cfg must not change what is tested.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# A daemon that compiles its sources at each start takes 0.6 s more of a processor; the tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

# `make unit ARGS=-x`: more arguments for pytest. Each target leaves its results for the closing count of `make test`.
# As the deployed scheduler has it: numpy's threads, one for each core, are started with each process and never asked for anything.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --junitxml=build/junit/$@.xml $(ARGS)
# Several files at a time, each worker with clusters of its own: tests on clusters wait more than they compute.
WORKERS ?= 2
# Real processes on a machine that does other things too: what fails is run once more, and named (docs/decisions/0020).
AGAIN = --reruns 1 --reruns-delay 5
SIDE_BY_SIDE = --numprocesses=$(WORKERS) --dist=loadfile
# In the order of the arguments, or as a conftest.py has it (FIRST), the longest first, so that all workers end together; else files with many
# tests come first.
IN_ORDER = $(SIDE_BY_SIDE) --no-loadscope-reorder

.PHONY: help
help: ## work: this list
	@awk -f tools/help.awk $(MAKEFILE_LIST)

# --- the ground ------------------------------------------------------------------------------------------------------------
.PHONY: deps venv venv-lint venv-bench venv-matrix
deps: ## work: install the missing Debian packages (as root)
	@python3 tools/debian_packages.py tools/debian-packages.txt

venv: ## work: .venv with pinned packages and this project, editable
	@python3 tools/venv.py .venv requirements-dev.txt --editable

venv-lint:
	@python3 tools/venv.py .venv-lint requirements-lint.txt

venv-bench:
	@python3 tools/venv.py .venv-bench requirements-bench.txt

venv-matrix:
	@python3 tools/venv.py .venv-matrix requirements-matrix.txt

# --- checks that need no cluster -------------------------------------------------------------------------------------------
# The files of a commit at a path that Ansible's own tools accept; each target has its own, for they run side by side.
TREE = build/tree-$@/ansible_collections/berth/stateful

.PHONY: lint lint-python lint-go lint-yaml
lint: lint-python lint-yaml lint-go ## work: style, types, layers: ruff, mypy, import-linter, yamllint, go vet

lint-python: venv
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tools/mypy-plugins.ini
	$(BIN)/lint-imports

lint-yaml: venv-lint
	$(LINT)/yamllint --strict .

lint-go: venv
	@$(BIN)/python tools/go_vet.py

.PHONY: unit explore
unit: venv venv-lint ## work: tests of the pure core, of the glue and of the tools: no cluster
	$(PYTEST) $(IN_ORDER) tests/tools tests/unit tests/badinput tests/core

explore: venv cluster ## plugin: property tests with new examples, for MINUTES (5); ONLY=path runs these: each round prints the seed that repeats it
	@$(BIN)/python tools/explore.py --minutes $(or $(MINUTES),5) $(ONLY)

# The name that ansible-test of the pinned ansible-core looks for; a real get-pip script that is there already is left alone.
GET_PIP := $(HOME)/.ansible/test/cache/get_pip_24_2.py

# ansible-lint looks into the home's collections first, where molecule leaves a copy of this one as it was then.
ALONE = ANSIBLE_HOME="$(CURDIR)/build/ansible-$@"

# pylint takes half of the work; beside it runs what takes the other. Each in a tree of its own: ansible-test keeps its results there.
# pylint starts a process for each core that it may use, each of them infers the same sources once more, and Python's collector goes over
# all syntax trees again and again and finds nothing. On one core, with a rarer collector, the same files take 15 to 30 percent less of a
# processor. ansible-test gives pylint the folder above the collection as PYTHONPATH, from which Python takes its sitecustomize.
ANSIBLE_TEST = PATH="$(CURDIR)/$(BIN):$(CURDIR)/$(LINT):$$PATH" ansible-test sanity --color no --truncate 0 \
	--python "$$($(CURDIR)/$(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')"

# The last one that this process may use.
ON_ONE_CORE = taskset --cpu-list "$$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')" env

.PHONY: sanity sanity-src sanity-pylint sanity-others get-pip
get-pip:
	@[ -s "$(GET_PIP)" ] || install -D -m 0644 tools/get_pip.py "$(GET_PIP)"

sanity: venv venv-lint get-pip ## work: ansible-test sanity (no ignore file) and ansible-lint's production profile, of all but src/
	@$(MAKE) --jobs=2 --output-sync=target sanity-pylint sanity-others

# A daemon is nothing that a plugin or a role imports: when it changes, it alone is read anew.
sanity-src: venv venv-lint get-pip ## work: ansible-test sanity of the daemons and the kubectl plugin in src/
	@python3 tools/snapshot.py build/tree-$@
	cd $(TREE) && $(ANSIBLE_TEST) src/

sanity-pylint:
	@python3 tools/snapshot.py build/tree-$@
	@echo 'import gc; gc.set_threshold(200_000, 50, 1000)' > build/tree-$@/sitecustomize.py
	cd $(TREE) && $(ON_ONE_CORE) $(ANSIBLE_TEST) --test pylint --exclude src/

sanity-others:
	@python3 tools/snapshot.py build/tree-$@
	cd $(TREE) && $(ANSIBLE_TEST) --skip-test pylint --exclude src/
	@rm -rf build/ansible-$@
	cd $(TREE) && PATH="$(CURDIR)/$(LINT):$$PATH" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/build/tree-$@" $(ALONE) \
		ansible-lint --offline --strict --nocolor --profile production

INSTALLED := build/collection/installed

.PHONY: agent
agent: venv ## install: the node agent as one file, build/berth-agent.pyz
	@$(BIN)/python tools/zipapp.py

.PHONY: collection
collection: venv venv-lint ## install: build the tarball, install it into an empty path, read its documentation from there, galaxy-importer
	@python3 tools/snapshot.py build/tree-$@
	@rm -rf build/ansible-$@ build/collection && mkdir -p build/collection
	$(BIN)/ansible-galaxy collection build $(TREE) --output-path build/collection
	ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/$(INSTALLED) $(BIN)/ansible-galaxy collection install build/collection/berth-stateful-*.tar.gz --collections-path $(INSTALLED) --offline
	@$(BIN)/python tools/installed_docs.py $(INSTALLED)
	cd build/collection && PATH="$(CURDIR)/$(LINT):$$PATH" GALAXY_IMPORTER_CONFIG=$(CURDIR)/tools/galaxy-importer.cfg $(ALONE) \
		python -m galaxy_importer.main berth-stateful-*.tar.gz 2>&1 | tee importer.log
	@! grep -E '^(WARNING|ERROR)' build/collection/importer.log

.PHONY: pages docs docs-site
pages: venv # what the pages take from the code
	$(BIN)/python tools/generated_docs.py

docs: venv venv-lint ## work: what the pages take from the code; check the plugins' documentation (docs-site renders it); the changelog
	$(BIN)/python tools/generated_docs.py
	@python3 tools/snapshot.py build/tree-$@
	cd $(TREE) && PATH="$(CURDIR)/$(LINT):$$PATH" antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=all .
	cd $(TREE) && PATH="$(CURDIR)/$(LINT):$$PATH" antsibull-changelog lint

docs-site: venv venv-lint ## operate: the documentation as a site, build/site/html: every link leads somewhere; how many examples are checked
	@python3 tools/snapshot.py build/tree-$@
	PATH="$(CURDIR)/$(LINT):$$PATH" $(LINT)/python tools/docs_site.py build/tree-$@ build/site
	@$(BIN)/python -m tests.support.pages

# --- checks on the development cluster ---------------------------------------------------------------------------------
.PHONY: images release-image vm-image
images: venv # the container images that tests give to hosts: what takes minutes once is not waited for by a test
	$(BIN)/berth-dev build --image berth --image postgresql --image scheduler
	$(BIN)/python -m tests.support.execution_environment
	$(BIN)/python -m tests.support.etcd_backup

# A stage for each set of daemons that its tests run: a change of one does not run again what runs the others.
DAEMONS := agent controller kube scheduler tasks together
# Those with a DaemonSet are here for its image, which has the controller in it.
TOGETHER := tests/integration/scheduler/test_extender.py tests/integration/test_node_agent_daemonset.py \
	tests/integration/scheduler/test_scheduler.py tests/daemons/agent/test_daemonset.py \
	tests/daemons/controller/test_app_on_hosts.py tests/daemons/controller/test_with_agent.py \
	tests/daemons/scheduler/test_strange_objects.py \
	tests/daemons/scheduler/test_monitoring.py tests/integration/test_tasks_demo.py
APISERVER_AGENT := tests/apiserver/test_agent_rbac.py tests/apiserver/test_node_agent_modules.py \
	tests/apiserver/app/test_stateful_app_handover.py
INTEGRATION_AGENT := tests/integration/test_node_agent.py tests/integration/test_node_agent_systemd.py \
	tests/integration/test_postgresql_guide.py tests/integration/test_disk_replace.py
INTEGRATION_SCHEDULER := tests/integration/scheduler/test_scheduler_service.py
MOLECULE_AGENT := disk_replace node_agent
.PHONY: cluster oracle dev apiserver daemons $(DAEMONS:%=daemons-%) integration vm chaos tasks-chaos
.PHONY: molecule molecule-agent molecule-scheduler molecule-install
cluster: venv ## work: build the development cluster's programs (cached per user; the first time takes minutes)
	$(BIN)/berth-dev build

oracle: venv ## plugin: the engine beside kube-scheduler's own code
	$(PYTEST) tests/oracle

# They wait for clusters that start, and for hosts without power.
dev: WORKERS = 3
dev: venv ## work: tests of the development cluster itself, its virtual machine left out
	$(PYTEST) $(AGAIN) $(IN_ORDER) --ignore=tests/dev/test_vm.py tests/dev

# Half of its time it waits for Kubernetes' controllers.
apiserver: WORKERS = 3
apiserver: venv venv-bench ## work: tests against the real control plane, beside kubernetes.core too
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(APISERVER_AGENT:%=--ignore=%) tests/apiserver

daemons: $(DAEMONS:%=daemons-%) ## work: tests that run the agent, the controller, the scheduler, the task backend, and of their client, on real hosts (as root)

# More than any other it waits for hosts: they boot, lose their power, hang.
daemons-agent: WORKERS = 3
daemons-agent: venv # its roles and its modules too
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(INTEGRATION_AGENT) $(TOGETHER:%=--ignore=%) tests/daemons/agent $(APISERVER_AGENT)

daemons-controller: WORKERS = 3
daemons-controller: venv
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(TOGETHER:%=--ignore=%) tests/daemons/controller

daemons-kube: venv
	$(PYTEST) $(AGAIN) $(SIDE_BY_SIDE) tests/daemons/kube

daemons-scheduler: WORKERS = 3
daemons-scheduler: venv # as a service of hosts too
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(INTEGRATION_SCHEDULER) $(TOGETHER:%=--ignore=%) tests/daemons/scheduler

daemons-tasks: WORKERS = 3
daemons-tasks: venv
	$(PYTEST) $(AGAIN) $(IN_ORDER) tests/daemons/tasks

# Pods start and go, nodes are lost, a kubelet takes up a static pod: a third of a processor for each worker.
daemons-together: WORKERS = 3
daemons-together: venv # two or more of them
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(TOGETHER)

release-image: venv ## work: the image of deploy/Containerfile, built on Debian's packages, and every manifest's pod started with it (as root)
	$(PYTEST) $(AGAIN) tests/image

vm-image: venv cluster
	$(BIN)/berth-dev vm build

vm: vm-image ## work: the virtual machine with NVMe and SCSI disks, and the agent in it (as root)
	$(PYTEST) $(AGAIN) tests/dev/test_vm.py tests/daemons/vm

chaos: venv ## work: faults under PostgreSQL on real hosts (as root), one by one, then at random; longer: MINUTES=10 SEED=7
	BERTH_CHAOS_MINUTES=$(MINUTES) BERTH_CHAOS_SEED=$(SEED) $(PYTEST) -v -s tests/daemons/chaos

tasks-chaos: venv ## work: the task backend is killed again and again while tasks run: TASKS=5000 KILLS=50 SEED=7, a quarter of an hour
	BERTH_TASKS_MANY=$(or $(TASKS),5000) BERTH_TASKS_KILLS=$(or $(KILLS),50) BERTH_TASKS_SEED=$(SEED) $(PYTEST) -v -s \
		tests/daemons/tasks/test_deaths.py::test_every_task_ends_once_whenever_the_backend_dies

# Most of its time it waits, too: for hosts, ssh and pods.
integration: WORKERS = 3
integration: venv ## work: tests of apps and disks on real hosts (as root); those that run a daemon are in daemons
	$(PYTEST) $(AGAIN) $(IN_ORDER) $(INTEGRATION_AGENT:%=--ignore=%) $(TOGETHER:%=--ignore=%) \
		--ignore=tests/integration/scheduler tests/integration

# A line of Ansible's output stays one line: what a failed stage repeats names the task. A module goes to its host by the connection that starts it,
# not as a file before: a loop over eight files took 10 s and takes 3 s. Tests without molecule have Ansible's default.
MOLECULE = COLUMNS=400 ANSIBLE_PIPELINING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(LINT)/molecule

# What a run that was killed has left.
NO_LEFTOVERS = if python3 tools/molecule_left.py; then $(MOLECULE) destroy; fi

molecule: venv venv-lint ## work: molecule: the roles without daemons, what they refuse too, on one development cluster (as root); ONLY=report runs one scenario
	@$(NO_LEFTOVERS)
	$(MOLECULE) test $(if $(ONLY),--scenario-name $(ONLY),--all $(patsubst %,--exclude %,kind kind_upgrade scheduler install $(MOLECULE_AGENT)))

molecule-agent: venv venv-lint ## work: molecule's scenarios with the agent (as root)
	@$(NO_LEFTOVERS)
	$(MOLECULE) test $(patsubst %,--scenario-name %,$(MOLECULE_AGENT))

molecule-scheduler: venv venv-lint ## work: molecule's scenario of the scheduler's role (as root)
	@$(NO_LEFTOVERS)
	$(MOLECULE) test --scenario-name scheduler

molecule-install: venv venv-lint ## work: molecule's scenario of all parts in one run, from the tarball and the example inventory (as root)
	@$(NO_LEFTOVERS)
	$(MOLECULE) test --scenario-name install

.PHONY: kind kind-clusters kind-everything kind-upgrade kind-image
kind-image: venv ## work: Docker, and the node image of kind (as root; minutes once, cached per user)
	@python3 tools/debian_packages.py tools/debian-packages-kind.txt
	$(BIN)/berth-dev kind image

kind: kind-clusters kind-everything kind-upgrade ## work: tests/kind, molecule's kind and kind_upgrade on it (as root), all of it away again

kind-clusters: venv kind-image # the clusters themselves
	$(PYTEST) $(AGAIN) tests/kind

kind-everything: venv venv-lint kind-image
	$(MOLECULE) test --scenario-name kind

kind-upgrade: venv venv-lint kind-image
	$(MOLECULE) test --scenario-name kind_upgrade

.PHONY: matrix
matrix: venv-matrix ## work: every supported ansible-core with the Pythons of its controller, and the oldest packages; ONLY='unit(2.16, 3.10)'
	.venv-matrix/bin/nox $(if $(ONLY),-s '$(ONLY)')

# --- everything --------------------------------------------------------------------------------------------------------
.PHONY: check test bench demo demo-play demo-down
STAGES = python3 tools/stages.py $(if $(KEEP_GOING),--keep-going) $(if $(FULL),--full) $(if $(WITHOUT_ROOT),--without-root)

check: ## work: what to run for every change, without a cluster: style, types, layers, unit tests, generated pages
	@$(STAGES) --set check

test: ## work: all checks and tests, less what was green on the same files; FULL=1 runs that too; KEEP_GOING=1 goes on after a failure; WITHOUT_ROOT=1 leaves out what needs root
	@$(STAGES) --set test

bench: venv venv-bench cluster ## plugin: figures beside the peer's from the same run; ONLY=name runs one
	$(BIN)/python -m tests.bench $(if $(ONLY),ONLY=$(ONLY))

demo: ## try: from nothing to a three-replica app on real disks: environment, cluster, playbooks/quickstart.yml
	@$(STAGES) deps venv cluster demo-play

# What a user runs, with the environment's own Ansible.
demo-play: venv
	ANSIBLE_CALLBACK_PLUGINS=tools/callback_plugins ANSIBLE_CALLBACKS_ENABLED=play_times \
		$(BIN)/ansible-playbook playbooks/quickstart.yml

demo-down: venv ## try: remove the demo's cluster and everything that it put on the machine
	$(BIN)/ansible-playbook playbooks/quickstart_down.yml

.PHONY: demo-kind demo-kind-play demo-kind-down
demo-kind: ## try: from nothing to a kind cluster of real and fake nodes (as root): agents, scheduler, an app on real disks, the page
	@python3 tools/debian_packages.py tools/debian-packages-kind.txt
	@$(STAGES) deps venv cluster demo-kind-play

demo-kind-play: venv
	ANSIBLE_CALLBACK_PLUGINS=tools/callback_plugins ANSIBLE_CALLBACKS_ENABLED=play_times \
		$(BIN)/ansible-playbook playbooks/kind_demo.yml

demo-kind-down: venv ## try: remove that cluster and everything that it put on the machine
	$(BIN)/ansible-playbook playbooks/kind_demo_down.yml

.PHONY: clean
clean: ## work: remove what make made (not the clusters: make demo-down, demo-kind-down)
	rm -rf build .venv .venv-lint .venv-bench .venv-matrix .ansible .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
