"""What the sources of devices find: sysfs and folders of descriptions as hosts have them, faults included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from berth_agent.devices.described import DescribedSource
from berth_agent.devices.device import Device, Node
from berth_agent.devices.network import NetworkSource
from berth_agent.devices.sources import Found, Sources, together
from berth_agent.devices.sysfs import SysfsSource
from berth_core.app.agent_devices import class_of, entries, problems
from berth_core.app.agent_settings import Settings
from berth_host.machine import Machine


@pytest.fixture
def host(tmp_path):
    return Tree(tmp_path)


class Tree:
    """A host's files below a folder."""

    def __init__(self, root):
        self.root, self.machine = root, Machine(str(root))

    def file(self, path, text=""):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path, target):
        link = self.root / path.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        (self.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / target.lstrip("/"))

    def function(self, address, pci_class, **links):
        """A PCI function; the bus lists a link to its place."""
        place = f"/sys/devices/pci0000:00/{address}"
        for name, text in (("class", pci_class), ("vendor", "0x15b3"), ("device", "0x101e"), ("numa_node", "1")):
            self.file(f"{place}/{name}", text + "\n")
        for name, target in links.items():
            self.link(f"{place}/{name}", target)
        self.link(f"/sys/bus/pci/devices/{address}", place)
        return place


# -- PCI network functions ------------------------------------------------------------------------------------


@pytest.fixture
def nics(host):
    physical = host.function("0000:3b:00.0", "0x020000", driver="/sys/bus/pci/drivers/mlx5_core")
    host.file(f"{physical}/net/ens1/address", "aa:bb:cc:dd:ee:ff")
    virtual = host.function("0000:3b:00.2", "0x020000", driver="/sys/bus/pci/drivers/mlx5_core", physfn=physical)
    host.file(f"{virtual}/net/ens1v0/address", "02:00:00:00:00:01")
    passed = {"driver": "/sys/bus/pci/drivers/vfio-pci", "iommu_group": "/sys/kernel/iommu_groups/42"}
    host.function("0000:3b:00.3", "0x020000", physfn=physical, **passed)
    host.function("0000:00:1f.0", "0x060100")
    return host


def test_virtual_functions_are_found_by_their_slot(nics):
    found = NetworkSource(nics.machine, "nic", "virtual").scan()
    assert [device.uuid for device in found.devices] == ["0000:3b:00.2", "0000:3b:00.3"]
    kernel, passed = found.devices
    assert kernel.attributes == {
        "pciAddress": "0000:3b:00.2",
        "virtual": True,
        "driver": "mlx5_core",
        "physicalFunction": "0000:3b:00.0",
        "interface": "ens1v0",
        "numaNode": 1,
    }
    assert kernel.env == {"PCI_ADDRESS": "0000:3b:00.2", "INTERFACE": "ens1v0"}
    assert (kernel.nodes, kernel.model) == ((), "15b3:101e")
    assert [node.path for node in passed.nodes] == ["/dev/vfio/vfio", "/dev/vfio/42"]


@pytest.mark.parametrize(("functions", "count"), [("physical", 1), ("virtual", 2), ("all", 3)])
def test_which_functions_are_asked_for(nics, functions, count):
    assert len(NetworkSource(nics.machine, "nic", functions).scan().devices) == count


# -- classes that sysfs lists ---------------------------------------------------------------------------------

FPGA = {
    "name": "fpga",
    "source": "sysfs",
    "directory": "/sys/class/fpga",
    "match": {"device/vendor": "0x10e?"},
    "uuid": ["device/serial"],
    "nodes": ["/dev/{name}"],
    "shares": 2000,
    "memory": "8Gi",
    "attributes": {"firmware": "version"},
}


def fpga(host, name, vendor="0x10ee", serial="S-1", place="0000:04:00.0", node=True):
    host.file(f"/sys/devices/pci0000:00/{place}/vendor", vendor)
    host.file(f"/sys/devices/pci0000:00/{place}/serial", serial)
    folder = f"/sys/devices/pci0000:00/{place}/fpga/{name}"
    host.file(f"{folder}/version", "7\n")
    host.link(f"{folder}/device", f"/sys/devices/pci0000:00/{place}")
    host.link(f"/sys/class/fpga/{name}", folder)
    if node:
        host.file(f"/dev/{name}")


def test_a_matching_device_with_all_that_was_asked_for(host):
    fpga(host, "fpga0")
    fpga(host, "fpga1", vendor="0x8086", place="0000:05:00.0")
    (device,) = SysfsSource(host.machine, class_of(FPGA)).scan().devices
    attributes = {"firmware": "7", "pciAddress": "0000:04:00.0"}
    node = Node("/dev/fpga0", "/dev/fpga0")
    assert device == Device("fpga", "S-1", (node,), 2000, 8 << 30, attributes=attributes)


def test_another_name_of_the_kernel_is_the_same_device(host):
    fpga(host, "fpga7")
    (device,) = SysfsSource(host.machine, class_of(FPGA)).scan().devices
    assert (device.key, device.device_path) == (("fpga", "S-1"), "/dev/fpga7")


