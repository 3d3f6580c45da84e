package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	sessions "github.com/gpuaas/gpuaas/product/terminal"
)

const (
	// crowd is the number of terminals that are open at the same time.
	crowd = 1000
	// perNode and perUser are below the limits of streams and sessions.
	perNode, perUser = 100, 30
	// chunk is the number of bytes that a shell prints at a time, and often the times in a second.
	chunk, often = 1024, 100
	// streamed is the number of seconds for which all shells print.
	streamed = 10
)

// Crowd compares terminals that print at the same time with what is offered, and their memory with that of SSH clients.
func Crowd(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n, seconds := l.Scaled(crowd, 10), streamed
	if l.Smoke {
		seconds = 1
	}
	c, err := newCrowd(ctx, l, "t3", n)
	if err != nil {
		return nil, err
	}
	defer c.end()
	direct, err := c.measure(ctx, l, nil, clientsParameters{Kind: bySSH, Address: c.ssh, Count: n, Seconds: seconds})
	if err != nil {
		return nil, fmt.Errorf("direct clients: %w", err)
	}
	ours, err := c.measure(ctx, l, c.server, clientsParameters{Kind: byTerminal, Address: c.websockets, Count: n, Seconds: seconds, Allocations: c.allocations})
	if err != nil {
		return nil, fmt.Errorf("terminals: %w", err)
	}
	return rowsOf(n, direct, ours), nil
}

func rowsOf(n int, direct, ours outcome) []lab.Row {
	bytes := lab.Row{
		ID: "T3", Path: fmt.Sprintf("bytes of %d terminals that print %d B × %d Hz / offered", n, chunk, often), Unit: " MB/s",
		Ours: ours.received * float64(n*chunk*often) / 1e6, Peer: float64(n*chunk*often) / 1e6, Ratio: ours.received, Min: ours.received, Max: ours.received,
	}
	bytes.Note = fmt.Sprintf("as many direct SSH clients received %.2f of it on these cores", direct.received)
	lost := float64(ours.failed) / float64(n)
	cut := lab.Row{ID: "T3-cut", Path: "terminals that were disconnected meanwhile", Ours: float64(ours.failed), Peer: float64(n), Ratio: lost, Min: lost, Max: lost, Goal: "< 0.01", Met: new(lost < 0.01)}
	memory := lab.Row{ID: "T3-rss", Path: "memory of the terminal server for each of them / of an SSH client for each connection", Unit: " KiB", Ours: ours.kib, Peer: direct.kib, Ratio: ours.kib / direct.kib}
	memory.Min, memory.Max = memory.Ratio, memory.Ratio
	memory.Note = "resident after a collection, above the start; the connections of agents and browsers are included"
	return []lab.Row{bytes.AtLeast(0.95), cut, memory.AtMost(1.5)}
}

// outcome is the result of clients while all shells printed.
type outcome struct {
	received float64 // share of the offered bytes
	failed   int     // clients
	kib      float64 // memory for each
}

// crew is the terminal server, the nodes, and their addresses.
type crew struct {
	nodes, server   *lab.Part
	ssh, websockets string
	allocations     []string
	database        string
}

func (c *crew) end() {
	for _, p := range []*lab.Part{c.server, c.nodes} {
		if p != nil {
			p.End()
		}
	}
}

