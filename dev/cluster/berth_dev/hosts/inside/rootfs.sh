#!/bin/sh
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# First half of a host's start: its root. power.py starts this in the host's new namespaces and cgroups with one
# argument, the file of settings; it ends by becoming init.py, process 1 inside the new root. It touches no other disk.
#
# The root is the host's own system disk (ext4). The machine's operating system shines through as overlays of single
# folders (usr, etc, ...), so the machine's data (homes, state folders, other hosts' disks) is not reachable at all.
set -eu
. "$1"   # HOST_NAME SYSTEM_LOOP ROOT SEED BIN IMAGES CGROUPS (lines of "name options")

mount --make-rprivate /
hostname "$HOST_NAME"
mount -t ext4 "/dev/loop$SYSTEM_LOOP" "$ROOT"
cd "$ROOT"
first_start=
[ -d .layers ] || first_start=yes
mkdir -p -m 700 .layers

layer() {  # the machine's folder $1, with the host's own changes on top
    name=$(echo "$1" | tr / _)
    mkdir -p "$1" ".layers/$name/upper" ".layers/$name/work"
    mount -t overlay overlay -o "lowerdir=/$1,upperdir=.layers/$name/upper,workdir=.layers/$name/work" "$1"
}
layer usr
layer etc
layer var/lib/dpkg
for name in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$name" ]; then [ -L "$name" ] || cp -P "/$name" "$name"; elif [ -d "/$name" ]; then layer "$name"; fi
done
mkdir -p proc sys dev run tmp root home mnt media srv opt/k opt/images opt/berth
mkdir -p var/lib/kubelet var/lib/containerd var/lib/berth var/log/pods var/log/containers var/tmp var/cache
chmod 700 root; chmod 1777 tmp var/tmp; ln -sfn /run var/run; ln -sfn /run/lock var/lock
if [ -n "$first_start" ]; then
    # The machine's own tables name disks that are not here.
    echo '# <file system> <mount point> <type> <options> <dump> <pass>' > etc/fstab
    rm -f etc/resolv.conf etc/machine-id
    rm -rf etc/cni/net.d etc/containerd etc/kubernetes
    # Nor are the machine's services this host's.
    rm -rf etc/systemd/system etc/rc?.d
    mkdir -p etc/systemd/system
fi

mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p run/lock run/sshd run/berth run/udev/data
lend() {  # the machine's folder $1 at $2, not to be changed; an overlay, so that its disk is not named in /proc/mounts
    mount -t overlay overlay -o "lowerdir=$(echo "$1" | sed 's/[\\:,]/\\&/g'):.layers/empty" "$2"
}
mkdir -p .layers/empty
lend "$BIN" opt/k
lend "$IMAGES" opt/images
cp -R "$SEED/." .   # configuration, certificates, init.py: current at every start

# --- own /dev
mount -t tmpfs -o mode=755 tmpfs dev
mkdir -p dev/pts dev/shm dev/mqueue dev/net
node() { mknod -m "$2" "dev/$1" c "$3" "$4"; }
node null 666 1 3; node zero 666 1 5; node full 666 1 7; node random 666 1 8; node urandom 666 1 9
node kmsg 600 1 11; node tty 666 5 0; node fuse 666 10 229; node net/tun 666 10 200
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t mqueue mqueue dev/mqueue
ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin; ln -s /proc/self/fd/1 dev/stdout; ln -s /proc/self/fd/2 dev/stderr
ln -s null dev/console

# --- cgroups: the namespace is rooted at this host's groups, so fresh mounts show nothing else
if [ "$CGROUPS" = v2 ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    echo "$CGROUPS" | while read -r name options; do
        mkdir "sys/fs/cgroup/$name"
        mount -t cgroup -o "$options" cgroup "sys/fs/cgroup/$name"
    done
fi

# --- what the kernel shares and a machine of its own would not
private() {  # a file of the host's own over one of /proc/sys
    mkdir -p "run/berth/$(dirname "$1")"
    cat > "run/berth/$1"
    mount --bind "run/berth/$1" "proc/$1"
}
private sys/kernel/random/boot_id < /proc/sys/kernel/random/uuid
# kubelet sets these to the values below where they differ: for the whole machine, and nobody would set them back.
echo 1 | private sys/vm/overcommit_memory
echo 0 | private sys/vm/panic_on_oom
echo 10 | private sys/kernel/panic
echo 1 | private sys/kernel/panic_on_oops
echo 1000000 | private sys/kernel/keys/root_maxkeys
echo 25000000 | private sys/kernel/keys/root_maxbytes

mkdir -p .old
pivot_root . .old
cd /
umount -l /.old
rmdir /.old
mount --make-rshared /   # as systemd does: pods see mounts that are made later
cd /opt/berth
exec /usr/bin/python3 -Es -m inside.init
