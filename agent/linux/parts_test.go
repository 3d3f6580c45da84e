package linux_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// OpenSSH itself reads our list as we mean it.
func TestRevocationsAsOpenSSHReadsThem(t *testing.T) {
	t.Parallel()
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("ssh-keygen is not installed")
	}
	dir := t.TempDir()
	authority := newPair(t)
	list := filepath.Join(dir, "list")
	if err := os.WriteFile(list, linux.Revocations([]uint64{9, 7, 1 << 60, 7}), 0o600); err != nil {
		t.Fatal(err)
	}
	for serial, revoked := range map[uint64]bool{7: true, 9: true, 1 << 60: true, 8: false, 0: false, 1: false} {
		signer := authority.certify(t, "p", serial)
		cert := filepath.Join(dir, "cert")
		if err := os.WriteFile(cert, ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), keygen, "-Q", "-f", list, cert).CombinedOutput()
		if (err != nil) != revoked || strings.Contains(string(out), "REVOKED") != revoked {
			t.Errorf("serial %d: %s (%v), revoked %v", serial, out, err, revoked)
		}
	}
}

func TestRevocationsReadBack(t *testing.T) {
	t.Parallel()
	for _, serials := range [][]uint64{nil, {1}, {1, 2, 1 << 63}} {
		list := linux.Revocations(serials)
		if got, err := linux.Revoked(list); err != nil || !slices.Equal(got, serials) {
			t.Errorf("%v became %v (%v)", serials, got, err)
		}
		for i := range list {
			bad := slices.Clone(list)
			bad[i] ^= 1
			if got, err := linux.Revoked(bad); err == nil && slices.Equal(got, serials) {
				t.Errorf("a changed byte %d of %v passes", i, serials)
			}
			if got, err := linux.Revoked(list[:i]); err == nil && i > 0 && !slices.Equal(list[:i], linux.Revocations(got)) {
				t.Errorf("%d bytes of %v pass", i, serials)
			}
		}
	}
}

// A name or key that passes the checks of the task is rejected here.
func TestHostileNamesAndKeys(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	h.Run = hostos.Commander(func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
		t.Errorf("%s %q was run", path, args)
		return nil, errors.New("not here")
	})
	ctx := t.Context()
	for _, name := range []string{"", "root/../x", "-rf", "a b", "A", "a\n", "../../etc/passwd", "a;id", "$(id)", strings.Repeat("a", 32), "ü", "a\x00"} {
		for what, err := range map[string]error{
			"account": h.PutAccount(ctx, name, 200001), "home": h.PutHome(ctx, name, 200001, 1), "login": h.PutLogin(ctx, step.Login{User: name, UID: 200001}),
			"slice": h.PutSlice(ctx, step.Slice{User: name, UID: 200001}), "net": h.PutNet(ctx, name, 200001), "no account": h.RemoveAccount(ctx, name, 200001),
			"no home": h.RemoveHome(ctx, name, 200001), "no login": h.RemoveLogin(ctx, name, 200001), "no slice": h.RemoveSlice(ctx, name, 200001),
			"no net": h.RemoveNet(ctx, name, 200001), "block": h.BlockLogin(ctx, name, 200001), "end": h.End(ctx, name, 200001),
		} {
			if err == nil {
				t.Errorf("%s of %q was accepted", what, name)
			}
		}
	}
	for _, uid := range []int{-1, 0, 1000, 65534, 199999, 1 << 31} {
		if h.PutAccount(ctx, "u1", uid) == nil || h.PutSlice(ctx, step.Slice{User: "u1", UID: uid}) == nil || h.End(ctx, "u1", uid) == nil || h.RemoveHome(ctx, "u1", uid) == nil {
			t.Errorf("uid %d was accepted", uid)
		}
	}
	key := newKey(t)
	for _, bad := range []string{"", "x", `command="id" ` + key, "cert-authority " + key, key + "\n" + key, key + "\x00", "#" + key, "no-pty " + key} {
		for what, l := range map[string]step.Login{
			"key": {User: "u1", UID: 200001, Keys: []string{key, bad}}, "authority": {User: "u1", UID: 200001, CAs: []string{bad}},
		} {
			if err := h.PutLogin(ctx, l); err == nil {
				t.Errorf("%s %q was accepted", what, bad)
			}
		}
	}
	for _, principal := range []string{"*", "root", "a\nb", "0192-x"} {
		if err := h.PutLogin(ctx, step.Login{User: "u1", UID: 200001, Principal: principal}); err == nil {
			t.Errorf("principal %q was accepted", principal)
		}
	}
	if err := h.Kill(ctx, 1); err == nil {
		t.Error("the first process was killed")
	}
}

// A name or uid of another account, or in its subordinate range, is rejected
// before anything is run.
func TestAccountOfAnotherOwner(t *testing.T) {
	t.Parallel()
	for rule, files := range map[string]map[string]string{
		"the name":        {"/etc/passwd": "u1:x:1000:1000::/home/u1:/bin/sh\n"},
		"the uid":         {"/etc/passwd": "other:x:200001:200001::/home/other:/bin/sh\n"},
		"another group":   {"/etc/passwd": "u1:x:200001:0::/home/u1:/bin/sh\n"},
		"subordinate uid": {"/etc/passwd": "", "/etc/subuid": "ann:165536:65536\n"},
		"subordinate gid": {"/etc/passwd": "", "/etc/subgid": "ann:200001:1\n"},
	} {
		h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
		h.Run = hostos.Commander(func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
			t.Errorf("%s: %s %q was run", rule, path, args)
			return nil, nil
		})
		for name, text := range files {
			write(t, h, name, text)
		}
		if err := h.PutAccount(t.Context(), "u1", 200001); err == nil {
			t.Errorf("%s of another owner was replaced", rule)
		}
	}
}