// newCrowd starts the nodes and the terminal server, and makes n tokens.
func newCrowd(ctx context.Context, l *lab.Lab, name string, n int) (c *crew, err error) {
	secrets := filepath.Join(l.Dir, "terminals")
	if _, err := pki.Open(secrets, clock.Clock{}); err != nil {
		return nil, err
	}
	if _, err := secret.OpenSigner(filepath.Join(secrets, "keys")); err != nil {
		return nil, err
	}
	url, err := l.Database(ctx, name)
	if err != nil {
		return nil, err
	}
	nodes := (n + perNode - 1) / perNode
	if err := (lab.Market{Tenants: (n + perUser - 1) / perUser, Nodes: nodes, SlotsPerNode: 1}).Open(ctx, l, url); err != nil {
		return nil, err
	}
	c = &crew{database: url}
	for i := range nodes {
		c.allocations = append(c.allocations, lab.SlotPrefix+fmt.Sprint(lab.First+int64(i)))
	}
	parameters := serverParameters{Database: url, Secrets: secrets, Nodes: nodes, Count: n}
	if c.nodes, err = l.Part(ctx, "nodes", serverVariable, parameters); err != nil {
		return nil, err
	}
	at, err := c.nodes.Do("address")
	if err == nil {
		var key string
		c.ssh, key, _ = strings.Cut(at.Text, " ")
		err = l.Exec(ctx, url, seed(n, nodes, key)...)
	}
	if err == nil {
		c.server, err = l.Part(ctx, "terminals", serverVariable, parameters)
	}
	if err == nil {
		at, err = c.server.Do("address")
		c.websockets = at.Text
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// tokenOf returns the token of a client.
func tokenOf(i int) string { return sessions.Prefix + fmt.Sprintf("%043d", i) }

// seed makes an active allocation on each node, and a token for each client. The ids are those of lab.Market.
func seed(n, nodes int, hostKey string) []string {
	id := func(prefix, number string) string {
		return fmt.Sprintf("('%s' || (%d + %s))::uuid", prefix, int64(lab.First), number)
	}
	tenant, project := id(lab.TenantPrefix, "0"), id(lab.ProjectPrefix, "0")
	user := id(lab.UserPrefix, fmt.Sprintf("i / %d", perUser))
	first := id(lab.UserPrefix, "0")
	report, _ := json.Marshal(map[string]any{"host_keys": []string{hostKey}}) // strings
	all := fmt.Sprintf(" FROM generate_series(0, %d) i", nodes-1)
	return []string{
		// All users have terminals in the first project, and the right to them is their role there.
		`DELETE FROM tenant_memberships WHERE user_id = ` + first, `DELETE FROM project_memberships`,
		`INSERT INTO project_memberships (project_id, user_id, role) SELECT ` + project + `, id, 'member' FROM users`,
		`INSERT INTO allocations (id, org_id, project_id, user_id, name, sku, region, gpus, node_id, price_minor, currency, login, host_uid, status, active_at)
			SELECT ` + id(lab.SlotPrefix, "i") + `, ` + tenant + `, ` + project + `, ` + id(lab.UserPrefix, "0") + `, 'a' || i, '` + lab.Sku + `', 'eu', 1, ` + id(lab.NodePrefix, "i") +
			`, 200, 'EUR', 't-bench', 200000 + i, 'active', now()` + all,
		`INSERT INTO desired_objects (uid, kind, scope, name, spec, spec_hash, owner, fence)
			SELECT ` + id(lab.SlotPrefix, "i") + `, 'Allocation', ` + project + `::text, 'a' || i, '{}', 'x', 'api', 1` + all,
		`INSERT INTO certificates (serial, node_id, status, not_after) SELECT i::text, ` + id(lab.NodePrefix, "i") + `, 'active', now() + interval '1 day'` + all,
		`INSERT INTO observed_nodes (node_id, boot, boot_id, sequence, complete, agent, capability, inventory, content_hash, observed_at, stale_at, origin)
			SELECT ` + id(lab.NodePrefix, "i") + `, 1, 'boot', 1, true, 'bench', 1, '{}', '', now(), now() + interval '1 day', '{"body": "` + base64.StdEncoding.EncodeToString(report) + `"}'` + all,
		`INSERT INTO terminal_tokens (hash, org_id, project_id, allocation_id, principal, by_program, sign_in_id, scopes, limited, purpose, origin, correlation_id, expires_at)
			SELECT sha256(convert_to('` + sessions.Prefix + `' || lpad(i::text, 43, '0'), 'UTF8')), ` + tenant + `, ` + project + `, ` + id(lab.SlotPrefix, fmt.Sprintf("i %% %d", nodes)) +
			`, ` + user + `, false, (SELECT id FROM api_keys WHERE user_id = ` + user + `), '{}', false, 'shell', '', 'bench', now() + interval '1 hour' FROM ` + fmt.Sprintf("generate_series(0, %d) i", n-1),
		`VACUUM ANALYZE`,
	}
}

// measure opens clients in a process of their own and lets all shells print. The memory is that of holder, or of the clients.
func (*crew) measure(ctx context.Context, l *lab.Lab, holder *lab.Part, parameters clientsParameters) (s outcome, err error) {
	clients, err := l.Part(ctx, "clients", clientsVariable, parameters)
	if err != nil {
		return s, err
	}
	defer clients.End()
	if holder == nil {
		holder = clients
	}
	before, err := holder.Do("rss")
	if err != nil {
		return s, err
	}
	if _, err := clients.Do("open"); err != nil {
		return s, err
	}
	got, err := clients.Do("print")
	if err != nil {
		return s, err
	}
	after, err := holder.Do("rss")
	if err != nil {
		return s, err
	}
	var r received
	if err := json.Unmarshal([]byte(got.Text), &r); err != nil {
		return s, fmt.Errorf("reading a result: %w", err)
	}
	n := parameters.Count
	return outcome{float64(r.Bytes) / float64(n*chunk*often*parameters.Seconds), r.Failed, (after.KiB - before.KiB) / float64(n)}, nil
}

// graceful is the time after the last chunk in which bytes still count. Later ones have waited in buffers.
const graceful = time.Second
