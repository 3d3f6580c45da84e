package hostos_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

func put(t *testing.T, o *hostos.OS, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(o.Path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// FuzzMounts: a tenant chooses the name of what it mounts in a namespace, and root may see it.
func FuzzMounts(f *testing.F) {
	f.Add("36 35 98:0 /mnt1 /mnt\\040x rw,nosuid,nodev master:1 - ext4 /dev/loop0 rw\n")
	f.Add("36 35 98:0 / / rw - - - - - -\n")
	f.Fuzz(func(t *testing.T, text string) {
		o := &hostos.OS{Root: t.TempDir()}
		put(t, o, "/proc/self/mountinfo", text)
		mounts, err := o.Mounts()
		for point, m := range mounts {
			if err == nil && (m.Point != point || m.Kind == "") {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}

// FuzzUsers: only a whole line is an account.
func FuzzUsers(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/bash\nu1:x:200001:200001::/home/u1:/bin/sh\n")
	f.Add("u1:x:-1:99999999999999999999::/:\n::::::\n")
	f.Fuzz(func(t *testing.T, text string) {
		o := &hostos.OS{Root: t.TempDir()}
		put(t, o, "/etc/passwd", text)
		users, err := o.Users()
		for _, u := range users {
			if err == nil && strings.ContainsAny(u.Name+u.Home+u.Shell, ":\n") {
				t.Errorf("%q: %+v", text, u)
			}
		}
	})
}
