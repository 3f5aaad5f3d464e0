#!/usr/bin/python
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: stateful_app
short_description: Run a stateful application on local disks and devices
version_added: 0.1.0
author:
  - The berth authors (@berth-dev)
description:
  - Gives every replica a berth (a node, its disks, its devices), locks it, ties volumes and claims to it, and
    creates the workload on it.
  - Everything is tried on the API server (C(dryRun)) and chosen before anything is written. What the API server,
    the admission of the namespace or its ResourceQuotas refuse fails the task, and nothing is written. The pod as
    admission returns it is what is scheduled and recorded, with the defaults of LimitRanges for example.
  - To try the pods of a StatefulSet takes the right to create pods. Without it, the module warns, and adds the
    defaults of LimitRanges itself. ResourceQuotas that may not be listed are warned of.
  - Run again, it changes nothing; interrupted anywhere, the next run continues.
  - A replica that has a berth goes back to it without being scheduled. Scaling down and removal keep the data, and
    the same
    ordinal takes its disks again when it returns. Nothing is ever wiped.
  - With several runs at once every disk is given out once; a run that finds nothing left fails with the list of who
    holds what.
  - Who is no cluster-admin needs the ClusterRoles C(berth-app-operator), in the namespace, and C(berth-disk-user), in
    the cluster. The module M(berth.stateful.crds) installs both.
