package terminal_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	api "github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// member adds a user who may open terminals, and is signed in.
func (f *fixture) member(n int) identity.Caller {
	f.t.Helper()
	c := f.caller
	c.User, c.Session = ids.New[ids.User](), ids.New[ids.Session]()
	f.exec(`INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, $2, $2 || '@example.com', 'u', 'user')`, c.User, fmt.Sprint("member", n))
	f.exec(`INSERT INTO tenant_memberships (org_id, user_id, role) VALUES ($1, $2, 'member')`, c.Tenant, c.User)
	f.exec(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'admin')`, c.Project, c.User)
	f.exec(`INSERT INTO sessions (id, user_id, secret_hash, expires_at) VALUES ($1, $2, $3, now() + interval '1 hour')`, c.Session, c.User, fmt.Sprint(n))
	return c
}

// TestTwoServersWithoutStickyRouting opens 200 terminals on two servers, and continues each on the other one. Then one server
// stops: its terminals end, and those of the other server go on.
func TestTwoServersWithoutStickyRouting(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.limits.PerAllocation = 1000
	servers := []*server{f.serve(api.Times{}), f.serve(api.Times{})}
	const users, each = 8, 25
	var open []*term
	for u := range users {
		f.caller = f.member(u)
		for n := range each {
			c := servers[n%2].open(f.shellToken())
			c.types(fmt.Sprintf("session %d\n", len(open)))
			c.shows("> session")
			_ = c.conn.Close(websocket.StatusGoingAway, "") // the page loads again
			again := servers[(n+1)%2].open(f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id}))
			if again.id != c.id || again.last["resumed"] != true {
				t.Fatalf("session %d: %v", len(open), again.last)
			}
			again.shows(fmt.Sprintf("> session %d", len(open)))
			again.types("live\n")
			again.shows("> live")
			open = append(open, again)
		}
	}
	servers[0].stop()
	for i, c := range open {
		if n := i % each; n%2 == 0 {
			if e := c.closed(); e.Code != websocket.StatusServiceRestart {
				t.Fatalf("session %d of the stopped server was closed with %v", i, e)
			}
			f.ends(c.id, "restarted")
		}
	}
	// The clients of the other terminals were connected to the stopped server, and connect again.
	again := servers[1].open(f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: open[len(open)-2].id}))
	again.types("after\n")
	again.shows("> after")
}

// TestOwnerIsDead resumes a terminal whose server is not there.
func TestOwnerIsDead(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a, b := f.serve(api.Times{}), f.serve(api.Times{})
	c := a.open(f.shellToken())
	f.exec(`UPDATE terminal_instances SET address = '127.0.0.1:1' WHERE id = (SELECT instance_id FROM terminal_sessions WHERE id = $1)`, c.id)
	token := f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id})
	conn, resp := b.dial("/ws/terminal/"+f.a.ID.String(), token, nil, api.ShellProtocol)
	if conn == nil {
		t.Fatal(resp.Status)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != 4404 {
		t.Errorf("got %v", err)
	}
}

// TestOnlyTerminalServersPassSessionsOn sends a valid token to the listener for agents and servers, with a key that no server has,
// and to a server that shows another key than the one in the database.
func TestOnlyTerminalServersPassSessionsOn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	a := f.serve(api.Times{})
	c := a.open(f.shellToken())
	stranger, _ := f.peers(&terminal.Service{DB: f.DB})
	request := func(key string) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+a.Advertise.Address+"/ws/terminal/"+f.a.ID.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+f.token(terminal.TokenRequest{Purpose: terminal.Shell, Resumes: c.id}))
		resp, err := stranger.Peer(a.Advertise.Address, key).RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	if err := request(a.Advertise.Key); err == nil || !strings.Contains(err.Error(), "bad certificate") {
		t.Errorf("a stranger is not rejected: %v", err)
	}
	if err := request(strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "expected 0000") {
		t.Errorf("the key of the server is not compared: %v", err)
	}
}
