package up

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// seeded is the development tenant, and the keys that this start made.
type seeded struct {
	tenant, project      string
	admin, operator, dev string // personal keys
	balance              money.Minor
	currency             string
}

// fleetWithin is the time for which the first screen waits for nodes. The screen should not report
// "none" when they arrive a moment later, and a fleet of a thousand nodes should not delay it.
const fleetWithin = 2 * time.Second

func (i *installation) announce(ctx context.Context) error {
	store, err := profile.Write(i.cfg.Profile, profile.Profile{
		URL: i.server.URL(), Token: i.seed.dev, Project: i.seed.project,
		DataDir: i.cfg.Dir, InternalURL: i.server.NodeURL(), RiverURL: i.server.URL() + rest.RiverPath + "/", MetricsURL: i.server.MetricsURL(),
	})
	if err != nil {
		return err
	}
	// The operators' keys are separate profiles next to the user's.
	for suffix, key := range map[string]string{"-admin": i.seed.admin, "-operator": i.seed.operator} {
		if err := store.Edit(func(f *profile.File) error {
			p := f.Profiles[i.cfg.Profile]
			p.Token = key
			f.Profiles[i.cfg.Profile+suffix] = p
			return nil
		}); err != nil {
			return err
		}
	}
	ready := i.awaitFleet(ctx)
	if !i.cfg.Headless {
		if err := i.screen(ctx, ready, store.Path); err != nil {
			return err
		}
	}
	return i.writeReady()
}

func (i *installation) awaitFleet(ctx context.Context) (active int) {
	for end := time.After(fleetWithin); ; {
		n, err := i.activeNodes(ctx)
		if err == nil && n >= i.fleet.nodes {
			return n
		}
		select {
		case <-end:
			return n
		case <-ctx.Done():
			return n
		case <-time.After(tokenPause):
		}
	}
}

func (i *installation) screen(ctx context.Context, active int, profilePath string) error {
	declared, err := i.desiredNodes(ctx)
	if err != nil {
		return err
	}
	url := i.server.URL()
	var b strings.Builder
	fmt.Fprintf(&b, "\n  GPUaaS is up (%s)\n\n", i.cfg.Environment)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	lines := [][2]string{
		{"API", url + "/api/v1"},
		{"Reference", url + "/api/docs"},
		{"Jobs", url + rest.RiverPath + "/"},
		{"Node API", i.server.NodeURL()},
		{"S3 endpoint", i.server.StorageURL()},
		{"Metrics", i.server.MetricsURL()},
		{"Sign in", url + "/sign-in"},
		{"Profile", profilePath},
		{"Data", i.cfg.Dir},
		{"Fleet", fmt.Sprintf("%d of %d nodes active: %s", active, i.fleet.nodes, kinds(declared))},
		{"Configured by", i.origin()},
		{"Balance", money.Format(i.seed.currency, i.seed.balance)},
	}
	if i.payments != nil {
		lines = slices.Insert(lines, slices.IndexFunc(lines, func(l [2]string) bool { return l[0] == "Sign in" }), [2]string{"Payments", i.payments.url})
	}
	if i.mail != nil {
		lines = slices.Insert(lines, slices.IndexFunc(lines, func(l [2]string) bool { return l[0] == "Sign in" }), [2]string{"E-mails", i.mail.url})
	}
	if i.prometheus != nil {
		lines = slices.Insert(lines, slices.IndexFunc(lines, func(l [2]string) bool { return l[0] == "Sign in" }), [2]string{"Overview", i.prometheus.overview()})
	}
	first, err := i.firstAdminLink(ctx, firstAdmin)
	if err != nil {
		return err
	}
	lines = slices.Insert(lines, 1+slices.IndexFunc(lines, func(l [2]string) bool { return l[0] == "Sign in" }), append(i.signInLines(), [2]string{"First admin", first})...)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\t%s\n", line[0], line[1])
	}
	_ = w.Flush() // into memory
	fmt.Fprintf(&b, "\n  Next: %[1]s alloc create --sku %[2]s --name first --wait\n  Then: %[1]s tour\n\n  Ctrl-C stops everything and leaves the data.\n\n", os.Args[0], i.firstSKU())
	_, err = fmt.Fprint(i.cfg.Out, b.String())
	return err
}

// firstAdmin of the seeded people: they may sign in where no provider knows them.
const firstAdmin = "admin@dev.localhost"

// signInLines list the users who may sign in. Another provider has its own users.
func (i *installation) signInLines() (lines [][2]string) {
	if i.issuer == nil {
		return nil
	}
	for _, who := range whoSignsIn() {
		lines = append(lines, [2]string{"", who})
	}
	return append(lines, [2]string{"Issuer", i.issuer.url})
}

func (i *installation) origin() string {
	switch i.commit {
	case source.WorkTreeCommit:
		return i.source.Git.Repository + ", with uncommitted files"
	case sync.Builtin:
		return "the files inside this binary; no checkout was found"
	default:
		return strings.TrimSpace(i.source.Git.Repository + " " + i.commit[:min(len(i.commit), 12)])
	}
}

func (i *installation) firstSKU() string {
	names, specs := i.simulated()
	if len(names) == 0 {
		return "SKU"
	}
	return specs[names[len(names)-1]].SKU
}

// writeReady notifies the parent process after every listener is ready.
func (i *installation) writeReady() error {
	if i.cfg.ReadyFile == "" {
		return nil
	}
	ready := map[string]any{
		"url": i.server.URL(), "internal_url": i.server.NodeURL(), "river_url": i.server.URL() + rest.RiverPath + "/",
		"metrics_url": i.server.MetricsURL(), "profile": i.cfg.Profile, "pid": os.Getpid(),
	}
	if url := i.server.StorageURL(); url != "" {
		ready["storage_url"] = url
	}
	if i.issuer != nil {
		ready["issuer_url"] = i.issuer.url
	}
	if i.payments != nil {
		ready["payments_url"] = i.payments.url
	}
	if i.mail != nil {
		ready["mail_url"] = i.mail.url
	}
	if i.prometheus != nil {
		ready["prometheus_url"] = i.prometheus.url
	}
	text, err := json.MarshalIndent(ready, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the ready file: %w", err)
	}
	return durable.Write(i.cfg.ReadyFile, append(text, '\n'), 0o600)
}