options:
  name:
    description: The application's name; its pods are called C(NAME-ORDINAL).
    type: str
    required: true
  namespace:
    description: The namespace, which must exist.
    type: str
    default: default
  state:
    description:
      - With V(absent) the pods are stopped, claims and volumes deleted, and the disks released with their data.
      - Its Services and ConfigMaps go too; all those in the namespace that carry the labels C(berth.dev/app) with the
        application's name and C(app.kubernetes.io/managed-by) with C(berth). The manifest is not needed for it.
    type: str
    choices: [present, absent]
    default: present
  replicas:
    description: How many replicas there are, ordinals 0 to C(replicas - 1). By default as many as the StatefulSet of
      O(template) or O(src) says, or 1. Two that contradict each other are refused.
    type: int
  workload:
    description:
      - V(StatefulSet) over claims made beforehand, or bare pods (V(Pod)), each tied to its node.
      - A StatefulSet needs at least one disk for each replica, because its disks are what brings a pod to its node.
    type: str
    choices: [StatefulSet, Pod]
    default: StatefulSet
  template:
    description:
      - The pod template, a mapping with C(metadata) (labels and annotations are used) and C(spec).
      - A Pod stands for the template that it has. So does a StatefulSet, and what else it says is taken or refused by
        name. C(minReadySeconds), C(revisionHistoryLimit), C(serviceName), labels and annotations are taken,
        C(replicas) and C(podManagementPolicy) as the options of those names, C(updateStrategy) as O(update_strategy)
        says, C(volumeClaimTemplates) as O(disks). C(selector) must select the pods of the template, C(ordinals) must
        start at 0, and C(persistentVolumeClaimRetentionPolicy) must be V(Retain).
      - A List may hold one StatefulSet together with Services and ConfigMaps. These are applied too, and carry the
        application's labels. The Service that C(serviceName) names takes the place of O(service). One that leaves
        the List stays until O(state=absent). A ConfigMap that changed makes no pod anew without O(update_on). An
        object of another kind is refused.
    type: dict
  src:
    description: YAML file with what O(template) takes; several documents are a List. Looked for in C(files/),
      decrypted by vault.
    type: path
  service:
    description: The Service of the application. A StatefulSet always has one, headless and named like the
      application by default.
    type: dict
    suboptions:
      name:
        description: Its name, by default the application's.
        type: str
      cluster_ip:
        description: V(None) for a headless service, V(auto) for an address of its own, or an address.
        type: str
        default: "None"
      publish_not_ready_addresses:
        description: Whether pods that are not Ready are in the DNS too.
        type: bool
        default: false
      ports:
        description: The ports.
        type: list
        elements: dict
        suboptions:
          name:
            description: The port's name.
            type: str
          port:
            description: The port's number.
            type: int
            required: true
          target_port:
            description: The container's port, a number or a name.
            type: str
          protocol:
            description: The protocol.
            type: str
            choices: [TCP, UDP, SCTP]
            default: TCP
  disks:
    description:
      - The local disks of every replica. All claims of a replica are decided together; the smallest disk that fits is
        taken.
      - The C(volumeClaimTemplates) of a StatefulSet in O(template) or O(src) are disks too. An entry of the same name
        says more of one (a selector, a filesystem), and does not contradict it.
    type: list
    elements: dict
    suboptions:
      name:
        description: The volume's name, which a container of the template mounts (C(volumeMounts), or
          C(volumeDevices) with mode Block).
        type: str
        required: true
      size:
        description: The least size, as a quantity.
        type: str
        required: true
      storage_class:
        description: The StorageClass of the disk; any class by default.
        type: str
      volume_mode:
        description: A filesystem, or the raw device.
        type: str
        choices: [Filesystem, Block]
        default: Filesystem
      fs_type:
        description: The filesystem that the disk must be declared with; any by default.
        type: str
        choices: [ext4, xfs]
      selector:
        description: A label selector (C(matchLabels), C(matchExpressions)) over LocalDisks.
        type: dict
      disk_names:
        description: Pins the choice to these LocalDisks, at least one for each replica.
        type: list
        elements: str
  devices:
    description:
      - The devices of every replica.
      - A device that a container of the template names in C(resources.claims) is handed to it by the agent of the node
        (dynamic resource allocation); others are locked only.
    type: list
    elements: dict
    suboptions:
      name:
        description: The claim's name.
        type: str
        required: true
      device_class:
        description: The class of the LocalDevices.
        type: str
        required: true
      count:
        description: How many whole devices; 1 by default. Excludes O(devices[].share).
        type: int
      share:
        description: Thousandths of one device.
        type: int
  topology_spread_constraints:
    description:
      - As in a pod's C(spec.topologySpreadConstraints). Berths without a pod count like pods.
      - Without one, and without anti-affinity in the template, several replicas may get disks of one node.
    type: list
    elements: dict
  pod_management_policy:
    description: Whether a StatefulSet starts its pods one after the other. By default as the StatefulSet of
      O(template) or O(src) says, or V(OrderedReady).
    type: str
    choices: [OrderedReady, Parallel]
  update_strategy:
    description:
      - How a changed template reaches the pods that are there. Each replica keeps its berth; the next one is begun when
        there are no more than O(max_unavailable) replicas that are not Ready.
      - V(in_place_if_possible), the default, patches the running pod where only images, labels, annotations, cpu and
        memory change (cpu and memory by C(resize)), and makes it anew on its node otherwise, or where the node cannot
        resize it.
      - V(in_place_only) fails before anything is written where a pod would have to be made anew.
      - V(same_node) makes every pod anew on its node.
      - V(reschedule) gives each replica another berth, as with O(leave_nodes), chosen among all nodes, its own among
        them. Data does not come along; a replica that has some is refused before anything is written, unless
        O(leave_data) names it together with its node. Bare pods without disks move freely. C(moved) in the result says
        where from, where to, and which fields of the template are the reason. O(update_hooks) cannot go with it.
      - The StatefulSet gets C(updateStrategy) V(OnDelete), so that its controller does not do the same. A run waits for
        each replica, O(wait_timeout) seconds for each step, and fails where one does not become Ready, so that the
        others keep what they have. One that was cut off is continued by the next, and the former template given again
        takes everything back.
      - Where the StatefulSet in O(template) or O(src) has C(updateStrategy) V(RollingUpdate), its C(partition) is
        O(partition), and its C(maxUnavailable) is O(max_unavailable); an option that says another value is refused.
        V(OnDelete) is refused, unless this option says how the pods are updated, or O(paused=true) that none is.
    type: str
    choices: [in_place_if_possible, in_place_only, same_node, reschedule]
    version_added: 0.2.0
  partition:
    description:
      - Replicas with a lower ordinal keep their pods as they are, for a trial on the others;
        0 by default.
      - A pod below it that goes by itself comes back with the new template.
    type: int
    version_added: 0.2.0
  max_unavailable:
    description: How many replicas may be not Ready at once for an update, a number (V(1) by default) or a percentage of
      O(replicas), rounded down, at least 1.
    type: str
    version_added: 0.2.0
  min_ready_seconds:
    description:
      - For how many seconds a replica has to be Ready before it counts as Ready and the next one is begun in an update;
        0 by default. A wait has these seconds beside O(wait_timeout).
      - The C(minReadySeconds) of a StatefulSet in O(template) or O(src) means the same, and the StatefulSet gets it.
    type: int
    version_added: 0.2.0
  update_order:
    description:
      - Which replica comes first in an update. V(reverse), the default, begins with the highest ordinal.
      - V(primary_last) does too, but begins with the pods that have O(update_primary_label) when all others have the
        new template and are Ready. It is asked again before each step, so a primary that moves in between is found.
        A pod that is not Ready is no primary that could be lost, and is not held back.
    type: str
    choices: [reverse, primary_last]
    version_added: 0.2.0
  update_primary_label:
    description: The label of the primary's pod, C(KEY=VALUE), as whoever elects it writes it. For O(update_order)
      V(primary_last), which needs it.
    type: str
    version_added: 0.2.0
  update_primary_command:
    description:
      - In the place of O(update_primary_label), a command and its arguments that ends with exit code 0 in the pod of
        the primary. It runs in the first container of each pod that is Ready, before a replica is begun, and has 60
        seconds. Any other exit code says that the pod is none.
      - Where it cannot be run (exit codes 126 and 127 count, too), or does not end in time, no further replica is begun
        and the run fails. Who runs the task needs the rights that O(update_hooks) takes.
      - With O(driver=playbook) and updates alone. Replicas that leave a node go by the label.
    type: list
    elements: str
    version_added: 0.2.0
  update_overrides:
    description: Single replicas that come to a changed template in another way than O(update_strategy) says, or not at
      all. An ordinal that the application does not have is refused.
    type: list
    elements: dict
    version_added: 0.2.0
    suboptions:
      ordinal:
        description: The replica.
        type: int
        required: true
      strategy:
        description: As O(update_strategy). For another place there is O(replace).
        type: str
        choices: [in_place_if_possible, in_place_only, same_node]
      hold:
        description: With V(true), the replica keeps its pod, as one below O(partition) does; RV(outdated) says it. A
          pod that goes by itself comes back with the new template.
        type: bool
        default: false
  update_on:
    description:
      - Whether the content of the ConfigMaps, or of the Secrets, that the template names (C(env), C(envFrom), volumes,
        projected volumes) counts as a revision. A changed content has every pod made anew on its node, in the same
        order and within the same limits as any other template; none counts by default.
      - A hash of each content is kept in an annotation of the template, never the content. When the option is given for
        the first time, every pod is made anew, because nobody knows what it has read.
      - One that is missing is refused by name, where the template does not say C(optional). Secrets take the right to
        get them, which the ClusterRole C(berth-app-operator) does not give.
    type: list
    elements: str
    choices: [config_maps, secrets]
    version_added: 0.2.0
  paused:
    description:
      - With V(true), replicas that are in the middle of an update get to its end, and no other is begun. RV(outdated)
        says which are left.
      - V(false) resumes, once for each run that says it, an update that O(pause_on_failure) has paused. Leave the
        option out otherwise.
    type: bool
    version_added: 0.2.0
  pause_on_failure:
    description:
      - Whether the update pauses when it has failed for a replica. Its image cannot be pulled, a container cannot be
        started or crashes again and again, or it is not Ready within O(progress_deadline_seconds) or, in a run,
        O(wait_timeout).
      - While it is paused no other replica is begun, by no later run and not by berth-controller, also when the failed
        replica is Ready after all or O(max_unavailable) would allow it. A run fails at once and says why;
        RV(update_paused) has it. Everything else that a task asks for is carried out.
      - Another template, O(rollback_to) included, goes its way. The same one goes on with O(paused=false).
      - With V(false), a run ends at a failure as well, and the next run goes on as soon as it may.
      - The failure is kept in the Berth of the replica, in the annotation C(berth.dev/update-failed).
        O(update_strategy=reschedule) has no such pause.
    type: bool
    default: false
    version_added: 0.2.0
  progress_deadline_seconds:
    description: With O(pause_on_failure), for how many seconds a replica with the new template may be not Ready, or not
      resized yet by its node (V(Deferred)), before its update has failed; 600 by default. A run that waits no longer
      (O(wait_timeout)) counts likewise.
    type: int
    version_added: 0.2.0
  update_hooks:
    description:
      - Commands that an update runs in the pod of each replica. Who runs the task needs the verbs C(get) and C(create)
        on C(pods/exec) in the namespace, which no role of the collection has. They are asked for before anything is
        written.
      - A command that fails, cannot be run, or does not end in time stops the update before its next step. The next run
        goes on and runs that command again, so a hook has to be idempotent. RV(hooks) says what was run.
      - They belong to updates alone, with O(driver=playbook). A pod that goes by itself has none, nor has one that is
        suspended, scaled away or moved.
    type: dict
    version_added: 0.2.0
    suboptions:
      before:
        description:
          - A command and its arguments, run in the pod before the update touches it, to drain it or to hand over.
          - A pod that is not Ready has none, which RV(hooks) says.
        type: list
        elements: str
      after:
        description: A command and its arguments, run when the replica has the new template, has been Ready for
          O(min_ready_seconds), and before the next replica is begun. Until it has succeeded the Berth of the replica
          has the annotation C(berth.dev/after-hook), which a later run with this hook takes up.
        type: list
        elements: str
      container:
        description: The container in which they run; by default the first of the pod.
        type: str
      timeout:
        description: Seconds that each has. Nothing ends a command in its container that takes longer.
        type: int
        default: 60
  pre_pull:
    description:
      - Whether the node of a replica pulls the new images before the update touches its pod; V(true) by default. The
        replica is Ready with its old images as long as that takes.
      - A pod of its own does it for each replica, on its node, C(NAME-ORDINAL-pull-HASH). It starts nothing of the
        image, asks for no cpu and memory, mounts nothing, and no scheduler is asked for it. It is gone when the replica
        has been updated.
      - An image that cannot be pulled stops the update, and that replica is as it was. The kubelet has half a minute
        for several tries; a name that is none, and an image that is missing with C(imagePullPolicy) V(Never), fail at
        once.
      - A replica that is not Ready is updated at once. Where the pod is refused, by a quota or by admission for
        example, the update goes on without it, and a warning says so.
      - RV(updated) says which images are pulled, in check mode too. O(update_strategy=reschedule) pulls nothing
        beforehand.
    type: bool
    version_added: 0.2.0
  update_hold:
    description:
      - Whether the cpu and memory of a replica are held on its node from before an update deletes its pod until the new
        pod gets them. berth's scheduler holds them anyway, by the Berth. A kube-scheduler does not, with the extender
        neither. It may give them to another pod, and the replica, whose disks are on that node, waits.
      - A pod that is pending for ever does it, C(NAME-ORDINAL-hold-HASH). kube-scheduler counts it on the node for
        which it is nominated, against all pods of its priority or below. Schedulers that look at no nominations hold
        nothing.
      - It takes the PriorityClass C(berth-hold), which M(berth.stateful.crds) makes, and the right to patch
        C(pods/status) in the namespace (ClusterRole C(berth-update-hold)). Without the class, an update is refused
        before anything is touched. Where such a pod is refused, or the replica's priority is above that of the class,
        the update goes on without it, and a warning says so.
      - RV(updated) says who holds each room, in check mode too. Pods that are updated in place keep their room, and
        O(update_strategy=reschedule) holds none.
    type: bool
    default: false
    version_added: 0.2.0
  disruption_budgets:
    description:
      - What an update does while a PodDisruptionBudget that covers a replica's pod allows no disruption.
      - V(respect), the default, leaves that pod alone, and waits. Pods are ended through the Eviction API, which asks
        the budget in the same step; in place, nothing is written before every such budget allows a disruption. A pod
        that has been taken down is brought to its end.
      - A pod that is not Ready is updated in place at once. Whether it may be evicted says
        C(unhealthyPodEvictionPolicy) of its budget.
      - A budget that never allows a disruption, as C(minAvailable) 1 of one replica, is refused before anything is
        touched, and so are several budgets for a pod that is made anew.
      - V(ignore) updates as if there were no budgets. Replicas that leave their place (O(leave_nodes), O(replace),
        O(update_strategy=reschedule)) go by the same option.
    type: str
    choices: [respect, ignore]
    version_added: 0.2.0
  suspended:
    description:
      - Stops all pods and keeps everything that the replicas have. Berths, disks and devices, and the cpu and memory of
        their nodes are given to nobody else. The run waits until the pods have gone.
      - With V(false), each replica comes back to its berth. Nothing is scheduled.
    type: bool
    default: false
    version_added: 0.2.0
  rollback_to:
    description:
      - Takes the pod template of a former revision in the place of that in O(template) or O(src), a number or name as
        M(berth.stateful.stateful_app_info) lists it, or V(previous). Everything else is as the other options say, and
        the pods come to it as they come to any other template.
      - A StatefulSet gives the revision a new number then. The same request given again finds it nevertheless, and
        changes nothing. Without this option the next run goes on to O(template) or O(src) again.
      - With O(driver=controller) it is C(spec.rollbackTo) of the StatefulApp, which stays there until a run without it.
      - Bare pods have no former revisions. An unknown one is refused, with those that are known.
    type: str
    version_added: 0.2.0
  restarted_at:
    description:
      - Restarts every replica, one after the other as for any other template. Any text that was not there before, such
        as the time; it becomes the annotation C(kubectl.kubernetes.io/restartedAt) of the template, so that the same
        text given again restarts nothing. Each pod is made anew on its node.
      - Left out, the template keeps the text that is there.
    type: str
    version_added: 0.2.0
  driver:
    description:
      - Who carries the application out. With V(playbook) this task does, as it runs. It writes a StatefulApp with
        C(spec.driver) C(playbook) that says what the options say, before its first change, and its status when it
        ends. The task is C(changed) where it makes the StatefulApp, or changes its spec. What others have written into
        the spec is replaced. Where the kind is not installed, or the account may not write it, a warning says so.
      - With V(controller) the task applies a StatefulApp, and berth-controller carries it out, also when no playbook
        runs. With O(wait) the task waits until the StatefulApp is C(Ready), and fails with the message of its
        condition. With O(state=absent) it deletes the StatefulApp, and waits until its berths are given up.
      - The controller needs the ClusterRole C(berth-app-operator) in the namespace. An application of a playbook is
        taken over as it is, no pod is made anew.
      - While a StatefulApp has the driver C(controller), a task with V(playbook) is refused. To hand the application
        back, set C(spec.driver) of the StatefulApp to C(playbook).
      - Without O(replicas), and without C(replicas) in a StatefulSet of O(template) or O(src), the number of replicas
        is left to whoever scales the StatefulApp (C(kubectl scale), a HorizontalPodAutoscaler).
    type: str
    choices: [playbook, controller]
    default: playbook
  on_node_loss:
    description:
      - What becomes of a replica whose pod is not Ready and whose node is lost; that is NotReady, has the taint
        C(node.kubernetes.io/out-of-service), was deleted, or is not among O(inventory_nodes).
      - V(keep) waits, because the data comes back with the node. A warning and RV(lost) say which replica waits for
        which node, since when, and what can be done.
      - V(release) gives the data of O(release_ordinals) up. These replicas get other berths, and begin empty.
      - V(rebuild) gives every such replica another berth, on which the application rebuilds from its other replicas;
        only while more than half of the replicas are Ready, or O(quorum) of them where that is given.
      - Neither is done before it is proven that nothing of the replica runs on the node any more. The taint proves it,
        or O(confirm_fenced). A kubelet that cannot be reached proves nothing, and neither does a Node that is deleted,
        for its machine may have lost its connection alone; the task fails then, and nothing is changed.
      - The disks of the lost node are cordoned and keep the data in the replica's name (C(retainedFor)). Nobody gets
        them by themselves, not even this replica when the node is back.
      - Disks are cordoned by who holds them. The cordon is taken off by who may create LocalDisks.
    type: str
    choices: [keep, release, rebuild]
    default: keep
    version_added: 0.2.0
  release_ordinals:
    description: With O(on_node_loss=release), the ordinals whose data may be given up. Others wait.
    type: list
    elements: int
    version_added: 0.2.0
  confirm_fenced:
    description: Nodes of which a person says that they run nothing any more, because their power is off for example.
    type: list
    elements: str
    version_added: 0.2.0
  inventory_nodes:
    description:
      - The nodes that the inventory has hosts for. A node that is not among them is lost, too, as far as its replicas'
        pods are not Ready; nobody will bring it back.
      - Nothing is given up by that alone; O(on_node_loss) says what becomes of its replicas, and it takes the same
        proof.
    type: list
    elements: str
    version_added: 0.2.0
  leave_nodes:
    description:
      - Nodes that replicas leave. Each replica with a berth there gets another one on another node, one after the
        other. The order and O(max_unavailable), O(min_ready_seconds) and O(update_order) are those of an update, and no
        PodDisruptionBudget may forbid it. No new berth is made on these nodes.
      - The old pod has ended before anything of its berth is given up. The old disks are cordoned and keep the data in
        the replica's name (C(retainedFor)), and the replica begins empty where it goes.
      - Refused before anything is touched where a replica may have data there and is not in O(leave_data), where no
        other node fits, where the cluster has no such Node, and where the node is lost (see O(on_node_loss)).
      - The run waits until each replica is Ready. One that was cut off is continued by the same task run again. A
        second run changes nothing.
      - Filesystems on the new disks are made by agents; without them, use disks of volume mode Block.
      - Disks are cordoned by who holds them. The cordon is taken off by who may create LocalDisks.
    type: list
    elements: str
    version_added: 0.2.0
  leave_data:
    description:
      - The replicas whose data on O(leave_nodes) may be given up, by name (C(db-2)) or ordinal. Nothing else is given
        up.
      - With O(update_strategy=reschedule) and O(replace) a replica is named together with its node
        (C(db-2@worker-2)). Where it has come to another one, the same words give up nothing any more.
    type: list
    elements: str
    version_added: 0.2.0
  replace:
    description:
      - Replicas that get another berth because their place is bad although its node lives, each with the node of the
        berth that goes (C(db-1@worker-2), or C(1@worker-2)). The node may be left to O(leave_data), if that names it.
      - Node, disks and devices are chosen again among all, its own node among them, its old disks not. To keep it off
        that node, cordon the Node first, or use O(leave_nodes).
      - It leaves by the rules of O(leave_nodes). The others are Ready before it goes, no PodDisruptionBudget forbids
        it, and the run waits until it is Ready again. A replica that may have data is refused where O(leave_data) does
        not name it with that node. The old disks are cordoned and keep the data.
      - A request is carried out once, so the same task run again moves nobody. It has nothing to do where the replica
        is on another node, nor where its Berth says that it was chosen because of that request (annotation
        C(berth.dev/replaced)). A new Berth takes the annotation over from the one before.
    type: list
    elements: str
    version_added: 0.2.0
  quorum:
    description:
      - How many replicas stay Ready while others are taken down for a while. An update, O(replace), O(leave_nodes),
        O(update_strategy=reschedule) and M(berth.stateful.host_maintenance) wait, or refuse, where fewer would be left.
        Fewer O(replicas) and M(berth.stateful.disk_replace) are refused where a replica that is Ready would go, and
        fewer than that of those that stay are Ready; give a smaller number, or none, where so few may be left.
        With O(on_node_loss=rebuild) so many have to be Ready, in the place of more than half.
      - It is recorded in the Berths, so it counts for whoever takes a replica down. A number above O(replicas), and one
        that leaves less than O(max_unavailable) beside it, is refused before anything is touched.
      - O(suspended) stops all replicas all the same.
    type: int
    version_added: 0.2.0
  mount_root:
    description: The directory of the hosts below which the filesystems of locked disks are mounted (see the role
      P(berth.stateful.local_disks#role)).
    type: path
    default: /var/lib/berth/disks
  until:
    description:
      - How far the berths are brought. V(Bound) stops before the workload is created, so that filesystems can be
        made in between.
    type: str
    choices: [Reserved, Bound, Created]
    default: Created
  wait:
    description:
      - Wait until every pod is Ready, and record it.
      - Of O(workload=Pod) a pod that has ended again is waited for until it may be made anew (RV(backoff)). Where that
        takes longer than O(wait_timeout), the task fails at once.
    type: bool
    default: false
  wait_timeout:
    description: Seconds for one wait (for Ready pods, for pods and claims that go, for ended pods to be made anew).
    type: int
    default: 120
  explain:
    description: Return the verdict of every node and disk and all scores on success too.
    type: bool
    default: false
attributes:
  check_mode:
    description: Can run in check mode; the same code tries and chooses, and nothing is written.
    support: full
  diff_mode:
    description: Shows the node, disks and devices of each berth and the change of each object.
    support: full
  async:
    description: Runs as an ordinary module then.
    support: full
extends_documentation_fragment:
  - berth.stateful.auth
seealso:
  - module: berth.stateful.stateful_app_info
  - module: berth.stateful.resource_list_info
  - name: Selectors
    description: How disks, devices and nodes are picked, in one table.
    link: https://github.com/berth-dev/berth.stateful/tree/main/docs/guides/selectors.md
"""

EXAMPLES = r"""
- name: Three replicas, each on a node and a disk of its own
  berth.stateful.stateful_app:
    name: db
    namespace: default
    replicas: 3
    disks:
      - name: data
        size: 200Mi
        storage_class: berth-local
    topology_spread_constraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: DoNotSchedule
        labelSelector:
          matchLabels:
            berth.dev/app: db
    template:
      spec:
        containers:
          - name: db
            image: berth.local/busybox:1
            imagePullPolicy: Never
            command: [sh, -c, "date >> /data/starts; exec sleep 1000000"]
            volumeMounts:
              - name: data
                mountPath: /data

- name: Two replicas with half a GPU each, which the container gets
  berth.stateful.stateful_app:
    name: serve
    replicas: 2
    workload: Pod
    devices:
      - name: gpu
        device_class: gpu
        share: 500
    template:
      spec:
        containers:
          - name: main
            image: berth.local/busybox:1
            imagePullPolicy: Never
            command: [sh, -c, "exec sleep 1000000"]
            resources:
              claims:
                - name: gpu

- name: A StatefulSet with its Services and ConfigMaps, from the file that kubectl has applied so far
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    wait: true

- name: A new image in the running pods, the highest ordinal first
  berth.stateful.stateful_app:
    name: db
    update_strategy: in_place_only
    replicas: 3
    disks:
      - name: data
        size: 200Mi
        storage_class: berth-local
    template:
      spec:
        containers:
          - name: db
            image: berth.local/busybox:2
            imagePullPolicy: Never
            command: [sh, -c, "date >> /data/starts; exec sleep 1000000"]
            volumeMounts:
              - name: data
                mountPath: /data

- name: The primary last, and each replica Ready for half a minute before the next one
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    update_order: primary_last
    update_primary_label: role=primary
    min_ready_seconds: 30

- name: Each replica hands over before it is updated, and has caught up before the next one is begun
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    update_hooks:
      before: [sh, -c, "exec /scripts/hand-over"]
      after: [sh, -c, "exec /scripts/wait-until-caught-up"]
      timeout: 300

- name: Back to what was there before, whatever is in the file
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    rollback_to: previous

- name: A rolling restart, which the same task run again does not repeat
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    restarted_at: "2026-11-25 certificates renewed"

- name: No pods over night, and all that they have is kept
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    suspended: true

- name: Replica 2 begins anew on another node, and gets its data from the other replicas
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    leave_nodes: [worker-2]
    leave_data: [postgres-2]

- name: A template for which replica 2 is to run elsewhere; it gets its data from the other replicas
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    update_strategy: reschedule
    partition: 2
    leave_data: [postgres-2@worker-2]

- name: Replica 1 gets another place, for its own is bad; it gets its data from the other replicas
  berth.stateful.stateful_app:
    name: postgres
    src: postgres.yml
    replace: [postgres-1@worker-3]
    leave_data: [postgres-1@worker-3]

- name: Carried out by berth-controller, as a StatefulApp
  berth.stateful.stateful_app:
    name: db
    driver: controller
    wait: true
    replicas: 3
    disks:
      - name: data
        size: 200Mi
        storage_class: berth-local
    template:
      spec:
        containers:
          - name: db
            image: berth.local/busybox:1
            imagePullPolicy: Never
            command: [sh, -c, "date >> /data/starts; exec sleep 1000000"]
            volumeMounts:
              - name: data
                mountPath: /data

- name: Stop it and keep its data
  berth.stateful.stateful_app:
    name: db
    state: absent
"""

RETURN = r"""
berths:
  description: One entry for each replica; in check mode also those that would be made. When a run fails after it
    locked disks, those of the replicas that keep them without a workload.
  returned: success, and on failure when locked disks are left
  type: list
  elements: dict
  contains:
    name:
      description: The Berth's (and pod's) name.
      type: str
    namespace:
      description: Its namespace.
      type: str
    ordinal:
      description: The replica.
      type: int
    uid:
      description: The Berth's uid, which every lock carries; null where the Berth would only be made.
      type: str
    node:
      description: The node.
      type: str
    disks:
      description: The claim, LocalDisk and asked size (bytes) of each disk.
      type: list
      elements: dict
    devices:
      description: The claim, LocalDevice and shares of each device.
      type: list
      elements: dict
    phase:
      description: How far the berth has come, from what is there.
      type: str
    recorded_phase:
      description: The phase written in the Berth.
      type: str
    pod:
      description: The pod, where there is one.
      type: str
  sample:
    - name: db-0
      namespace: default
      ordinal: 0
      node: h1
      disks: [{claim: data, name: h1-0a1b2c3d4e, size: 209715200}]
      devices: []
      phase: Running
moved:
  description: Replicas that leave their nodes, or get another berth because of a changed template, by O(replace), or
    because a run that died has begun to give theirs up, in that order.
  returned: when there are some
  type: list
  elements: dict
  contains:
    ordinal:
      description: The replica.
      type: int
    pod:
      description: Its pod.
      type: str
    from:
      description: The node that it leaves.
      type: str
    to:
      description: The node that was chosen when the run began. RV(berths) says where the replica is in the end.
      type: str
    disks:
      description: The LocalDisks of its former berth.
      type: list
      elements: str
    data:
      description: V(given up) where those may carry its data, V(kept) where it comes back to them, V(none) otherwise.
      type: str
    begun:
      description: V(true) where nobody asks for it any more, and a run before has begun to give its berth up.
      type: bool
    fields:
      description: With O(update_strategy=reschedule), the fields of the template because of which it gets another
        berth; empty where a run before has begun with it, and with O(replace).
      type: list
      elements: str
    replaced:
      description: V(true) where O(replace) asks for it.
      type: bool
lost:
  description: Replicas that are not Ready and whose node is lost, and what is done about each.
  returned: when there are some
  type: list
  elements: dict
  contains:
    ordinal:
      description: The replica.
      type: int
    pod:
      description: Its pod.
      type: str
    node:
      description: The node of its berth.
      type: str
    disks:
      description: The LocalDisks of its berth there.
      type: list
      elements: str
    why:
      description: What is wrong with the node.
      type: str
    since:
      description: Since when, where the cluster says it.
      type: str
    fenced:
      description: By what it is proven that nothing of the replica runs there; null where nothing proves it.
      type: str
    decision:
      description: V(keep), V(release) or V(rebuild).
      type: str
  sample:
    - ordinal: 2
      pod: db-2
      node: n3
      disks: [n3-9f86d08188]
      why: Ready is Unknown (NodeStatusUnknown)
      since: "2026-01-01T00:00:00Z"
      fenced:
      decision: keep
restarted:
  description: Pods of O(workload=Pod) that had ended (failed, evicted, refused by their node) and are made anew in
    their berths. With C(restartPolicy) Never in the template none is, with OnFailure those alone that failed.
  returned: when there are some
  type: list
  elements: dict
  sample: [{pod: db-0, ended: "Failed (Evicted: The node was low on resource: memory)"}]
backoff:
  description:
    - Pods of O(workload=Pod) that have ended again and wait before they are made anew. The wait is 10 seconds after the
      second end in a row, and doubles up to 300. A pod that ran for ten minutes counts as the first.
    - With O(wait=true) the run waits for those whose time comes within O(wait_timeout), and C(restarted) names them
      too. The others stay as they are, and a warning names them.
  returned: when there are some
  type: list
  elements: dict
  contains:
    pod:
      description: The pod.
      type: str
    ended:
      description: How it has ended last, in the words of its status.
      type: str
    count:
      description: How many pods of its berth have ended in a row.
      type: int
    until:
      description: The time until which it waits.
      type: str
  sample:
    - pod: db-0
      ended: "Failed (OutOfcpu: Node didn't have enough resource: cpu)"
      count: 2
      until: "2026-01-01T00:00:10Z"
updated:
  description: The pods of another template that are updated, highest ordinal first.
  returned: when there are some
  type: list
  elements: dict
  contains:
    pod:
      description: The pod.
      type: str
    ordinal:
      description: The replica.
      type: int
    in_place:
      description: Whether the running pod takes the change. Where its node could not resize it, it was made anew
        nevertheless, and a warning says so.
      type: bool
    fields:
      description: The fields of the template that change or, where the pod is made anew, those that force it.
      type: list
      elements: str
    pulled:
      description: The images that its node pulls before that (O(pre_pull)).
      type: list
      elements: str
    held:
      description: Whether a hold pod holds its cpu and memory on its node while it has no pod (O(update_hold)).
      type: bool
    room:
      description:
        - Who holds its cpu and memory on its node while it has no pod. Null where it keeps its pod, or gets another
          place.
        - V(hold_pod) where C(held) is true. V(berth) where its pod names C(berth-scheduler), which counts the Berth
          against all pods that it places.
        - V(nobody) where it names kube-scheduler (C(default-scheduler)) and there is no hold pod. Another pod that
          waits for room may get it, and the replica, whose data is on this node, is Pending until there is room again.
          See O(update_hold).
        - V(unknown) where it names another scheduler.
      type: str
    gated:
      description: Whether it leaves its Services before its container is ended, by the readiness gate
        C(berth.dev/InService) (O(driver=controller)). Without it a Service sends to the pod until its kubelet has told
        that the container has ended.
      type: bool
    forbidden_by:
      description: The PodDisruptionBudgets that do not allow it now, as C(NAMESPACE/NAME); the run waits for them
        (O(disruption_budgets)).
      type: list
      elements: str
    not_ready_seconds:
      description: For how long the replica was not Ready, as far as the run has seen it. Not in check mode.
      type: float
    pull_seconds:
      description: For how long this run has waited for these images; null where it has not. Not in check mode.
      type: float
  sample:
    - pod: db-2
      ordinal: 2
      in_place: true
      fields: ["spec.containers[db].image"]
      pulled: ["berth.local/busybox:2"]
      held: false
      room:
      gated: false
      forbidden_by: []
      not_ready_seconds: 1.2
      pull_seconds: 14.6
outdated:
  description: The pods of another template that are left as they are, because of O(partition)
    or O(paused), or because the update is paused (RV(update_paused)), and what an update would do with each. The
    entries are those of RV(updated).
  returned: when there are some
  type: list
  elements: dict
  sample:
    - pod: db-0
      ordinal: 0
      in_place: true
      fields: ["spec.containers[db].image"]
      pulled: ["berth.local/busybox:2"]
      held: false
      room:
      gated: false
      forbidden_by: [default/db]
update_paused:
  description: For which failure the update is paused (O(pause_on_failure)).
  returned: while it is, on failure too
  type: dict
  contains:
    pod:
      description: The replica whose update has failed.
      type: str
    why:
      description: How.
      type: str
    since:
      description: When that was found, in UTC.
      type: str
  sample:
    pod: db-2
    why: "pod db-2: container db: CrashLoopBackOff: back-off 40s restarting failed container"
    since: "2026-01-01T00:00:00Z"
hooks:
  description:
    - The commands of O(update_hooks) in the order in which they were run, in check mode those that would be run.
    - When one fails, those that were run before it; C(hook) is the entry of the one that failed, with the end of its
      output.
  returned: when an update runs hooks
  type: list
  elements: dict
  contains:
    pod:
      description: The pod.
      type: str
    ordinal:
      description: The replica.
      type: int
    hook:
      description: V(before) or V(after).
      type: str
    skipped:
      description: Why it was not run; null where it was.
      type: str
    seconds:
      description: How long it took. Not in check mode.
      type: float
  sample:
    - {pod: db-2, ordinal: 2, hook: before, skipped: null, seconds: 1.3}
    - {pod: db-2, ordinal: 2, hook: after, skipped: null, seconds: 0.4}
stateful_app:
  description: The driver of the StatefulApp, and what its status says (counts, revisions, conditions).
  returned: when there is a StatefulApp
  type: dict
  sample:
    driver: controller
    generation: 1
    observedGeneration: 1
    replicas: 3
    readyReplicas: 3
    updatedReplicas: 3
    conditions: [{type: Ready, status: "True", reason: Running}]
explanation:
  description: The verdict of every node and disk and, on success, all scores. With O(explain=true), and whenever a
    replica does not fit.
  returned: when asked for, or on failure
  type: dict
hints:
  description: What would make it fit.
  returned: when a replica does not fit
  type: list
  elements: str
requests:
  description: The requests to the API server, by verb; C(dry_run) are those that only try.
  returned: always
  type: dict
  sample: {list: 6, get: 2}
"""

from ..module_utils._glue.base import module_main
from ..module_utils._glue.stateful_app import OPERATION


def main() -> None:
    module_main(OPERATION)


if __name__ == "__main__":
    main()
