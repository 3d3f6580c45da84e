package access

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// An argument reaches the program as it is, whatever a shell would make of it.
func TestQuotedWordsReachTheProgram(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"", "a", "a b", "$(id)", "`id`", "a'b", `a"b`, `a\b`, "*", "~", "-oProxyCommand=id", "a\nb", "ü", "%h"} {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}

func TestPathsOfOneAllocation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		paths []string
		want  string
	}{
		{[]string{"a.txt", "otter:"}, "otter"},
		{[]string{"otter:a", "otter:b", "."}, "otter"},
		{[]string{"./x:y", "otter:"}, "otter"}, // a local file with a colon
		{[]string{"a", "b"}, ""},
		{[]string{"otter:a", "badger:b"}, ""},
	} {
		got, err := remoteOf(c.paths)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q, %v", c.paths, got, err)
		}
	}
}

// The configuration is included once, before everything else, and is removed without a trace.
func TestTheConfigurationOfSSH(t *testing.T) {
	t.Parallel()
	c := sshConfig{dir: t.TempDir()}
	main := filepath.Join(c.dir, "config")
	const own = "Host example\n  User me\n"
	if err := os.WriteFile(main, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.write(); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(main); err != nil || string(text) != include+own {
		t.Errorf("%q, %v", text, err)
	}
	if err := c.remove(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(main)
	if _, left := os.Stat(filepath.Join(c.dir, "gpuaas")); err != nil || string(text) != own || !os.IsNotExist(left) {
		t.Errorf("%q, %v, %v", text, err, left)
	}
}

// ssh itself reads what is written for an allocation.
func TestSSHReadsTheHost(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("ssh")
	if err != nil {
		t.Skip("ssh is not installed")
	}
	dir := t.TempDir()
	one := &target{dir: filepath.Join(dir, "keys", `a "b" %h`), certificate: oapi.SshCertificate{Login: "u200017"}}
	if err := one.writeHost(dir, "brave-otter.gpuaas"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "-G", "-F", filepath.Join(dir, "brave-otter.gpuaas.conf"), "brave-otter.gpuaas").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"user u200017\n", "identityfile " + filepath.Join(dir, "keys", `a "b" %%h`, "key") + "\n", "identitiesonly yes\n", "proxycommand " + self() + " ssh --stdio " + one.allocation.Id.String()} {
		if !strings.Contains(string(out), want) {
			t.Errorf("ssh does not read %q in %s", want, out)
		}
	}
}

func TestNamesForAShell(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"brave-otter": true, "01990f41-2b00-7a55-9c3e-0a1b2c3d4e5f": true, "": false, "a b": false, "a\n": false, "$(id)": false, "-o": true, "A": false, strings.Repeat("a", 64): false,
	} {
		if validName(name) != valid {
			t.Errorf("%q: %v", name, !valid)
		}
	}
}

// Bytes of the server reach stdout, and the reason of its end the user.
func TestTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code   websocket.StatusCode
		reason string
		want   string
	}{
		"the end of ssh":         {websocket.StatusNormalClosure, "", ""},
		"a lost right":           {4401, "right_lost", "you have no access to the allocation"},
		"a server that restarts": {websocket.StatusServiceRestart, "restarted", "the server of the session restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, err := websocket.Accept(w, r, nil)
				if err != nil {
					return
				}
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"session"}`))
				_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("SSH-2.0-"))
				_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("test\r\n"))
				_ = conn.Close(c.code, c.reason)
			}))
			t.Cleanup(server.Close)
			conn, _, err := websocket.Dial(t.Context(), server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err = copyOutput(context.WithoutCancel(t.Context()), &out, conn)
			if out.String() != "SSH-2.0-test\r\n" || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
}

// The status of the shell is that of the command.
func TestTheStatusOfTheShell(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_, size, _ := conn.Read(r.Context())
		_, typed, _ := conn.Read(r.Context())
		_ = conn.Write(r.Context(), websocket.MessageBinary, append(size, typed...))
		_ = conn.Write(r.Context(), websocket.MessageText, []byte(`{"type":"exit","status":3,"reason":"exited"}`))
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}))
	t.Cleanup(server.Close)
	conn, _, err := websocket.Dial(t.Context(), server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, typing := io.Pipe()
	go func() { _, _ = typing.Write([]byte("exit 3\n")) }()
	var out strings.Builder
	err = attach(t.Context(), &output.Console{In: in, Out: &out}, conn)
	failed, ok := err.(*output.CommandError) //nolint:errorlint // returned as it is
	if !ok || failed.Exit != 3 || out.String() != `{"type":"resize","columns":80,"rows":24}`+"exit 3\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// Each reason of the contract has a text and a suggestion.
func TestReasonsHaveTexts(t *testing.T) {
	t.Parallel()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range doc.Components.Schemas["TerminalEndReason"].Value.Enum {
		if e := ends[oapi.TerminalEndReason(reason.(string))]; e.text == "" || e.try == "" {
			t.Errorf("%s has no text", reason)
		}
	}
}
