package sweep_test

import (
	"context"
	"strings"
	"testing"
	"time"
)

// loud are leftovers that a release cannot remove, or must not: it fails, or the scan names them, and the slot stays
// unsold until an operator has inspected it.
var loud = []struct {
	plant

	errs  string // the error of the release; empty if only the scan finds it
	mends string // what a person does about it
}{
	{
		plant: plant{name: "process that waits for a driver", root: `mkdir -p /mnt/stuck; PLANT=stuck PLANT_UID=0 setsid $SELF -test.run='^TestPlanted$' >/dev/null 2>&1 &
			for i in $(seq 400); do grep -q /mnt/stuck /proc/mounts && break; sleep 0.05; done
			su -s /bin/sh $N -c 'setsid ls /mnt/stuck/x >/dev/null 2>&1 &'; for i in $(seq 400); do grep -qE "answer|fuse" /proc/$(pgrep -u $U -x ls)/wchan && exit 0; sleep 0.05; done; exit 1`},
		// It waits for an answer to its request, and after SIGKILL for nothing else.
		errs: "(ls) in state D", mends: `pkill -KILL -f TestPlante[d]; while pgrep -u $U; do sleep 0.05; done`,
	},
	{
		plant: plant{name: "deleted file that root has open", login: `echo secret >/var/tmp/open`, root: `setsid tail -f /var/tmp/open >/dev/null 2>&1 &
			for i in $(seq 100); do ls -l /proc/$!/fd 2>/dev/null | grep -q tmp/open && exit 0; sleep 0.05; done; exit 1`, says: "(tail) uses /var/tmp/open (deleted) of the tenant"},
		mends: `pkill -KILL -x tail`,
	},
	{
		plant: plant{name: "file on a read-only file system", root: `mkdir -p /mnt/ro; mount -t tmpfs none /mnt/ro; install -o $U /dev/null /mnt/ro/x; mount -o remount,ro /mnt/ro`, says: "file /mnt/ro/x"},
		errs:  "read-only file system", mends: `mount -o remount,rw /mnt/ro; rm /mnt/ro/x; umount /mnt/ro`,
	},
	{
		plant: plant{name: "service of the host OS that runs as the tenant", root: `systemd-run --quiet --unit=theirs --uid=$N -p Restart=always -p RestartSec=0 -p StartLimitIntervalSec=0 sleep 1020`},
		mends: `systemctl stop theirs`,
	},
	{
		plant: plant{name: "packet filter rule", root: `nft add table inet planted; nft add chain inet planted out '{ type filter hook output priority 0; }'; nft add rule inet planted out meta skuid $U accept`, says: "packet filter rule meta skuid"},
		mends: `nft delete table inet planted`,
	},
	{
		plant: plant{name: "sudoers that name the tenant", root: `echo '$N ALL=(ALL) ALL' >/etc/sudoers.d/several`, says: "file /etc/sudoers.d/several is about the tenant"},
		mends: `rm /etc/sudoers.d/several`,
	},
	{
		plant: plant{name: "another account with the uid", root: `useradd -M -o -u $U twin`, says: "/etc/passwd names the tenant: twin"},
		mends: `userdel -f twin`,
	},
}

//nolint:paralleltest // one host
func TestReleaseFailsLoudly(t *testing.T) {
	for _, p := range loud {
		t.Run(p.name, func(t *testing.T) {
			l := newDepartingTenant(t)
			if p.login != "" {
				l.login(p.login)
			}
			l.root(p.root)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			err := l.releaseWithin(ctx)
			if p.errs != "" && (err == nil || !strings.Contains(err.Error(), p.errs)) {
				t.Errorf("the release fails with %v and not %q", err, p.errs)
			}
			if p.says == "" { // systemd starts it again a moment after the release has killed it
				l.root(`for i in $(seq 100); do pgrep -u $U >/dev/null && exit 0; sleep 0.02; done; exit 1`)
			}
			if found := l.scan(); !strings.Contains(found, p.says) || p.says == "" && !strings.Contains(found, "runs as the tenant") {
				t.Errorf("the scan does not report %q but\n%s", p.says, found)
			}
			l.root(p.mends)
			if err := l.release(); err != nil || l.scan() != "" {
				t.Errorf("after a person has mended it: %v\n%s", err, l.scan())
			}
		})
	}
}
