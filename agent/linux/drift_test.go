package linux_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/receiver"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/agent/task"
	"github.com/gpuaas/gpuaas/protocol"
)

// A change by root is detected, and a repetition of the same task corrects it without a scrub: the tenant's data is on
// the device.
func TestDriftIsReportedAndHealed(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	o := paramsOf(t, h, 2)
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	scrubs := &scrubCounter{Host: h}
	for _, c := range []struct{ way, script, says string }{
		{"a foreign key", `echo "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x" >>/run/gpuaas/keys/$N`, "keys: 2 login keys open $N and 1 of them are unknown"},
		{"a key with an option", `sed -i 's/^/command="id" /' /run/gpuaas/keys/$N`, "keys: 1 login keys open $N and 1 of them are unknown"},
		{"another principal", `echo mallory >>/run/gpuaas/principals/$N`, "principals: certificates for 2 names open $N and 1 of them are unknown"},
		{"a widened slice", `systemctl set-property user-$U.slice "DeviceAllow=/dev/nvidia0 rw"`, "is also limited by /etc/systemd/system.control"},
		{"a slice that is widened until the next start", `systemctl set-property --runtime user-$U.slice MemoryMax=infinity`, "is also limited by /run/systemd/system.control"},
		{"a slice without a policy", `sed -i s/DevicePolicy=closed/DevicePolicy=auto/ /etc/systemd/system/user-$U.slice.d/50-gpu.conf; systemctl daemon-reload`, "device policy auto, expected closed"},
		{"a slice that is written and not loaded yet", `echo "DeviceAllow=/dev/nvidia3 rw" >>/etc/systemd/system/user-$U.slice.d/50-gpu.conf`, "access: $N opens 2 GPUs"},
		{"a device of another kind", `echo "DeviceAllow=/dev/kvm rw" >>/etc/systemd/system/user-$U.slice.d/50-gpu.conf; systemctl daemon-reload`, "may open /dev/kvm rw, expected not"},
		{"no slice", `rm -r /etc/systemd/system/user-$U.slice.d; systemctl daemon-reload`, "device policy auto, expected closed"},
		{"a systemd of the tenant's own", `rm /etc/systemd/system/user@$U.service; systemctl daemon-reload`, "may run a systemd of its own, expected none"},
		{"a group", `groupadd -f docker; usermod -aG docker $N`, "is in group docker, expected in gpuaas only"},
		{"forwarding", `groupadd -f gpuaas-forward; usermod -aG gpuaas-forward $N`, "forwarding: $N has local, expected none"},
		{"a login from the node only", `gpasswd -d $N gpuaas-direct`, "login_from: logins of $N are accepted from loopback, expected everywhere"},
		{"changed login rules", `sed -i s/AllowTcpForwarding.no/AllowTcpForwarding\ yes/ /etc/ssh/sshd_config.d/50-gpuaas.conf`, "50-gpuaas.conf is not as this agent writes it"},
		{"login rules of another file", `echo "LoginGraceTime 30" >/etc/ssh/sshd_config.d/60-other.conf`, "sshd has not read its configuration since the last change"},
		{"no PAM block", `sed -i /pam_namespace/d /etc/pam.d/sshd`, "/etc/pam.d/sshd does not end with the tenants' block"},
		{"no network rules", `nft delete table inet gpuaas`, "network: the rules of $N"},
		{"a network rule less", `nft flush chain inet gpuaas output`, "network: $N"},
		{"an address less that is closed", `nft delete element inet gpuaas closed4 { 169.254.0.0/16 }`, "network: $N"},
		{"another resolver", `echo nameserver 127.0.0.99 >>/etc/resolv.conf`, "network: $N"},
		{"sockets without a filter", "DETACH", "network: $N"},
		{"shared /tmp", `echo >/etc/security/namespace.d/gpuaas.conf`, "namespace.d/gpuaas.conf is not as this agent writes it"},
		{"a home that is not there", `systemctl stop var-lib-gpuaas-homes-$N.mount`, "home: the key of $N was lost"},
		// Processes of the last probe may still be ending.
		{"no account", `for i in $(seq 100); do userdel $N && exit; pkill -KILL -u $N || true; sleep 0.1; done; exit 1`, "account: $N is missing"},
	} {
		fill := strings.NewReplacer("$N", o.User, "$U", fmt.Sprint(o.UID)).Replace
		if c.script == "DETACH" {
			if err := receiver.Detach("/sys/fs/cgroup"); err != nil {
				t.Fatal(err)
			}
		} else if out, err := exec.Command("bash", "-euc", fill(c.script)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.way, err, out)
		}
		s, err := h.Inspect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if wrong := step.Differences(s, o); !slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, fill(c.says)) }) {
			t.Errorf("%s: found %q, want %q", c.way, wrong, fill(c.says))
		}
		if _, err := carry(t.Context(), scrubs, protocol.ProvisionUser, o); err != nil {
			t.Errorf("%s is not corrected: %v", c.way, err)
		}
		if s, err = h.Inspect(t.Context()); err != nil || len(step.Differences(s, o)) > 0 {
			t.Errorf("%s: afterwards %q, %v", c.way, step.Differences(s, o), err)
		}
	}
	if scrubs.count > 0 {
		t.Errorf("%d scrubs of a device that its tenant works on", scrubs.count)
	}
}

