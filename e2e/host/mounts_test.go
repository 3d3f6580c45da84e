//go:build e2e

package host

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// mount creates an allocation whose home shows folders of the project.
func (s *scenario) mount(mounts ...map[string]string) (a allocation) {
	s.t.Helper()
	s.made++
	s.sold(map[string]any{"sku": "l40s", "gpus": 1, "name": fmt.Sprintf("story-%d", s.made), "mounts": mounts}, &a)
	s.becomes(a, "active")
	a, err := s.now(a)
	must(s.t, err)
	return a
}

// stored returns the content of a stored object, or an empty one.
func (s *scenario) stored(path string) (text string) {
	_ = s.call("default", "GET", "/api/v1/storage/download?path="+path, nil, &rawText{&text})
	return text
}

// rawText receives a response that is no JSON document.
type rawText struct{ to *string }

func (r *rawText) UnmarshalJSON(text []byte) error {
	*r.to = string(text)
	return nil
}

// A program of a tenant reads stored objects and stores others, over the mounts of its allocation. Neither the end of the
// allocation nor an outage of the storage loses what was stored, or stops the release.
func TestMounts(t *testing.T) {
	t.Parallel()
	s := begin(t)
	defer func() {
		if t.Failed() {
			t.Logf("the node:\n%s", s.host.Sh(t, `journalctl --no-pager -n 60 -u 'gpuaas-agent*' 2>&1; ss -tanep 2>&1; cat /proc/net/tcp; grep fuse /proc/self/mountinfo || true`))
		}
	}()
	file := s.path("train.json")
	must(t, os.WriteFile(file, []byte(`{"rows":3}`), 0o600))
	s.cli("default", "storage", "cp", file, "default:dataset/train.json")

	a := s.mount(map[string]string{"path": "dataset", "at": "data", "mode": "ro"}, map[string]string{"path": "runs", "at": "work/out"})
	out := s.as(a, `cat data/train.json; echo x 2>&1 >data/x; (: <>/dev/fuse) 2>&1; sed s/3/4/ data/train.json >work/out/result.json; ls work/out; findmnt -no FSTYPE,OPTIONS data`)
	for _, want := range []string{`{"rows":3}`, "Read-only file system", "/dev/fuse: Operation not permitted", "result.json", "fuse.rclone ro,nosuid,nodev"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	within(t, 20*time.Second, "the file is stored", func() error {
		if got := s.stored("runs/result.json"); got != `{"rows":4}` {
			return fmt.Errorf("stored: %q", got)
		}
		return nil
	})
	// The commands of the user's computer copy by the SSH server of the node.
	name := fmt.Sprintf("story-%d", s.made)
	s.cli("default", "storage", "cp", "alloc:"+name+":work/out/result.json", ":copied/by-ssh.json")
	s.cli("default", "storage", "cp", ":dataset/train.json", "alloc:"+name+":from project.json")
	if got, out := s.stored("copied/by-ssh.json"), s.as(a, `cat 'from project.json'`); got != `{"rows":4}` || out != `{"rows":3}` {
		t.Errorf("copied from the node %q, and to it %q", got, out)
	}
	// A mount point that the tenant has replaced by a link is not mounted, neither there nor in the folder of the node.
	s.as(a, `mv work away && ln -s /var/tmp work`)
	uid := strings.TrimPrefix(a.Login, "u")
	s.host.Sh(t, `systemctl restart gpuaas-mount-$1-1.service || true`, uid)
	within(t, 9*time.Second, "nothing is mounted behind the link", func() error {
		if out := s.host.Sh(t, `grep ' /var/tmp/' /proc/self/mountinfo || true; systemctl is-active gpuaas-mount-$1-1.service || true`, uid); strings.Contains(out, "/var/tmp") || out == "active" {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	s.as(a, `rm work`)
	within(t, patience, "the folder is mounted again", func() error {
		if out := s.as(a, `cat work/out/result.json 2>&1 || true`); out != `{"rows":4}` {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	// rclone sees the folders and the processes of the node. The tenant reaches them neither by it nor by its descriptors.
	pids := strings.Fields(s.host.Sh(t, `pgrep rclone`))
	if out := s.as(a, `pgrep rclone; for p in `+strings.Join(pids, " ")+`; do ls /proc/$p/root/tmp /proc/$p/root/proc/1 /proc/$p/fd; cat /proc/$p/environ; done 2>/dev/null; true`); out != "" || len(pids) != 2 {
		t.Errorf("through the processes %v of rclone: %s", pids, out)
	}
	if out := s.as(a, `ls -d ${HOME%/home}/mounts/0 /var/lib/gpuaas/homes/$USER/data/mounts/0 2>/dev/null; true`); out != "" {
		t.Errorf("the tenant reaches the cache of a mount: %s", out)
	}
	// A restart of the agent interrupts nothing, and what the tenant kills is mounted again.
	s.host.Sh(t, `systemctl restart gpuaas-agent-helper gpuaas-agent`)
	if out := s.as(a, `cat data/train.json; kill -KILL `+strings.Join(pids, " ")+`; true`); !strings.HasPrefix(out, `{"rows":3}`) {
		t.Error(out)
	}
	within(t, patience, "a killed mount is mounted again", func() error {
		if out := s.as(a, `cat data/train.json 2>&1 || true`); out != `{"rows":3}` {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	// The release waits for the upload of what was written a moment before it.
	s.as(a, `echo '"last"' >work/out/last.json`)
	s.release(a)
	s.becomes(a, "released")
	if got := strings.TrimSpace(s.stored("runs/last.json")); got != `"last"` {
		t.Errorf("written before the release: %q", got)
	}
	if found := s.left(a); found != "" {
		t.Errorf("left on the node:\n%s", found)
	}

	b := s.mount(map[string]string{"path": "dataset", "at": "data"})
	port := s.storage[strings.LastIndex(s.storage, ":")+1:]
	s.host.Sh(t, `nft add table inet cut; nft add chain inet cut out '{ type filter hook output priority 0; }'; nft add rule inet cut out tcp dport $1 drop`, port)
	began := time.Now()
	if out := s.as(b, `ls data/other 2>&1 || true; echo '"lost"' >data/lost.json || true; true`); out == "" {
		t.Errorf("storage that is away: %q", out)
	}
	t.Logf("an I/O error after %s", time.Since(began).Round(time.Second))
	began = time.Now()
	s.release(b)
	s.becomes(b, "released")
	t.Logf("released without storage after %s", time.Since(began).Round(time.Second))
	if found := s.left(b); found != "" {
		t.Errorf("left on the node:\n%s", found)
	}
	s.host.Sh(t, `nft delete table inet cut`)
}
