package sweep_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux"
)

// disposable skips a test that creates and removes users on a system that is in use.
func disposable(t *testing.T) {
	t.Helper()
	if os.Getenv("GPUAAS_DISPOSABLE_HOST") != "1" {
		t.Skip("changes the host OS: go test -tags 'e2e nomsgpack' -run Inside ./e2e/host runs it in a container")
	}
}

// left counts the tenants of these tests. Containers share the keys in the kernel: two that run at once must not share
// a uid.
var left atomic.Int32

// departingTenant is a tenant that the tools of the host OS create, without our steps.
type departingTenant struct {
	t    *testing.T
	host *linux.Host
	name string
	uid  int
}

func newDepartingTenant(t *testing.T) departingTenant {
	t.Helper()
	disposable(t)
	n := int(left.Add(1)) + 100*(os.Getpid()%1000)
	l := departingTenant{t, &linux.Host{}, fmt.Sprintf("t-%x", n), 210000 + n}
	l.root(`mkdir -p /etc/systemd/logind.conf.d; printf '[Login]\nUserStopDelaySec=0\n' >/etc/systemd/logind.conf.d/50-gpuaas.conf; systemctl kill --signal=HUP systemd-logind.service
		groupadd -g $U $N; useradd -m -u $U -g $U -s /bin/bash $N; usermod -p '*' $N`)
	t.Cleanup(func() { // whatever a test that failed has left
		_ = exec.Command("sh", "-c", l.fill(`pkill -KILL -u $U; umount -l /home/$N; userdel -rf $N`)).Run()
	})
	return l
}

// fill replaces the uid, the name and the path of this program.
func (l departingTenant) fill(script string) string {
	return strings.NewReplacer("$U", fmt.Sprint(l.uid), "$N", l.name, "$SELF", os.Args[0]).Replace(script)
}

func (l departingTenant) root(script string) {
	l.t.Helper()
	l.run(exec.Command("bash", "-euc", l.fill(script)))
}

// login runs a script in a session of the tenant's, as sshd would start one.
func (l departingTenant) login(script string) {
	l.t.Helper()
	l.run(exec.Command("su", "-l", l.name, "-c", "set -eu; export XDG_RUNTIME_DIR=/run/user/"+fmt.Sprint(l.uid)+"; "+l.fill(script)))
}

func (l departingTenant) run(cmd *exec.Cmd) {
	l.t.Helper()
	// Into a file: a process in the background would leave a pipe open.
	out, err := os.CreateTemp(l.t.TempDir(), "out")
	if err != nil {
		l.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		l.t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
}

func (l departingTenant) scan() string {
	l.t.Helper()
	found, err := l.host.Scan(l.t.Context(), l.name, l.uid, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return strings.Join(found, "\n")
}

// release does the part of a release that needs no C code: the home is a folder here.
func (l departingTenant) release() error {
	ctx, cancel := context.WithTimeout(l.t.Context(), 20*time.Second)
	defer cancel()
	return l.releaseWithin(ctx)
}

func (l departingTenant) releaseWithin(ctx context.Context) error {
	l.t.Helper()
	for _, step := range []struct {
		name string
		do   func(context.Context, string, int) error
	}{{"end", l.host.End}, {"sweep", l.host.Sweep}, {"remove account", l.host.RemoveAccount}} {
		began := time.Now()
		if err := step.do(ctx, l.name, l.uid); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		l.t.Logf("%s: %s", step.name, time.Since(began).Round(time.Millisecond))
	}
	return nil
}
