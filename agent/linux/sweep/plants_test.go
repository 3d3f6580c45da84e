package sweep_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// plant is something that a tenant leaves behind, or that was left for one.
type plant struct {
	name  string
	login string // run in a session of the tenant's
	root  string // run by root afterwards; $N is the tenant's name, $U its uid
	says  string // the finding of the scan while it is there
}

// plants can be removed. They are all on the host OS at once.
var plants = []plant{
	// Processes.
	{name: "process in a session", login: `sleep 1001 >/dev/null 2>&1 &`, says: "(sleep) runs as the tenant"},
	{name: "setsid and nohup", login: `setsid nohup sleep 1002 >/dev/null 2>&1 &`, says: "(sleep)"},
	{name: "double fork", login: `( ( exec -a forked setsid sleep 1003 >/dev/null 2>&1 & ) & )`, says: "(sleep)"},
	{name: "deaf to every signal", login: `setsid bash -c 'trap "" TERM HUP INT QUIT; exec -a deaf sleep 1004' >/dev/null 2>&1 &`, says: "(sleep)"},
	{name: "stopped", login: `setsid sleep 1005 >/dev/null 2>&1 & kill -STOP $!`, says: "(sleep)"},
	{name: "two that start each other again", login: `printf '#!/bin/bash\nwhile :; do pgrep -u $U -f "[w]atch-$2" >/dev/null || setsid /tmp/watch.sh "$2" "$1" watch-$2 >/dev/null 2>&1 & sleep 0.05; done\n' >/tmp/watch.sh; chmod +x /tmp/watch.sh; setsid /tmp/watch.sh a b watch-a >/dev/null 2>&1 &`, says: "(watch.sh) runs as the tenant"},
	{name: "in another control group", root: `su $N -c 'setsid sleep 1006 >/dev/null 2>&1 &'; pgrep -u $U -f 'sleep 1006' >/sys/fs/cgroup/system.slice/cron.service/cgroup.procs`, says: "(sleep)"},
	{name: "in a control group of its own", root: `mkdir /sys/fs/cgroup/escaped-$N; su $N -c 'setsid sleep 1007 >/dev/null 2>&1 &'; pgrep -u $U -f 'sleep 1007' >/sys/fs/cgroup/escaped-$N/cgroup.procs; chown $U /sys/fs/cgroup/escaped-$N`, says: "control group /sys/fs/cgroup/escaped-"},
	{name: "in a frozen control group", root: `mkdir /sys/fs/cgroup/frozen-$N; su $N -c 'setsid sleep 1008 >/dev/null 2>&1 &'; pgrep -u $U -f 'sleep 1008' >/sys/fs/cgroup/frozen-$N/cgroup.procs; echo 1 >/sys/fs/cgroup/frozen-$N/cgroup.freeze; chown -R $U /sys/fs/cgroup/frozen-$N`, says: "control group /sys/fs/cgroup/frozen-"},
	{name: "user namespace", login: `setsid unshare -Ur sleep 1009 >/dev/null 2>&1 &`, says: "is in a user namespace of the tenant"},
	{name: "mount and network namespaces", login: `setsid unshare -Urmn bash -c 'mount -t tmpfs none /mnt; touch /mnt/hidden; exec sleep 1010' >/dev/null 2>&1 &`, says: "(sleep)"},
	{name: "terminal", login: `setsid script -qc 'sleep 1011' /dev/null >/dev/null 2>&1 &`, says: "(script)"},
	{name: "root's process in the tenant's slice", root: `systemd-run --quiet --slice=user-$U.slice --unit=roots-$N sleep 1012`, says: "runs in the tenant's slice"},
	{name: "ptrace, inotify, abstract and TCP sockets", login: `PLANT=sockets setsid $SELF -test.run='^TestPlanted$' >/dev/null 2>&1 &`, says: "tcp socket on"},

	// What starts something again.
	{name: "crontab", login: `echo '* * * * * sleep 1013' | crontab -`, says: "file /var/spool/cron/crontabs/"},
	{name: "at job", login: `echo sleep 1014 | at now + 1 hour`, says: "file /var/spool/cron/atjobs/"},
	{name: "lingering", root: `loginctl enable-linger $N`, says: "file /var/lib/systemd/linger/"},
	{name: "user service that restarts", login: `for i in $(seq 100); do [ -S /run/user/$U/systemd/private ] && break; sleep 0.05; done; systemd-run --user --quiet -p Restart=always -p RestartSec=0 sleep 1015`, says: "(systemd) runs as the tenant"},
	{name: "user timer", login: `systemd-run --user --quiet --on-active=1s --on-unit-active=1s sleep 1016`, says: "user@"},
	{name: "control group below a delegated one", login: `mkdir -p /sys/fs/cgroup/user.slice/user-$U.slice/user@$U.service/a/b/c`, says: "user@"},

	// Objects of the kernel.
	{name: "shared memory", login: `ipcmk -M 4096`, says: "System V object shm"},
	{name: "semaphores", login: `ipcmk -S 3`, says: "System V object sem"},
	{name: "message queue", login: `ipcmk -Q`, says: "System V object msg"},
	{name: "POSIX message queue", login: `touch /dev/mqueue/$N`, says: "file /dev/mqueue/"},
	{name: "POSIX shared memory", login: `echo secret >/dev/shm/seg; echo secret >/dev/shm/sem.lock`, says: "file /dev/shm/sem.lock"},
	{name: "keys", login: `for i in 1 2 3 4 5 6; do keyctl add user k$i secret @u; done; keyctl get_persistent @s`, says: "keys in the kernel"},
	{name: "BPF pin", root: `mkdir -p /mnt/bpf; mount -t bpf bpf /mnt/bpf; mkdir /mnt/bpf/$N; chown $U /mnt/bpf/$N`, says: "file /mnt/bpf/"},

	// Files.
	{name: "files in tmp", login: `echo x >/tmp/plain; mkdir -p /tmp/.hidden/deep; echo x >/var/tmp/.dot; mkfifo /tmp/fifo; ln -s /etc/passwd /tmp/link`, says: "file /tmp/.hidden/deep"},
	{name: "deep folder", login: `cd /var/tmp; for i in $(seq 600); do mkdir dddddddddd; cd dddddddddd; done`, says: "file /var/tmp/dddddddddd"},
	{name: "folder that denies its owner", login: `mkdir -p /tmp/closed/in; echo x >/tmp/closed/in/x; chmod 0 /tmp/closed/in /tmp/closed`, says: "file /tmp/closed"},
	{name: "names that hurt", login: `touch "/tmp/$(printf 'a\nb')" '/tmp/-rf' '/tmp/ space'`, says: "file /tmp/-rf"},
	{name: "root's file in the tenant's folder", login: `mkdir /var/tmp/mixed`, root: `echo x >/var/tmp/mixed/roots`, says: "file /var/tmp/mixed"},
	{name: "setuid program", login: `cp /bin/sleep /var/tmp/suid; chmod 4755 /var/tmp/suid`, says: "file /var/tmp/suid"},
	{name: "file with capabilities", login: `cp /bin/sleep /var/tmp/capable`, root: `setcap cap_net_raw+ep /var/tmp/capable`, says: "file /var/tmp/capable"},
	{name: "immutable file", login: `mkdir /var/tmp/frozen; echo x >/var/tmp/frozen/file`, root: `chattr +i /var/tmp/frozen/file; chattr +a /var/tmp/frozen`, says: "file /var/tmp/frozen/file"},
	{name: "file in another home", root: `mkdir -p /home/other; install -o $U -g $U /dev/null /home/other/theirs`, says: "file /home/other/theirs"},
	{name: "mail", root: `echo x >/var/mail/$N; chown $U:mail /var/mail/$N`, says: "file /var/mail/"},
	{name: "file in run", login: `echo x >/run/lock/mine`, says: "file /run/lock/mine"},
	{name: "keys elsewhere", root: `mkdir -p /etc/ssh/authorized_keys; echo key >/etc/ssh/authorized_keys/$N`, says: "file /etc/ssh/authorized_keys/"},
	{name: "sudoers", root: `echo '$N ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/$N; echo x >/etc/sudoers.d/owned; chown $U /etc/sudoers.d/owned`, says: "file /etc/sudoers.d/owned"},
	{name: "access list on a file", root: `echo x >/etc/readable; setfacl -m u:$U:r,u:1:r /etc/readable`, says: "file /etc/readable gives the tenant access"},
	{name: "default access list", root: `mkdir -p /srv/shared; setfacl -d -m u:$U:rwx /srv/shared`, says: "file /srv/shared gives the tenant access"},
	{name: "file of the group", root: `echo x >/srv/grouped; chgrp $U /srv/grouped`, says: "file /srv/grouped of the tenant's group"},
	{name: "memory of a crash", root: `mkdir -p /var/lib/systemd/coredump; echo x >/var/lib/systemd/coredump/core.train.$U.abc.1.2.zst`, says: "core.train"},
	{name: "journal of the user", root: `mkdir -p /var/log/journal/abc; echo x >/var/log/journal/abc/user-$U.journal`, says: "user-"},
	{name: "further groups", root: `usermod -aG video,render $N`, says: "/etc/group names the tenant: video"},
	{name: "subordinate uids", root: `usermod --add-subuids 900000000-900000010 $N`, says: "/etc/subuid names the tenant"},

	// Mounts.
	{name: "tmpfs of the tenant", root: `mkdir -p /mnt/own; mount -t tmpfs -o uid=$U,mode=700 none /mnt/own; touch /mnt/own/x; chown $U /mnt/own/x`, says: "file /mnt/own"},
	{name: "bind mount of the home", root: `mkdir -p /mnt/bound; mount --bind /home/$N /mnt/bound`, says: "/home/"},
	{name: "file below a mount", root: `mkdir -p /mnt/over; install -o $U /dev/null /mnt/over/below; mount -t tmpfs none /mnt/over`, says: ""},
	{name: "file system in a file", login: `truncate -s 2M ~/disk.img; /usr/sbin/mkfs.ext4 -q ~/disk.img`, root: `mkdir -p /mnt/loop; mount -o loop /home/$N/disk.img /mnt/loop; install -o $U /dev/null /mnt/loop/x`, says: "loop device"},
	{name: "loop device", login: `truncate -s 1M ~/raw.img`, root: `losetup -f /home/$N/raw.img`, says: "raw.img"},
	{name: "FUSE", root: `mkdir -p /mnt/fuse; PLANT=fuse PLANT_UID=$U setsid $SELF -test.run='^TestPlanted$' >/dev/null 2>&1 & for i in $(seq 400); do grep -q /mnt/fuse /proc/mounts && exit 0; sleep 0.05; done; exit 1`, says: "mount on /mnt/fuse"},
}

