package linux_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/protocol"
)

// mounted provisions a tenant, then mounts storage that is away: nothing listens at its endpoint. A test of a whole installation mounts
// storage that is there.
func mounted(t *testing.T, h *linux.Host, mounts ...protocol.Mount) protocol.AllocationParams {
	t.Helper()
	o := paramsOf(t, h, 0)
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	o.Storage = &protocol.Storage{Endpoint: "http://127.0.0.1:9", Bucket: uuid.NewString(), Mounts: mounts}
	g := storagekey.Grant{MountKeys: protocol.MountKeys{ExpiresAt: time.Now().Add(time.Hour)}}
	for _, m := range mounts {
		g.Keys = append(g.Keys, protocol.MountKey{At: m.At, AccessKeyID: "GK" + uuid.NewString(), Secret: "secret/of+a=mount"})
	}
	h.StorageKeys = &storagekey.Store{}
	h.StorageKeys.Put(o.UID, g)
	if err := runStep(t.Context(), h, step.PutStorage(), o, &protocol.Proof{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = h.RemoveMounts(t.Context(), o.User, o.UID) })
	return o
}

// asTenant runs a command in the slice of the tenant.
func asTenant(t *testing.T, o protocol.AllocationParams, script string) string {
	t.Helper()
	out, err := exec.Command("systemd-run", "--quiet", "--pipe", "--wait", "--collect", fmt.Sprintf("--uid=%d", o.UID), fmt.Sprintf("--slice=user-%d.slice", o.UID),
		"--setenv=HOME=/home/"+o.User, "--working-directory=/", "/bin/sh", "-c", script).CombinedOutput()
	return fmt.Sprint(strings.TrimSpace(string(out)), " ", err)
}