func write(t *testing.T, h *linux.Host, name, text string) {
	t.Helper()
	path := filepath.Join(h.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// userdel's code 8: something of the tenant still runs, and a retry would hide it.
func TestAnAccountInUse(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	write(t, h, "/etc/passwd", "u1:x:200001:200001::/home/u1:/bin/sh\n")
	h.Run = hostos.Commander(func(ctx context.Context, path string, _ []byte, _ ...string) ([]byte, error) {
		if path == "/usr/sbin/userdel" {
			return hostos.Child(ctx, "/bin/sh", nil, "-c", "echo user u1 is currently used by process 7 >&2; exit 8")
		}
		return nil, nil
	})
	if err := h.RemoveAccount(t.Context(), "u1", 200001); err == nil || !strings.Contains(err.Error(), "still in use") || !strings.Contains(err.Error(), "process 7") {
		t.Errorf("%v", err)
	}
}

// A tenant continues a session of screen in another login: the sockets are in its home, and not in memory of the
// first login.
func TestSocketsOfScreenOutliveALogin(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	write(t, h, "/run/screen/x", "")
	if conf := h.NamespaceConf(); !strings.Contains(conf, "/run/screen /var/lib/gpuaas/homes/$USER/data/screen/ user:noinit root\n") {
		t.Error(conf)
	}
}

// The drop-in of a node with two memory nodes, from its sysfs and the driver's tool.
func TestSliceOfAHostWithTwoNodes(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	const gpu = "GPU-00000000-0000-0000-0000-00000000000"
	smi := `<nvidia_smi_log><attached_gpus>2</attached_gpus>` +
		`<gpu><uuid>` + gpu + `1</uuid><minor_number>1</minor_number><compute_mode>Default</compute_mode><pci><pci_bus_id>00000000:41:00.0</pci_bus_id></pci></gpu>` +
		`<gpu><uuid>` + gpu + `0</uuid><minor_number>0</minor_number><compute_mode>Exclusive_Process</compute_mode><persistence_mode>Disabled</persistence_mode><pci><pci_bus_id>00000000:81:00.0</pci_bus_id></pci></gpu></nvidia_smi_log>`
	h.Run = hostos.Commander(func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
		if strings.HasSuffix(path, "nvidia-smi") {
			return []byte(smi), nil
		}
		return nil, nil
	})
	for name, text := range map[string]string{
		"/proc/meminfo": "MemTotal:       1048576 kB\n", "/sys/bus/pci/devices/0000:41:00.0/numa_node": "0\n", "/sys/bus/pci/devices/0000:81:00.0/numa_node": "1\n",
		"/sys/devices/system/node/node0/cpulist": "0-15,32-47\n", "/sys/devices/system/node/node1/cpulist": "16-31,48-63\n",
		"/proc/driver/nvidia/capabilities/gpu0/mig/gi1/access": "DeviceFileMinor: 30\nDeviceFileMode: 292\n", "/proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access": "DeviceFileMinor: 31\n",
		"/etc/systemd/system.control/user-200001.slice.d/50-DeviceAllow.conf": "[Slice]\nDeviceAllow=/dev/nvidia1 rw\n",
	} {
		write(t, h, name, text)
	}
	if err := h.PutSlice(t.Context(), step.Slice{User: "u1", UID: 200001, GPUs: []string{gpu + "0"}, Limits: protocol.Limits{CPUWeight: 300, Tasks: 99}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(h.Root, "/etc/systemd/system/user-200001.slice.d/50-gpu.conf"))
	want := `# Written by gpuaas-agent, and written again when it is changed.
# Tenant u1
[Slice]
DevicePolicy=closed
DeviceAllow=
DeviceAllow=/dev/nvidia-caps/nvidia-cap30 r
DeviceAllow=/dev/nvidia-caps/nvidia-cap31 r
DeviceAllow=/dev/nvidia-uvm rw
DeviceAllow=/dev/nvidia-uvm-tools rw
DeviceAllow=/dev/nvidia0 rw
DeviceAllow=/dev/nvidiactl rw
DeviceAllow=char-pts rw
CPUAccounting=yes
CPUWeight=300
MemoryAccounting=yes
MemoryMax=460M
MemorySwapMax=0
TasksMax=99
IOWeight=100
AllowedCPUs=16-31,48-63
AllowedMemoryNodes=1
`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
	if _, err := os.Stat(filepath.Join(h.Root, "/etc/systemd/system.control/user-200001.slice.d/50-DeviceAllow.conf")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was set by hand stays: %v", err)
	}
	if err := h.PutSlice(t.Context(), step.Slice{User: "u1", UID: 200001, GPUs: []string{gpu + "9"}}); err == nil {
		t.Error("a GPU that is not there was granted")
	}
}