// The scan finds each leftover that a tenant can create, the release removes it, and then the scan no longer finds it.
//
//nolint:paralleltest // one host
func TestReleaseRemovesWhatIsLeft(t *testing.T) {
	l := newDepartingTenant(t)
	if found := l.scan(); strings.Count(found, "\n") > 20 {
		t.Fatalf("the scan of a fresh account finds\n%s", found)
	}
	var login, root strings.Builder // each in a shell of its own, all in one session
	for _, p := range plants {
		fmt.Fprintf(&login, "bash -eu <<'PLANT' || { echo 'not planted: %s'; exit 1; }\n%s\nPLANT\n", p.name, p.login)
		fmt.Fprintf(&root, "bash -eu <<'PLANT' || { echo 'not planted: %s'; exit 1; }\n%s\nPLANT\n", p.name, p.root)
	}
	// Settings of an earlier provisioning deny tenants cron and at. These leftovers are older, or used a
	// gap.
	l.root(`rm -f /etc/cron.allow /etc/at.allow`)
	l.login(login.String())
	l.root(root.String())
	time.Sleep(200 * time.Millisecond) // of the plants that start something
	began := time.Now()
	found := l.scan()
	t.Logf("%d kinds of leftovers, a scan of %s", len(plants), time.Since(began).Round(time.Millisecond))
	for _, p := range plants {
		if !strings.Contains(found, p.says) {
			t.Errorf("the scan does not find %q: no finding contains %q", p.name, p.says)
		}
	}
	if t.Failed() {
		t.Logf("it finds\n%s", found)
	}
	began = time.Now()
	if err := l.release(); err != nil {
		t.Errorf("the release fails: %v", err)
	}
	t.Logf("released in %s", time.Since(began).Round(time.Millisecond))
	if found := l.scan(); found != "" {
		t.Errorf("left:\n%s", found)
	}
	l.root(`umount /mnt/over; ! [ -e /mnt/over/below ]; [ "$(cat /var/tmp/roots 2>/dev/null)" = "" ]; [ -e /etc/readable ]; [ "$(getfacl -cp /etc/readable | grep -cE 'user:(1|daemon):')" = 1 ]; [ -e /srv/grouped ]; [ -e /etc/passwd ]; [ -d /home/other ]`)

	// Again, and for an account that never existed: the same.
	if err := l.release(); err != nil || l.scan() != "" {
		t.Errorf("released twice: %v %s", err, l.scan())
	}
}
