package linux_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux"
	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-72. Threat: a part of one tenant that cannot be read makes the report of the node incomplete, so that
// no release of the others is sent.
func TestOneTenantHidesNoOther(t *testing.T) {
	t.Parallel()
	h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
	h.Run = func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
		switch {
		case strings.HasSuffix(path, "nvidia-smi"):
			return []byte(`<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>`), nil
		case strings.HasSuffix(path, "systemctl") && slices.Contains(args, "show"):
			return []byte("Id=user-200001.slice\n\nId=user-200002.slice\n"), nil
		}
		return nil, io.EOF
	}
	write(t, h, "/etc/passwd", "u1:x:200001:200001::/home/u1:/bin/sh\nu2:x:200002:200002::/home/u2:/bin/sh\n")
	write(t, h, linux.KeysDir+"/u1/not-a-file", "")
	write(t, h, linux.KeysDir+"/u2", "ssh-ed25519 AAAA\n")
	write(t, h, "/run/gpuaas/net/200002", "")
	write(t, h, "/proc/1/status", "Name:\tinit\nUid:\t0\t0\t0\t0\n")
	s, err := h.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Unread[200001] == "" || s.Unread[200002] != "" || len(s.Accounts) != 2 || len(s.Accounts[1].Keys) != 1 {
		t.Errorf("%+v", s)
	}
	// Rules of the network that cannot be read are drift of each tenant, and hide none.
	if a := s.Accounts[1]; a.Net || !strings.Contains(a.NetReason, io.EOF.Error()) {
		t.Errorf("%+v", a)
	}
	if found := step.Differences(s, protocol.AllocationParams{User: "u2", UID: 200002}); !slices.ContainsFunc(found, func(d string) bool { return strings.HasPrefix(d, "network: the rules of u2 cannot be read") }) {
		t.Errorf("%q", found)
	}
}

// A tenant whose slice is removed during an inspection opens no GPU: its account was removed before.
func TestATenantThatLeavesOpensNoGPU(t *testing.T) {
	t.Parallel()
	const before = "u1:x:200001:200001::/home/u1:/bin/sh\nu2:x:200002:200002::/home/u2:/bin/sh\n"
	for name, c := range map[string]struct {
		after   string
		process bool
		opens   bool
	}{
		"the account stays":              {before, false, true},
		"the account is removed":         {"u1:x:200001:200001::/home/u1:/bin/sh\n", false, false},
		"a process survives the account": {"u1:x:200001:200001::/home/u1:/bin/sh\n", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &linux.Host{OS: hostos.OS{Root: t.TempDir()}}
			write(t, h, "/etc/passwd", before)
			write(t, h, "/proc/1/status", "Name:\tinit\nUid:\t0\t0\t0\t0\n")
			if c.process {
				write(t, h, "/proc/7/status", "Name:\tsleep\nUid:\t200002\t200002\t200002\t200002\n")
			}
			h.Run = func(_ context.Context, path string, _ []byte, args ...string) ([]byte, error) {
				switch {
				case strings.HasSuffix(path, "nvidia-smi"):
					return []byte(twoCards), nil
				case strings.HasSuffix(path, "systemctl") && slices.Contains(args, "show"):
					write(t, h, "/etc/passwd", c.after)
					return []byte("Id=user-200001.slice\nDevicePolicy=closed\n\nId=user-200002.slice\nDevicePolicy=auto\n"), nil
				}
				return nil, io.EOF
			}
			s, err := h.Inspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range s.GPUs {
				if slices.Contains(g.Users, "u1") || slices.Contains(g.Users, "u2") != c.opens {
					t.Errorf("%s is open to %q", g.UUID, g.Users)
				}
			}
			if len(s.GPUs) != 2 {
				t.Errorf("%d GPUs", len(s.GPUs))
			}
		})
	}
}
