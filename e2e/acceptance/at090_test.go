//go:build e2e

package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// attach opens a websocket with a token. It returns the response of a rejection.
func attach(t *testing.T, url, token string) (*websocket.Conn, *http.Response) {
	t.Helper()
	conn, response, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
		Subprotocols: []string{"gpuaas.terminal.v1", "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(token))},
	})
	if err != nil {
		return nil, response
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn, nil
}

// shows reads until a terminal has displayed a text, and returns the id of the session.
func shows(t *testing.T, conn *websocket.Conn, text string) (session string) {
	t.Helper()
	for screen := ""; !strings.Contains(screen, text); {
		kind, p, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("%v after %q", err, screen)
		}
		var m struct{ ID string }
		if kind == websocket.MessageBinary {
			screen += string(p)
		} else if json.Unmarshal(p, &m) == nil && m.ID != "" {
			session = m.ID
		}
	}
	return session
}

// AT-090: a terminal token works once; replayed and misplaced ones are rejected; a reload resumes. api/terminal tests late ones.
func TestAT090(t *testing.T) {
	proves(t)
	a := create(t, skuOfOther, "at-090")
	a.becomes(t, "active")
	type token struct{ Token, URL string }
	request := func(body map[string]any) (made token) {
		t.Helper()
		r := request{method: "POST", path: allocations + "/" + a.ID + "/terminal-token", body: body}.send(t)
		if r.status != http.StatusCreated {
			t.Fatalf("%d %s", r.status, r.body)
		}
		r.into(t, &made)
		return made
	}
	rejected := func(url, token string) {
		t.Helper()
		if conn, response := attach(t, url, token); conn != nil || response == nil || response.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %v", response)
		}
	}
	first := request(map[string]any{"purpose": "shell"})
	conn, response := attach(t, first.URL, first.Token)
	if conn == nil {
		t.Fatal(response)
	}
	rejected(first.URL, first.Token)
	misplaced := request(map[string]any{"purpose": "shell"})
	rejected(misplaced.URL+"?token="+misplaced.Token, misplaced.Token)
	rejected(misplaced.URL, misplaced.Token)
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte("echo be''fore\n")); err != nil {
		t.Fatal(err)
	}
	session := shows(t, conn, "before")
	_ = conn.Close(websocket.StatusGoingAway, "the page loads again")
	again := request(map[string]any{"purpose": "shell", "session_id": session})
	conn, response = attach(t, again.URL, again.Token)
	if conn == nil {
		t.Fatal(response)
	}
	if resumed := shows(t, conn, "before"); resumed != session {
		t.Errorf("the reload has session %s instead of %s", resumed, session)
	}
}
