//go:build e2e

package acceptance

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// setRecording sets the policy for the project of the user.
func setRecording(t *testing.T, mode string) {
	t.Helper()
	body := map[string]any{"scope": "project:" + profiles["default"].Project, "value": mode}
	if r := (request{as: "admin", method: "PUT", path: "/api/v1/admin/policies/terminal.recording", body: body}).send(t); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
}

func (a *allocation) token(t *testing.T, purpose string) reply {
	t.Helper()
	return request{method: "POST", path: allocations + "/" + a.ID + "/terminal-token", body: map[string]any{"purpose": purpose}}.send(t)
}

// typed types lines in a terminal, and returns what it has displayed at its end, and whether the client was informed of a
// recording.
func (a *allocation) typed(t *testing.T, lines string) (screen string, recorded bool) {
	t.Helper()
	var made struct{ Token, URL string }
	if r := a.token(t, "shell"); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	} else {
		r.into(t, &made)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, made.URL, &websocket.DialOptions{
		Subprotocols: []string{"gpuaas.terminal.v1", "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(made.Token))},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow() //nolint:errcheck // it has ended
	conn.SetReadLimit(1 << 20)
	if err := conn.Write(ctx, websocket.MessageBinary, []byte(lines)); err != nil {
		t.Fatal(err)
	}
	for {
		kind, p, err := conn.Read(ctx)
		switch {
		case err != nil:
			if ctx.Err() != nil {
				t.Fatalf("the shell did not end: %q", screen)
			}
			return screen, recorded
		case kind == websocket.MessageBinary:
			screen += string(p)
		case strings.Contains(string(p), `"session"`):
			recorded = strings.Contains(string(p), `"recorded":true`)
		}
	}
}

// AT-097★: a required recording plays back equal to the screen; end-to-end SSH is rejected.
func TestAT097(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-097")
	a.becomes(t, "active")
	setRecording(t, "required")
	t.Cleanup(func() { setRecording(t, "off") })
	var denied reply
	until(t, "SSH is rejected", func() bool { denied = a.token(t, "ssh"); return denied.status == http.StatusForbidden })
	if text := string(denied.body); !strings.Contains(text, "policy_denied") || !strings.Contains(text, "gpuaas terminal") {
		t.Errorf("%s", text)
	}
	certificate := request{method: "POST", path: allocations + "/" + a.ID + "/ssh-certificate", body: map[string]any{"public_key": publicKey}}.send(t)
	if certificate.status != http.StatusForbidden || !strings.Contains(string(certificate.body), "policy_denied") {
		t.Errorf("a certificate: %d %s", certificate.status, certificate.body)
	}

	screen, recorded := a.typed(t, "printf 'pri%s \\033[31mred\\033[0m gr\\303\\274\\303\\237e\\n' nted\nexit\n")
	if !recorded {
		t.Error("the client is not informed of the recording")
	}
	if !strings.HasPrefix(screen, "This session is recorded.\r\n") || !strings.Contains(screen, "printed \x1b[31mred\x1b[0m grüße") {
		t.Errorf("%q", screen)
	}
	var list struct {
		Items []struct{ ID, Status string }
	}
	until(t, "the recording is complete", func() bool {
		get(t, "/api/v1/terminal-recordings?allocation_id="+a.ID, &list)
		return len(list.Items) == 1 && list.Items[0].Status == "complete"
	})
	path := "/api/v1/terminal-recordings/" + list.Items[0].ID
	read := request{method: "GET", path: path}.send(t)
	if played := play(t, read); played != screen {
		t.Errorf("the recording plays %q, and the screen was %q", played, screen)
	}
	for _, role := range []string{"operator", "admin"} {
		if r := (request{as: role, method: "GET", path: path, header: map[string]string{"X-Project-ID": profiles["default"].Project}}).send(t); r.status != http.StatusForbidden {
			t.Errorf("%s reads the recording: %d %.200s", role, r.status, r.body)
		}
	}
	var audit struct{ Items []struct{ Action string } }
	get(t, "/api/v1/audit-logs?action=terminal.recording_read", &audit)
	if len(audit.Items) != 1 {
		t.Errorf("%d audit rows of one read", len(audit.Items))
	}
}

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE at-097"

// play returns what a player prints. Equal bytes give equal screens.
func play(t *testing.T, r reply) (output string) {
	t.Helper()
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/x-asciicast" {
		t.Fatalf("%d %s %.300s", r.status, r.header.Get("Content-Type"), r.body)
	}
	header, events, _ := strings.Cut(string(r.body), "\n")
	if !strings.Contains(header, `"version": 2`) {
		t.Errorf("%q", header)
	}
	for line := range strings.Lines(events) {
		var event []any
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event[1] == "i" {
			t.Errorf("the recording contains input: %s", line)
		}
		if event[1] == "o" {
			output += event[2].(string)
		}
	}
	return output
}
