package access

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	api "github.com/gpuaas/gpuaas/api/terminal"
	"github.com/gpuaas/gpuaas/api/terminal/relay"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/policies"
	sessions "github.com/gpuaas/gpuaas/product/terminal"
	"github.com/gpuaas/gpuaas/product/terminal/relayrequest"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/services"
)

// serverVariable is the environment variable that passes a serverParameters to the terminal server and to the nodes.
const serverVariable = "GPUAAS_BENCH_TERMINALS"

type serverParameters struct {
	Database, Secrets string
	Nodes, Count      int
}

const trustDomain = "gpuaas.bench"

func parametersOf() (o serverParameters, err error) {
	if err := json.Unmarshal([]byte(os.Getenv(serverVariable)), &o); err != nil {
		return o, fmt.Errorf("reading the parameters: %w", err)
	}
	return o, nil
}

// TerminalsProcess is the terminal server, with the rights of its role.
func TerminalsProcess(ctx context.Context) error {
	o, err := parametersOf()
	if err != nil {
		return err
	}
	db, err := lab.OpenAs(ctx, o.Database, "terminal", lab.ApiConns)
	if err != nil {
		return err
	}
	defer db.Close()
	inside, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	agents, err := o.relay(db, inside.Addr().String())
	if err != nil {
		return err
	}
	var required atomic.Bool
	shells, err := o.terminals(db, agents, &required)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := shells.Start(ctx); err != nil {
		return err
	}
	outside, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	go func() { _ = agents.Serve(ctx, inside) }()
	go func() { _ = shells.Run(ctx) }()
	front := &http.Server{Handler: shells.Handler(), ReadHeaderTimeout: lab.Patience}
	go func() { _ = front.Serve(outside) }()
	return lab.Obey(ctx, func(_ context.Context, command string) lab.Outcome {
		switch command {
		case "rss":
			return lab.OwnMemory()
		case "require":
			required.Store(true)
		}
		return lab.Outcome{Text: "ws://" + outside.Addr().String()}
	})
}

// relay returns the server for the streams of agents.
func (o serverParameters) relay(db pg.Pool, address string) (*relay.Server, error) {
	ca, err := pki.Open(o.Secrets, clock.Clock{})
	if err != nil {
		return nil, err
	}
	keys, err := secret.OpenSigner(filepath.Join(o.Secrets, "keys"))
	if err != nil {
		return nil, err
	}
	return &relay.Server{
		Address: address, TrustDomain: trustDomain, Roots: ca, Certificates: valid{}, Requests: relayrequest.Store{DB: db},
		Signer: keys, Hints: &hint.Bus{}, Log: lab.Quiet(os.Stderr),
	}, nil
}

func (o serverParameters) terminals(db pg.Pool, agents *relay.Server, required *atomic.Bool) (*api.Server, error) {
	users, err := secret.OpenUserCA(filepath.Join(o.Secrets, "users"), clock.Clock{})
	if err != nil {
		return nil, err
	}
	return &api.Server{
		Sessions: &sessions.Service{
			DB: db, Identity: &identity.Service{DB: db}, Hints: agents.Hints, Naming: ids.DefaultNaming, MaxPerInstance: o.Count,
			Limits: func(ids.Tenant, ids.Project) sessions.Limits {
				if required.Load() {
					return sessions.Limits{PerAllocation: o.Count, Recording: sessions.RecordAlways}
				}
				return sessions.Limits{PerAllocation: o.Count}
			},
			May: request.RightTo("createTerminalToken", func() policies.RoleTable { return policies.RoleTable{} }),
		},
		Sign: services.LoginSigner(users), LoginLife: func() time.Duration { return time.Minute }, PublicURL: func() string { return "https://gpuaas.bench" },
		Dial: func(ctx context.Context, to api.Target) (net.Conn, error) {
			return agents.Dial(ctx, relay.Target{Node: to.Node, Allocation: to.Allocation, Fence: to.Fence, Kind: protocol.StreamSSH})
		},
		Hints: agents.Hints, Metrics: api.NewMetrics(), Log: agents.Log,
	}, nil
}

// valid accepts the certificates of all nodes.
type valid struct{}

func (valid) FallenOf(context.Context, []string) ([]string, error)  { return nil, nil }
func (valid) RevokedOf(context.Context, []string) ([]string, error) { return nil, nil }