type scrubCounter struct {
	*linux.Host

	count int
}

// A configuration that sshd rejects is removed again: with it sshd would not start
// again, for any tenant.
func TestSSHDKeepsWhatItHas(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	o := paramsOf(t, h, 3)
	if _, err := carry(t.Context(), h, protocol.ProvisionUser, o); err != nil {
		t.Fatal(err)
	}
	const old = "# an older one\nMatch Group gpuaas\n\tAuthorizedKeysFile none\nMatch all\n"
	const bad = "/etc/ssh/sshd_config.d/40-bad.conf"
	for path, text := range map[string]string{linux.SSHDFile: old, bad: "NoSuchOption yes\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := h.PutSettings(t.Context())
	if err == nil || !strings.Contains(err.Error(), "sshd rejects its configuration") {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(linux.SSHDFile); string(text) != old {
		t.Errorf("the old file is not preserved:\n%s", text)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if err := h.PutSettings(t.Context()); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(linux.SSHDFile); string(text) != linux.SSHDConf {
		t.Errorf("not corrected:\n%s", text)
	}
}

// Done twice is done once, undone twice too, and nothing is left.
func TestStepsAreLevels(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	o := paramsOf(t, h, 0, 3)
	if err := h.PutSettings(t.Context()); err != nil { // they stay
		t.Fatal(err)
	}
	before := traces(t, o)
	steps := task.Steps(protocol.ProvisionUser)
	for _, step := range steps {
		for range 2 {
			if step.Do == nil {
				continue
			}
			if err := step.Do(t.Context(), h, o); err != nil {
				t.Errorf("%s: %v", step.Name, err)
			}
			if step.Verify != nil {
				if err := step.Verify(t.Context(), h, o); err != nil {
					t.Errorf("%s: %v", step.Name, err)
				}
			}
		}
		if done, err := step.Check(t.Context(), h, o); err != nil || !done {
			t.Errorf("%s: not there after it was done twice: %v", step.Name, err)
		}
	}
	for _, step := range slices.Backward(steps) {
		for range 2 {
			if step.Undo != nil {
				if err := step.Undo(t.Context(), h, o); err != nil {
					t.Errorf("undoing %s: %v", step.Name, err)
				}
			}
		}
	}
	if after := traces(t, o); after != before {
		t.Errorf("left:\n%s\nbefore:\n%s", after, before)
	}
}

// Whichever command fails, the begun steps are undone, and the next try works.
func TestPlantedFailures(t *testing.T) { //nolint:paralleltest // one host
	h := node(t)
	if err := h.PutSettings(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := paramsOf(t, h, 1)
	before := traces(t, o)
	for n := 1; ; n++ {
		broken := node(t)
		count := broken.Break(n)
		_, err := provisionOrUnwind(t, broken, o)
		if *count < n {
			if err != nil {
				t.Errorf("nothing was planted: %v", err)
			}
			t.Logf("%d commands", *count)
			break
		}
		if err == nil || !strings.Contains(err.Error(), linux.ErrPlanted.Error()) {
			t.Errorf("command %d: %v", n, err)
		}
		if after := traces(t, o); after != before {
			t.Errorf("command %d (%v) left:\n%s\nbefore:\n%s", n, err, after, before)
		}
	}
}

// provisionOrUnwind is the runner's: what failed is undone from the last begun step.
func provisionOrUnwind(t *testing.T, h *linux.Host, o protocol.AllocationParams) (*protocol.Proof, error) {
	t.Helper()
	proof, begun := &protocol.Proof{}, []step.Step{}
	for _, step := range task.Steps(protocol.ProvisionUser) {
		if step.Name == "verify_inside" {
			break // it changes nothing, and is the slowest
		}
		begun = append(begun, step)
		if err := runStep(t.Context(), h, step, o, proof); err != nil {
			for _, step := range slices.Backward(begun) {
				if step.Undo != nil {
					if err := step.Undo(t.Context(), h, o); err != nil {
						t.Errorf("undoing %s: %v", step.Name, err)
					}
				}
			}
			return proof, fmt.Errorf("%s: %w", step.Name, err)
		}
	}
	return proof, nil
}

// traces returns the traces of the tenant on the host OS.
func traces(t *testing.T, o protocol.AllocationParams) string {
	t.Helper()
	script := strings.NewReplacer("$N", o.User, "$U", fmt.Sprint(o.UID)).Replace(
		`getent passwd $N; getent group $N; grep $N /etc/shadow /etc/gshadow /etc/subuid /etc/group; grep $N /proc/mounts
		find / -xdev \( -path /proc -o -path /sys -o -path /var/log \) -prune -o \( -name '*$N*' -o -name '*$U*' -o -uid $U -o -gid $U \) -print
		find /run /dev/shm /tmp \( -name '*$N*' -o -name '*$U*' -o -uid $U -o -gid $U \) -print; nft list ruleset | grep $U; losetup -a | grep $N; true`)
	out, err := exec.Command("bash", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(filepath.Base(l), "tmp.") })
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

func (s *scrubCounter) Scrub(ctx context.Context, gpu string) error {
	s.count++
	return s.Host.Scrub(ctx, gpu)
}