def test_without_a_serial_the_slot_tells_it_apart_and_without_both_it_is_refused(host):
    fpga(host, "fpga0", serial="")
    host.file("/sys/class/fpga/virtual0/device/vendor", "0x10ee")
    found = SysfsSource(host.machine, class_of(FPGA)).scan()
    assert [device.uuid for device in found.devices] == ["0000:04:00.0"]
    (problem,) = found.problems
    assert "virtual0 (class fpga) has neither device/serial nor PCI address" in problem


def test_a_device_whose_node_is_missing_is_not_well(host):
    fpga(host, "fpga0", node=False)
    (device,) = SysfsSource(host.machine, class_of(FPGA)).scan().devices
    assert device.problem == "its device node /dev/fpga0 is missing"


def test_two_devices_of_one_uuid_are_both_refused(host):
    fpga(host, "fpga0")
    fpga(host, "fpga1", place="0000:05:00.0")
    fpga(host, "fpga2", serial="S-2", place="0000:06:00.0")
    found = Sources(host.machine).scan(Settings(device_classes=(FPGA,)))
    assert [device.uuid for device in found.devices] == ["S-2"]
    assert "2 devices of class fpga carry the uuid S-1" in found.problems[0]


# -- what the configuration may say ---------------------------------------------------------------------------

GOOD = [FPGA, {"name": "gpu", "source": "nvml"}, {"name": "nic", "source": "network", "functions": "all"}]
BAD = {
    "name is": {**FPGA, "name": "a/b"},
    "source is 'udev'": {"name": "x", "source": "udev"},
    "functions is 'some'": {"name": "x", "source": "network", "functions": "some"},
    "directory: unknown with source nvml": {"name": "x", "source": "nvml", "directory": "/sys/x"},
    "directory is '/etc'": {**FPGA, "directory": "/etc"},
    "directory is missing": {"name": "x", "source": "sysfs"},
    "directory is '/sys/../etc'": {**FPGA, "directory": "/sys/../etc"},
    "uuid is": {**FPGA, "uuid": ["../../../etc/passwd"]},
    "match is": {**FPGA, "match": {"/etc/passwd": "x"}},
    "nodes is": {**FPGA, "nodes": ["/etc/{name}"]},
    "nodes is ['/dev/{x}']": {**FPGA, "nodes": ["/dev/{x}"]},
    "shares is 0": {**FPGA, "shares": 0},
    "memory is": {**FPGA, "memory": "much"},
    "attributes is": {**FPGA, "attributes": {"a-b": "c"}},
}


@pytest.mark.parametrize("entry", GOOD, ids=str)
def test_good_entries(entry):
    assert problems(entry) == []


@pytest.mark.parametrize("said", BAD)
def test_bad_entries(said):
    assert any(each.startswith(said) for each in problems(BAD[said])), problems(BAD[said])


def test_gpus_are_looked_for_unless_an_entry_names_their_class():
    assert [each["name"] for each in entries([FPGA])] == ["fpga", "gpu"]
    assert [each["name"] for each in entries([{"name": "a100", "source": "nvml"}])] == ["a100"]


# -- description files ----------------------------------------------------------------------------------------

ONE = "devices: [{class: acc, uuid: a, nodes: [/dev/null], memory: 1Gi, attributes: {numa: 1}, env: {A: b}}]\n"
FOLDER = "/etc/berth/devices.d"


@pytest.fixture
def described(host):
    host.file("/dev/null")
    host.file(f"{FOLDER}/one.yaml", ONE)
    return host, DescribedSource(host.machine, FOLDER)


def test_a_description_says_everything_of_a_device(described):
    _host, source = described
    (device,) = source.scan().devices
    assert device == Device(
        "acc", "a", (Node("/dev/null", "/dev/null"),), 1000, 1 << 30, attributes={"numa": 1}, env={"A": "b"}
    )


def test_json_too_and_other_files_are_not_looked_at(described):
    host, source = described
    host.file(f"{FOLDER}/two.json", '{"devices": [{"class": "acc", "uuid": "b"}]}')
    host.file(f"{FOLDER}/two.yaml~", "nonsense: [")
    found = source.scan()
    assert ([each.uuid for each in found.devices], found.problems) == (["a", "b"], ())


WRONG = {
    "cannot be read": "devices: [",
    "expected a mapping with a list": "- a",
    "'colour' is unknown": "devices: [{class: acc, uuid: a, colour: red}]",
    "devices[1]: uuid is None": "devices: [{class: acc, uuid: a}, {class: acc}]",
    "nodes is ['/etc/shadow']": "devices: [{class: acc, uuid: a, nodes: [/etc/shadow]}]",
    "nodes is ['/dev/../etc/shadow']": "devices: [{class: acc, uuid: a, nodes: [/dev/../etc/shadow]}]",
    "nodes is [{'path': '/dev/a', 'mode'": "devices: [{class: acc, uuid: a, nodes: [{path: /dev/a, mode: w}]}]",
    "shares is True": "devices: [{class: acc, uuid: a, shares: true}]",
    "env is": "devices: [{class: acc, uuid: a, env: {A=B: c}}]",
    "attributes is": f"devices: [{{class: acc, uuid: a, attributes: {{a: {'x' * 65}}}}}]",
    "is not a mapping": "devices: [acc]",
}


