package rest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gpuaas/gpuaas/api/stream"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// sockets serves a world over a real connection.
func sockets(t *testing.T) (*fixture, string) {
	t.Helper()
	b, url, _ := restartable(t)
	return b, url
}

// restartable is sockets with the end of all streams, as at a restart of the server.
func restartable(t *testing.T, change ...option) (b *fixture, url string, endStreams func()) {
	t.Helper()
	b = setup(t, append(change, ticking)...)
	server := httptest.NewUnstartedServer(b.handler)
	ctx, endStreams := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(endStreams)
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return b, server.URL, endStreams
}

func dial(t *testing.T, url, query string, header http.Header, protocols ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), url+"/ws/events"+query, &websocket.DialOptions{Subprotocols: protocols, HTTPHeader: header})
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func bearerHeader(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func offered(token string) string {
	return "gpuaas.bearer." + base64.RawURLEncoding.EncodeToString([]byte(token))
}

// message reads the next message with an event type other than unread.
func message(t *testing.T, conn *websocket.Conn) (m struct {
	ID   string `json:"event_id"`
	Type string `json:"event_type"`
},
) {
	t.Helper()
	for m.Type == "" || m.Type == "unread" {
		_, data, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	return m
}

// A websocket has the events of the caller, from the position and with the subjects that the caller selects.
func TestEventsOverAWebSocket(t *testing.T) {
	t.Parallel()
	b, url := sockets(t)
	write := func(of any, subject string) string {
		return read[string](b, `INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, payload)
			VALUES (gen_random_uuid(), upper(split_part($2, '.', 1)), $2, 'x', 1, $1, NULL, '{}') RETURNING event_id::text`, of, subject)
	}
	token := b.signIn(tokenOwner).Value
	first := write(tenant, "billing.balance_adjusted")
	for name, c := range map[string]struct {
		header    http.Header
		protocols []string
	}{
		"header":      {bearerHeader(token), []string{stream.Subprotocol}},
		"subprotocol": {nil, []string{stream.Subprotocol, offered(token)}},
	} {
		conn, _, err := dial(t, url, "?since="+first+"&types=billing.balance_adjusted,payments.refunded", c.header, c.protocols...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if conn.Subprotocol() != stream.Subprotocol {
			t.Errorf("%s: selected %q", name, conn.Subprotocol())
		}
		write(theirs, "payments.refunded")
		write(tenant, "payments.disputed")
		want := write(tenant, "payments.refunded")
		b.services.Hints.Send(event.Topic)
		if got := message(t, conn); got.ID != want {
			t.Errorf("%s: got %+v, want %s", name, got, want)
		}
		first = want
	}
}

// What is wrong with a handshake is a problem with a code.
func TestHandshakesAreChecked(t *testing.T) {
	t.Parallel()
	b, url := sockets(t)
	token := b.signIn(tokenOwner).Value
	good := bearerHeader(token)
	foreign := bearerHeader(token)
	foreign.Set("Origin", "https://elsewhere.example")
	for name, c := range map[string]struct {
		query     string
		header    http.Header
		protocols []string
		status    int
		code      errs.Code
	}{
		"no token":               {"", nil, []string{stream.Subprotocol}, 401, errs.TokenMissing},
		"an unknown token":       {"", nil, []string{stream.Subprotocol, offered("gpb_x")}, 401, errs.TokenInvalid},
		"a malformed token":      {"", nil, []string{stream.Subprotocol, "gpuaas.bearer.%"}, 400, errs.BadRequest},
		"an empty token":         {"", nil, []string{stream.Subprotocol, "gpuaas.bearer."}, 400, errs.BadRequest},
		"two tokens":             {"", good, []string{stream.Subprotocol, offered(token)}, 400, errs.BadRequest},
		"the same token twice":   {"", nil, []string{stream.Subprotocol, offered(token), offered(token)}, 400, errs.BadRequest},
		"no subprotocol":         {"", good, nil, 400, errs.BadRequest},
		"an unknown subprotocol": {"", good, []string{"gpuaas.events.v2"}, 400, errs.BadRequest},
		"a foreign origin":       {"", foreign, []string{stream.Subprotocol}, 403, errs.OriginNotAllowed},
		"an empty type":          {"?types=", good, []string{stream.Subprotocol}, 400, errs.ValidationError},
		"a type twice":           {"?types=payments.refunded,payments.refunded", good, []string{stream.Subprotocol}, 400, errs.ValidationError},
		"a position of nothing":  {"?since=" + unread, good, []string{stream.Subprotocol}, 404, errs.NotFound},
		"a token in the URL":     {"?token=" + token, good, []string{stream.Subprotocol}, 401, errs.TokenInURL},
	} {
		_, resp, err := dial(t, url, c.query, c.header, c.protocols...)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var p struct {
			Code errs.Code `json:"code"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&p); err != nil || p.Code != c.code {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// A request that is no handshake gets a problem, too.
func TestPlainRequestsForAWebSocket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, header := range map[string]map[string]string{
		"no upgrade":  {},
		"no key":      {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"},
		"a short key": {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "eA=="},
		"a version":   {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "8", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="},
	} {
		header["Sec-WebSocket-Protocol"] = stream.Subprotocol
		if w := b.do(t, call{method: "GET", path: "/ws/events", token: tokenOwner, header: header}); w.Code != 400 || problem(t, w).Code != "bad_request" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/ws/events", "/api/v1/events"} {
		if w := b.do(t, call{method: "GET", path: path + "?types=provisioning.exploded", token: tokenOwner}); w.Code != 400 || !strings.Contains(w.Body.String(), "provisioning.active") {
			t.Errorf("%s: an unknown type: %d %s", path, w.Code, w.Body)
		}
	}
}

// A restart of the server ends a websocket with 1012: the client connects again, and resumes.
func TestARestartEndsAWebSocket(t *testing.T) {
	t.Parallel()
	b, url, endStreams := restartable(t)
	conn, _, err := dial(t, url, "", bearerHeader(b.signIn(tokenOwner).Value), stream.Subprotocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.Read(t.Context()); err != nil { // the number of unread notifications: the stream has begun
		t.Fatal(err)
	}
	endStreams()
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	if got := websocket.CloseStatus(err); got != websocket.StatusServiceRestart {
		t.Errorf("ended with %v", err)
	}
}

// INV-56: a websocket has no event of another tenant or of a project without a role, and a position of another tenant is like
// one that never existed.
func TestINV56ForeignEventsOverAWebSocket(t *testing.T) {
	t.Parallel()
	b, url := sockets(t)
	write := func(tenant, project any) string {
		return read[string](b, `INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, payload)
			VALUES (gen_random_uuid(), 'PROVISIONING', 'provisioning.active', 'x', 1, $1, $2, '{}') RETURNING event_id::text`, tenant, project)
	}
	header := bearerHeader(b.signIn(tokenMember).Value)
	foreign := []string{write(theirs, nil), write(nil, nil), write(tenant, nil), write(tenant, ids.New[ids.Project]())}
	want := write(tenant, project)
	conn, _, err := dial(t, url, "?since=0&types=provisioning.active", header, stream.Subprotocol)
	if err != nil {
		t.Fatal(err)
	}
	if got := message(t, conn); got.ID != want {
		t.Errorf("got %+v, want %s; the foreign events are %v", got, want, foreign)
	}
	owner, _, err := dial(t, url, "?types=provisioning.active", bearerHeader(b.signIn(tokenOwner).Value), stream.Subprotocol)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := owner.Read(t.Context()); err != nil { // the number of unread notifications: the stream has begun
		t.Fatal(err)
	}
	foreign = []string{write(theirs, nil), write(theirs, project), write(nil, nil)}
	want = write(tenant, nil)
	b.services.Hints.Send(event.Topic)
	if got := message(t, owner); got.ID != want {
		t.Errorf("got %+v, want %s; the foreign events are %v", got, want, foreign)
	}
	for _, since := range []string{foreign[0], foreign[1], unread} {
		_, resp, err := dial(t, url, "?since="+since, header, stream.Subprotocol)
		if err == nil || resp == nil || resp.StatusCode != http.StatusNotFound {
			t.Errorf("since %s: %v", since, err)
		}
	}
}

// INV-52: the loss of a right ends a websocket within two seconds, with the code of the contract.
func TestINV52LostRightEndsTheWebSocket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(*fixture)
		code websocket.StatusCode
	}{
		"the session ends": {func(w *fixture) { w.sql(`UPDATE sessions SET ended_at = now()`) }, 4401},
		"the role is lost": {func(w *fixture) {
			w.sql(`DELETE FROM project_memberships WHERE user_id = $1`, users[tokenMember])
		}, 4401},
		"the database is away": {func(w *fixture) { w.database.fail("", 0, errs.New(errs.Unavailable, "away")) }, websocket.StatusTryAgainLater},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, url := sockets(t)
			conn, _, err := dial(t, url, "", bearerHeader(b.signIn(tokenMember).Value), stream.Subprotocol)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				for {
					if _, _, err := conn.Read(context.WithoutCancel(t.Context())); err != nil {
						ended <- err
						return
					}
				}
			}()
			select {
			case err := <-ended:
				t.Fatalf("ended while all was well: %v", err)
			case <-time.After(1200 * time.Millisecond): // two checks have found nothing wrong
			}
			c.lose(b)
			select {
			case err := <-ended:
				if got := websocket.CloseStatus(err); got != c.code {
					t.Errorf("ended with %v, want %d", err, c.code)
				}
			case <-time.After(2500 * time.Millisecond):
				t.Error("the websocket goes on")
			}
		})
	}
}

// A key with scopes reads the events of allocations: neither the money of the tenant nor the notifications of its owner.
func TestAKeyWithScopesReadsEventsOfAllocations(t *testing.T) {
	t.Parallel()
	b, url := sockets(t)
	b.sql(`UPDATE api_keys SET scopes = '{allocations:read}'`)
	conn, _, err := dial(t, url, "", bearerHeader(tokenOwner), stream.Subprotocol)
	if err != nil {
		t.Fatal(err)
	}
	b.sql(`INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES (gen_random_uuid(), $1, $2, 'low_balance', 'warning', 'u', 't', 'm')`,
		users[tokenOwner], tenant)
	b.services.Hints.Send("notify." + users[tokenOwner].String())
	for subject, of := range map[string]any{"billing.balance_adjusted": nil, "provisioning.active": project} {
		b.sql(`INSERT INTO outbox_events (event_id, stream, subject, aggregate, sequence, org_id, project_id, payload)
			VALUES (gen_random_uuid(), upper(split_part($2, '.', 1)), $2, 'x', 1, $1, $3, '{}')`, tenant, subject, of)
	}
	b.services.Hints.Send(event.Topic)
	if _, data, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(data), "provisioning.active") {
		t.Errorf("got %s, %v", data, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, data, err := conn.Read(ctx); err == nil {
		t.Errorf("got also %s", data)
	}
}

// The stream of a user has the own notifications, and the number of unread ones after each change.
func TestNotificationsArriveInTheStream(t *testing.T) {
	t.Parallel()
	b, url := sockets(t)
	conn, _, err := dial(t, url, "", bearerHeader(b.signIn(tokenOwner).Value), stream.Subprotocol)
	if err != nil {
		t.Fatal(err)
	}
	next := func(want string) {
		t.Helper()
		_, data, err := conn.Read(t.Context())
		if err != nil || !strings.Contains(string(data), want) {
			t.Fatalf("got %s, %v, want %s", data, err, want)
		}
	}
	next(`{"event_type":"unread","payload":{"unread":0}}`)
	for _, of := range []string{tokenMember, tokenOwner} {
		b.sql(`INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message) VALUES (gen_random_uuid(), $1, $2, 'low_balance', 'warning', 'u', 't', $3)`,
			users[of], tenant, "for "+of)
		b.services.Hints.Send("notify." + users[of].String())
	}
	next("for " + tokenOwner)
	next(`{"event_type":"unread","payload":{"unread":1}}`)
	if w := b.do(t, call{method: "POST", path: "/api/v1/notifications/read", token: tokenOwner, body: `{}`}); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	next(`{"event_type":"unread","payload":{"unread":0}}`)
}
