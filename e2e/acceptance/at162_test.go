//go:build e2e

package acceptance

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// commandVariable lets this program be the command line.
const commandVariable = "GPUAAS_ACCEPTANCE_COMMAND"

// offline runs a command of a third party: with files, and without a profile, a server and a network.
func offline(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	for _, flags := range []uintptr{syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, 0} { // a container may allow no namespace
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = dir, []string{commandVariable + "=1", "HOME=" + dir}, &syscall.SysProcAttr{Cloneflags: flags}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState != nil {
			return string(out), err
		}
	}
	t.Fatal("the command does not start")
	return "", nil
}

// ownEvidence requests the bundle of an allocation as its owner, and waits until it is signed.
func ownEvidence(t *testing.T) {
	t.Helper()
	a := create(t, skuOfOther, "at-162")
	a.becomes(t, "active")
	var made struct{ ID, Status, About string }
	r := request{method: "POST", path: allocations + "/" + a.ID + "/evidence"}.send(t)
	if r.into(t, &made); r.status != http.StatusAccepted || made.About != a.URN {
		t.Fatalf("%d %s", r.status, r.body)
	}
	until(t, "the bundle of the allocation is signed", func() bool {
		get(t, "/api/v1/evidence/"+made.ID, &made)
		return made.Status == "signed"
	})
}

// The first revision of the source is the change. Its bundle is built a minute after the installation has applied it.
func TestAT162(t *testing.T) {
	proves(t)
	ownEvidence(t)
	var list struct{ Items []struct{ ID string } }
	for end := time.Now().Add(3 * time.Minute); len(list.Items) == 0; time.Sleep(time.Second) {
		request{as: "operator", method: "GET", path: "/api/v1/evidence?kind=revision&status=signed"}.send(t).into(t, &list)
		if time.Now().After(end) {
			t.Fatal("no evidence of the first revision")
		}
	}
	path := "/api/v1/evidence/" + list.Items[0].ID
	var e struct {
		File      string
		SHA256    string
		KeyID     string `json:"key_id"`
		PublicKey string `json:"public_key"`
	}
	request{as: "operator", method: "GET", path: path}.send(t).into(t, &e)
	if r := (request{method: "GET", path: path}).send(t); r.status != http.StatusNotFound {
		t.Errorf("a tenant reads the bundle of a revision: %d %.200s", r.status, r.body)
	}

	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("bundle.json", e.File)
	write("changed.json", strings.Replace(e.File, `"payload":"ey`, `"payload":"fy`, 1))
	write("evidence.keys", fmt.Sprintf("%s %s\n", e.KeyID, e.PublicKey))
	write("other.keys", fmt.Sprintf("%s %s\n", e.KeyID, base64.StdEncoding.EncodeToString(make([]byte, 32))))
	if out, err := offline(t, dir, "evidence", "verify", "bundle.json", "--key", "evidence.keys", "--at-head", e.SHA256); err != nil || !strings.Contains(out, "whole") {
		t.Errorf("%v: %s", err, out)
	}
	for args, want := range map[string]string{"changed.json --key evidence.keys": "changed.json: envelope", "bundle.json --key other.keys": "is not of the key"} {
		if out, err := offline(t, dir, append([]string{"evidence", "verify"}, strings.Fields(args)...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}
