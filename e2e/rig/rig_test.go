package rig_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/e2e/rig"
)

// TestContainers boots two containers at the same time and checks that each has its own users, groups and
// network.
func TestContainers(t *testing.T) {
	t.Parallel()
	rig.Needed(t)
	var wait sync.WaitGroup
	hosts := make([]*rig.Container, 2)
	for i := range hosts {
		wait.Go(func() { hosts[i] = rig.New(t, rig.Options{Profile: "l40s-4"}) })
	}
	wait.Wait()
	if t.Failed() {
		return
	}
	for _, h := range hosts {
		h.Sh(t, `useradd -u 200001 t1; systemd-run --quiet --uid=t1 --slice=user-200001.slice --unit=stays sleep 1000`)
	}
	hosts[0].Sh(t, `echo 1 >/sys/fs/cgroup/user.slice/user-200001.slice/cgroup.kill; while pgrep -u t1; do sleep 0.05; done`)
	if out := hosts[1].Sh(t, `pgrep -c -u t1`); out != "1" {
		t.Errorf("killing a user of one container left %s processes of the other", out)
	}
	if out := hosts[1].Sh(t, `systemd-run --quiet --pipe --wait -p DevicePolicy=closed -p "DeviceAllow=/dev/nvidia1 rw" python3 -c '
import os, errno
for i in range(2):
    try: os.open("/dev/nvidia%d" % i, os.O_RDWR)
    except OSError as e: print(errno.errorcode[e.errno])'`); out != "EPERM\nENXIO" {
		t.Errorf("opening a device that is not allowed, and one that is: %q", out)
	}
	h := hosts[0]
	h.Sh(t, `ping -c1 -W2 `+h.Gateway())
	h.Sh(t, `echo stored >/var/stored; sync; echo gone >/run/gone`)
	h.Kill()
	if err := h.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := h.Sh(t, `cat /var/stored; cat /run/gone || true; getent passwd t1 | cut -d: -f3`); !strings.Contains(out, "stored") || strings.Contains(out, "gone\n") || !strings.Contains(out, "200001") {
		t.Errorf("after the plug was pulled: %s", out)
	}
}

// TestDouble checks that the product's parser reads the output of the double, and that planted
// faults appear in it.
func TestDouble(t *testing.T) {
	t.Parallel()
	h := rig.New(t, rig.Options{Profile: "l40s-4"})
	uuids := h.GPUs(t)
	h.Sh(t, `exec 3</var/lib/rig/gpu2; setsid sleep 1000 <&3 >/dev/null 2>&1 & nvidia-smi rig fault 1 79`)
	inventory, err := nvidiasmi.Parse(strings.NewReader(h.Sh(t, `nvidia-smi -q -x`)))
	if err != nil || len(inventory.GPUs) != 4 || len(uuids) != 4 {
		t.Fatalf("%+v, %v", inventory, err)
	}
	for i, g := range inventory.GPUs {
		if want := map[int]int{2: 1}[i]; g.UUID != uuids[i] || g.Processes != want || (g.Health == "healthy") != (i != 1) {
			t.Errorf("GPU %d: %+v", i, g)
		}
	}
}