@pytest.mark.parametrize("said", WRONG)
def test_a_wrong_file_is_refused_whole_and_what_it_said_before_stays(described, said):
    host, source = described
    source.scan()
    host.file(f"{FOLDER}/one.yaml", WRONG[said])
    host.file(f"{FOLDER}/two.yaml", WRONG[said])
    found = source.scan()
    assert [device.uuid for device in found.devices] == ["a"]
    assert len(found.problems) == 2
    assert said in found.problems[0]
    assert found.problems[0].endswith("what it said before stays in force")
    assert found.problems[1].endswith("none of it is published")


def test_a_file_that_is_gone_takes_its_devices_along(described):
    host, source = described
    assert source.scan().devices
    (host.root / "etc/berth/devices.d/one.yaml").unlink()
    assert source.scan() == Found()


def test_sources_keep_what_they_know_until_the_settings_change(described):
    host, _source = described
    sources, settings = Sources(host.machine), Settings(device_descriptions=FOLDER)
    assert len(sources.scan(settings).devices) == 1
    host.file(f"{FOLDER}/one.yaml", "broken: [")
    assert len(sources.scan(settings).devices) == 1
    assert sources.scan(Settings()).devices == ()


def test_devices_of_two_sources_with_one_uuid_are_refused():
    device = Device("acc", "a")
    found = together([Found((device,)), Found((device, Device("acc", "b")), ("x",))])
    assert [each.uuid for each in found.devices] == ["b"]
    assert found.problems[0] == "x"


# -- NVIDIA GPUs ----------------------------------------------------------------------------------------------

# The driver's library by its own interface, for a machine without GPUs: two of them, one lost, one with memory errors.
LIBRARY = r"""
#include <stdio.h>
#include <string.h>
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { unsigned long long total, free, used; } Memory;
static int gpus[3] = {0, 1, 2};
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "Not Supported"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  if (index == 1) return 15;
  *handle = &gpus[index];
  return 0;
}
int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned length) {
  snprintf(uuid, length, "GPU-%d", *(int *)handle);
  return 0;
}
int nvmlDeviceGetName(void *handle, char *name, unsigned length) { snprintf(name, length, "Test GPU"); return 0; }
int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) { *minor = *(int *)handle; return 0; }
int nvmlDeviceGetPciInfo_v3(void *handle, Pci *pci) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, 32, "00000000:0A:0%d.0", *(int *)handle);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) { memory->total = 1ULL << 34; return 0; }
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
  if (*(int *)handle == 0) return 3;
  *count = 2;
  return 0;
}
"""
ASK = """
import sys
from berth_agent.devices.nvml import NvmlSource
from berth_host.machine import Machine
found = NvmlSource(Machine(sys.argv[1]), "gpu").scan()
for device in found.devices:
    print(device.uuid, device.memory, device.model, dict(device.attributes), dict(device.env), device.problem or "well")
    print([node.path for node in device.nodes])
print(found.problems)
"""


def ask(host, library=None):
    environment = {"PYTHONPATH": ":".join(sys.path), "LD_LIBRARY_PATH": str(library or ""), "PATH": "/usr/bin:/bin"}
    argv = [sys.executable, "-W", "error", "-c", ASK, str(host.root)]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_without_a_driver_there_are_no_gpus(host):
    assert ask(host) == ["()"]


def test_with_a_driver_whose_library_is_missing_there_are_none_either(host):
    host.file("/dev/nvidiactl")
    assert ask(host) == ["()"]


def test_gpus_as_the_library_tells_of_them(host, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nvml")
    Path(folder, "nvml.c").write_text(LIBRARY)
    compile_ = ["cc", "-shared", "-fPIC", "-o", f"{folder}/libnvidia-ml.so.1", f"{folder}/nvml.c"]
    subprocess.run(compile_, check=True)
    for name in ("nvidiactl", "nvidia0", "nvidia-uvm"):
        host.file(f"/dev/{name}")
    host.file("/dev/nvidia2")
    assert ask(host, folder) == [
        "GPU-0 17179869184 Test GPU {'pciAddress': '00000000:0a:00.0'} {'NVIDIA_VISIBLE_DEVICES': 'GPU-0'} well",
        "['/dev/nvidia0', '/dev/nvidiactl', '/dev/nvidia-uvm']",
        (
            "GPU-2 17179869184 Test GPU {'pciAddress': '00000000:0a:02.0'} {'NVIDIA_VISIBLE_DEVICES': 'GPU-2'} "
            "2 memory errors that could not be corrected since the driver was loaded"
        ),
        "['/dev/nvidia2', '/dev/nvidiactl', '/dev/nvidia-uvm']",
        "('GPU 1 does not answer: GPU is lost',)",
    ]
