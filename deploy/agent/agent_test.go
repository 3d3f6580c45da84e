package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	agent "github.com/gpuaas/gpuaas/deploy/agent"
)

// The score that systemd gives the sandbox of each half, in tenths.
func TestTheUnitsAreConfined(t *testing.T) {
	t.Parallel()

	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here: the sandbox of the units is not scored")
	}
	for unit, threshold := range map[string]string{agent.NetworkUnit: "15", agent.HelperUnit: "50", agent.SSHDUnit: "15", agent.GuardUnit: "15"} {
		out, err := exec.Command(tool, "security", "--no-pager", "--offline=true", "--threshold="+threshold, lay(t, unit)).CombinedOutput()
		if err != nil {
			t.Errorf("%s is above %s tenths: %v\n%s", unit, threshold, err, out)
		}
		if !strings.Contains(string(out), "Overall exposure level") {
			t.Errorf("%s was not scored:\n%s", unit, out)
		}
	}
}

func lay(t *testing.T, unit string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), unit)
	text, err := agent.File{Name: unit}.Text()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A home that the helper mounts must be visible in the host OS: neither unit may have a mount namespace. And
// neither unit may end a tenant's processes when it ends.
func TestTheHelperSharesTheHostsMounts(t *testing.T) {
	t.Parallel()

	text, err := agent.File{Name: agent.HelperUnit}.Text()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		for _, option := range []string{
			"ProtectSystem=", "ProtectHome=", "PrivateTmp=", "PrivateDevices=", "PrivateMounts=", "PrivateUsers=", "PrivateNetwork=", "ProtectKernelTunables=", "ProtectKernelModules=",
			"ProtectKernelLogs=", "ProtectControlGroups=", "ProtectProc=", "ProcSubset=", "ReadWritePaths=", "ReadOnlyPaths=", "InaccessiblePaths=", "BindPaths=", "RootDirectory=",
			"RootImage=", "MountFlags=", "TemporaryFileSystem=", "DynamicUser=", "RuntimeDirectory=",
		} {
			if strings.HasPrefix(line, option) {
				t.Errorf("the helper has %s", strings.TrimSpace(line))
			}
		}
	}
	for _, f := range agent.Files() {
		text, err := f.Text()
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %v", f.Name, err)
		}
		if f.Name == agent.NetworkUnit || f.Name == agent.HelperUnit {
			for _, want := range []string{"Type=notify", "WatchdogSec=30", "Restart=always", "StartLimitBurst="} {
				if !strings.Contains(string(text), "\n"+want) {
					t.Errorf("%s lacks %s", f.Name, want)
				}
			}
		}
	}
}