func says(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

func reports(t *testing.T, h *linux.Host, o protocol.AllocationParams) []protocol.MountReport {
	t.Helper()
	s, err := h.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if broken := step.Differences(s, o); len(broken) > 0 {
		t.Errorf("an allocation whose storage is away is broken: %q", broken)
	}
	return step.MountReports(s, o)
}

// quickly fails a test whose work waits for a mount.
func quickly(t *testing.T, most time.Duration, what string, do func() error) {
	t.Helper()
	began := time.Now()
	err := do()
	took := time.Since(began)
	t.Logf("%s: %v after %s", what, err, took.Round(time.Millisecond))
	if err != nil || took > most {
		t.Errorf("%s: %v after %s, want at most %s", what, err, took, most)
	}
}

func TestMountsWithoutStorage(t *testing.T) { //nolint:paralleltest // one node
	h := node(t)
	o := mounted(t, h, protocol.Mount{At: "out", Path: `a "folder" of $HOME 100%n`}, protocol.Mount{At: "work/data", ReadOnly: true})
	uid := fmt.Sprint(o.UID)
	s, err := h.Inspect(t.Context())
	if err != nil || s.MountSupport == nil || !s.MountSupport.Supported {
		t.Fatalf("%+v, %v", s.MountSupport, err)
	}
	if got := reports(t, h, o); len(got) != 2 || !got[0].Mounted || !got[1].Mounted {
		t.Fatalf("%+v", got)
	}
	if out := says(t, `ps -o args= -U $1 | grep -c '[r]clone mount'; ps -o args= -U $1 | grep '[r]clone mount'`, uid); !strings.HasPrefix(out, "2\n") || !strings.Contains(out, `/a "folder" of $HOME 100%n/`) {
		t.Errorf("the arguments of rclone:\n%s", out)
	}
	if out := says(t, `stat -c '%a %U %G' /run/gpuaas/mounts/$1/0.conf /run/gpuaas/mounts/$1/spec.json; grep -c secret/of /run/gpuaas/mounts/$1/0.conf`, uid); out != "440 root "+o.User+"\n600 root root\n1" {
		t.Errorf("the files of a mount: %s", out)
	}
	if out := asTenant(t, o, `ls ~/out; : <>/dev/fuse`); !strings.Contains(out, "Input/output error") || !strings.Contains(out, "/dev/fuse: Operation not permitted") {
		t.Errorf("in the slice of the tenant: %s", out)
	}
	if out := says(t, `nft list set inet gpuaas storage4`); !strings.Contains(out, uid+" . 127.0.0.1 . 9") {
		t.Errorf("packet rules: %s", out)
	}
	// What ends is mounted again: by systemd, and by the same step.
	for how, end := range map[string]string{"killed": "systemctl kill --signal=KILL gpuaas-mount-$1-0.service", "stopped": "systemctl stop gpuaas-mount-$1-0.service", "without its unit": "systemctl stop gpuaas-mount-$1-0.service; rm /run/systemd/system/gpuaas-mount-$1-0.service; systemctl daemon-reload"} {
		says(t, end+"; sleep 0.5", uid)
		if got := reports(t, h, o); got[0].Mounted || got[0].Message == "" || !got[1].Mounted {
			t.Errorf("%s: %+v", how, got)
		} else {
			t.Logf("%s: %s", how, got[0].Message)
		}
		if err := runStep(t.Context(), h, step.PutStorage(), o, &protocol.Proof{}); err != nil {
			t.Errorf("%s: %v", how, err)
		}
	}
	// Another weight reaches the running mounts.
	o.Limits.CPUWeight = 300
	if s, err = h.Inspect(t.Context()); err != nil || len(step.MountDifferences(s, o)) != 2 {
		t.Errorf("%q, %v", step.MountDifferences(s, o), err)
	}
	if err := runStep(t.Context(), h, step.PutStorage(), o, &protocol.Proof{}); err != nil {
		t.Error(err)
	}
	if out := says(t, `systemctl show --property=CPUWeight --value gpuaas-mounts-$1.slice`, uid); out != "300" {
		t.Errorf("the CPU weight of the mounts is %s", out)
	}
	o.Limits.CPUWeight = 0 // the slice of the account has the default
	quickly(t, 10*time.Second, "a release without storage", func() error {
		_, err := h.RemoveMounts(t.Context(), o.User, o.UID)
		return err
	})
	if got := reports(t, h, o); got[0].Mounted || got[1].Mounted {
		t.Errorf("%+v", got)
	}
	if out := says(t, `ls /run/gpuaas/mounts | grep $1 || true; ls /run/systemd/system | grep gpuaas-mount || true; grep user_id=$1 /proc/mounts || true; ls -d /sys/fs/cgroup/gpuaas.slice/*/*$1* 2>/dev/null || true; systemctl list-units --all --no-legend "gpuaas-mount*$1*" || true`, uid); out != "" {
		t.Errorf("left: %s", out)
	}
	if _, err := carry(t.Context(), h, protocol.RevokeUser, o); err != nil {
		t.Error(err)
	}
}

// A tenant stops rclone, so that nothing responds to a read below the mount. No part of the agent waits for it.
func TestMountThatHangs(t *testing.T) { //nolint:paralleltest // one node
	h := node(t)
	o := mounted(t, h, protocol.Mount{At: "data"})
	if out := asTenant(t, o, `pkill -STOP rclone`); out != " <nil>" {
		t.Fatal(out)
	}
	stuck := exec.Command("systemd-run", "--quiet", "--pipe", "--wait", "--collect", fmt.Sprintf("--uid=%d", o.UID), fmt.Sprintf("--slice=user-%d.slice", o.UID), "/bin/ls", "/home/"+o.User+"/data")
	if err := stuck.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	quickly(t, 5*time.Second, "an inspection", func() error { _, err := h.Inspect(t.Context()); return err })
	var found []string
	quickly(t, 20*time.Second, "a scan", func() (err error) {
		found, err = h.Scan(t.Context(), o.User, o.UID, nil)
		return err
	})
	for _, want := range []string{"mount on /var/lib/gpuaas/homes/" + o.User + "/data/home/data", fmt.Sprintf("gpuaas-mount-%d-0.service", o.UID), fmt.Sprintf("/run/gpuaas/mounts/%d", o.UID), "control group"} {
		if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, want) }) {
			t.Errorf("%q is not among the leftovers\n%s", want, strings.Join(found, "\n"))
		}
	}
	proof := &protocol.Proof{}
	quickly(t, 2*time.Minute, "a release", func() (err error) {
		proof, err = carry(t.Context(), h, protocol.RevokeUser, o)
		return err
	})
	if !slices.Contains(proof.Checks, "mounts") {
		t.Errorf("%q", proof.Checks)
	}
	_ = stuck.Wait()
}

// A FUSE mount that no step has made is found, and the sweep detaches it.
func TestPlantedMount(t *testing.T) { //nolint:paralleltest // one node
	h := node(t)
	o := mounted(t, h, protocol.Mount{At: "data"})
	if _, err := h.RemoveMounts(t.Context(), o.User, o.UID); err != nil {
		t.Fatal(err)
	}
	dir := "/var/tmp/planted"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	says(t, `chown $1 $2; systemd-run --quiet --uid=$1 --unit=planted --property=Type=notify rclone mount --config=/dev/null :local:/usr $2`, fmt.Sprint(o.UID), dir)
	found, err := h.Scan(t.Context(), o.User, o.UID, nil)
	if err != nil || !slices.Contains(found, "mount on "+dir) {
		t.Errorf("%q, %v", found, err)
	}
	if err := h.Sweep(t.Context(), o.User, o.UID); err != nil {
		t.Error(err)
	}
	if out := says(t, `grep user_id=$1 /proc/mounts || true`, fmt.Sprint(o.UID)); out != "" {
		t.Errorf("left: %s", out)
	}
	if _, err := carry(t.Context(), h, protocol.RevokeUser, o); err != nil {
		t.Error(err)
	}
}
