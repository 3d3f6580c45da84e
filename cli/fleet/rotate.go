package fleet

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
)

const rotateText = `Runs on a server machine. The keys are in --state-dir, or in Vault with the same variables as
the server. Servers continue and read the new keys within a second. Nodes receive the new key
next to the old one.

The command also reads the database of DATABASE_URL, or else of the profile of gpuaas up: the
keys that each node has acknowledged. It writes an audit row.`

// rotated is a set of keys that rolls over.
type rotated struct {
	name string // in the record: ca, task_keys, login_keys
	what string
	// nodes reports that every node must receive the new key before the old one is removed.
	nodes  bool
	keysOf func(keystore.KeyStores) any
	again  string // the command, for people
}

func rotates(name string) rotated {
	return map[string]rotated{
		"ca":     {"ca", "authority", true, func(c keystore.KeyStores) any { return c.Authority }, "gpuaas ca rotate"},
		"tasks":  {"task_keys", "key that signs tasks", true, func(c keystore.KeyStores) any { return c.Signer }, "gpuaas keys rotate"},
		"logins": {"login_keys", "key that signs logins over SSH", false, func(c keystore.KeyStores) any { return c.Users }, "gpuaas keys rotate --of logins"},
	}[name]
}

func NewCA(a *output.Console) *cobra.Command {
	return output.Group("ca", "Manage the node certificate authority", newRotate(a, [3]string{
		"Rotate the certificate authority", "Create the new certificate authority", "Remove the old certificate authority",
	}, "ca"))
}

func NewKeysRotate(a *output.Console) *cobra.Command {
	return newRotate(a, [3]string{"Rotate task signing keys", "Create the new signing key", "Remove the old signing key"}, "tasks", "logins")
}

// rotation contains the flags that the three commands share.
type rotation struct {
	a        *output.Console
	purpose  string
	stateDir string
	force    bool
}

// newRotate returns the group with its three commands. shorts are those of the group, of begin and of
// finish.
func newRotate(a *output.Console, shorts [3]string, of ...string) *cobra.Command {
	r := &rotation{a: a, purpose: of[0]}
	begin := &cobra.Command{
		Use: "begin", Short: shorts[1], Long: rotateText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), r.begin) },
	}
	status := &cobra.Command{
		Use: "status", Short: "Show rotation progress", Long: rotateText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), r.show) },
	}
	finish := &cobra.Command{
		Use: "finish", Short: shorts[2], Long: rotateText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), r.finish) },
	}
	finish.Flags().BoolVar(&r.force, "force", false, "also if nodes have not acknowledged the new key; an operator must enrol those again")
	g := output.Group("rotate", shorts[0], begin, status, finish)
	for _, c := range g.Commands() {
		c.Flags().StringVar(&r.stateDir, "state-dir", "", "keys of the servers (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	}
	if len(of) > 1 {
		for _, c := range g.Commands() {
			c.Flags().StringVar(&r.purpose, "of", of[0], "which keys: tasks or logins")
		}
	}
	return g
}

// desk contains the database and the keys that a rotation changes.
type desk struct {
	rotated

	db           *pgxpool.Pool
	stores       keystore.KeyStores
	fleet        *fleet.Service
	certificates *secret.Certificates
}

func (r *rotation) run(ctx context.Context, do func(context.Context, desk) error) error {
	d := desk{rotated: rotates(r.purpose)}
	if d.name == "" {
		return output.UsageError("keys %q do not exist; use --of tasks|logins", r.purpose)
	}
	keys, err := keystore.ConfigFromEnv(r.a.Env)
	if err != nil {
		return err
	}
	dir, err := r.dir()
	if err != nil {
		return err
	}
	if d.db, err = client.Database(ctx, r.a, "gpuaas-rotate"); err != nil {
		return err
	}
	defer d.db.Close()
	if d.stores, err = keystore.Open(ctx, keys, dir, r.a.Clock); err != nil {
		return err
	}
	d.fleet = &fleet.Service{Service: &slots.Service{DB: d.db}}
	d.certificates = &secret.Certificates{DB: d.db, Barred: d.fleet.Retired}
	return do(ctx, d)
}

// serverDir is the default key folder of gpuaas server.
const serverDir = "/var/lib/gpuaas-server"

// dir returns the state directory. It rejects a directory without keys: opening it would create new
// ones, and the rotation would affect keys that no server uses.
func (r *rotation) dir() (string, error) {
	dir := r.stateDir
	if dir == "" {
		dir = serverDir
		if s, err := client.ReadSettings(r.a); err == nil && s.DataDir != "" {
			dir = filepath.Join(s.DataDir, "secrets")
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "keys")); err != nil {
		return "", errs.Invalid("--state-dir", "%s contains no keys of a server", dir).Try("name the folder that gpuaas server has as --state-dir").Because(err)
	}
	return dir, nil
}

func (r *rotation) begin(ctx context.Context, d desk) error {
	if err := r.act(ctx, d, "begin", secret.Rotator.Begin); err != nil {
		return err
	}
	if err := r.show(ctx, d); err != nil {
		return err
	}
	if d.nodes {
		r.a.Notify("Nodes receive it within minutes: %s status", d.again)
	}
	return nil
}

func (r *rotation) finish(ctx context.Context, d desk) error {
	left, _, err := d.left(ctx)
	if err != nil {
		return err
	}
	switch {
	case !d.nodes && !r.force:
		return errs.New(errs.Conflict, "nodes receive a new key with the next allocation or change of keys, and the server does not count them").
			Try("once every running allocation is newer than the new key: %s finish --force", d.again)
	case d.nodes && len(left) > 0 && !r.force:
		return errs.New(errs.Conflict, "%s not acknowledged the new %s: %s", verbFor(len(left)), d.what, listed(left)).
			Try("check again with %s status; after --force an operator must enrol these nodes again", d.again)
	case d.nodes && len(left) > 0:
		r.a.Notify("%s %s left behind and must be enrolled again: %s", output.SymbolWarn, output.CountOf(len(left), "node"), listed(left))
	}
	if err := r.act(ctx, d, "finish", secret.Rotator.Finish); err != nil {
		return err
	}
	return r.show(ctx, d)
}

// namedAtMost limits the nodes in one message.
const namedAtMost = 20

func listed(left []string) string {
	if n := len(left) - namedAtMost; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(left[:namedAtMost], ", "), n)
	}
	return strings.Join(left, ", ")
}

func verbFor(n int) string {
	if n == 1 {
		return "1 node has"
	}
	return fmt.Sprintf("%d nodes have", n)
}

// act rolls over inside the transaction that audits it, last: what failed is not
// recorded, and what could not be recorded was hardly ever done.
func (r *rotation) act(ctx context.Context, d desk, verb string, do func(secret.Rotator, context.Context) error) error {
	rotator, ok := d.keysOf(d.stores).(secret.Rotator)
	if !ok {
		return errs.New(errs.Conflict, "this %s is rotated in its key store", d.what).Try("see docs/guides/rotate-ca-and-keys.md; status works here")
	}
	return pgx.BeginFunc(ctx, d.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{
			By: audit.OnServer("system:operator", "gpuaas "+d.name+" rotate "+verb), Action: d.name + ".rotate_" + verb, Target: ids.DefaultNaming.Name("", "", "keys", d.name).String(),
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return do(rotator, ctx)
	})
}

// left lists the nodes that would be disconnected by a finish: they have not acknowledged the present
// trust state, or do not use a certificate of the newest authority.
func (d desk) left(ctx context.Context) (left []string, all int, err error) {
	certificates, err := d.certificates.Newest(ctx)
	if err != nil {
		return nil, 0, err
	}
	names, err := d.fleet.NamesOf(ctx)
	if err != nil {
		return nil, 0, err
	}
	now, issuer := secret.Stamp(d.stores.Authority.Bundle(), d.stores.Signer.Public()), newestIssuer(d.stores.Authority)
	for _, c := range certificates {
		if !c.Follows(now, issuer) {
			left = append(left, cmp.Or(names[c.Node.UUID], c.Node.String()))
		}
	}
	slices.Sort(left)
	return left, len(certificates), nil
}

// newestIssuer names the key that is left after a finish. It is empty for an authority that is not ours.
func newestIssuer(a secret.Authority) string {
	local, ok := a.(*pki.Local)
	if !ok {
		return ""
	}
	list := local.Generations()
	return list[len(list)-1].Issuer
}

// rotating is a key as data.
type rotating struct {
	Kind  string     `json:"kind"`
	ID    string     `json:"id"`
	Role  string     `json:"role"`
	Until *time.Time `json:"until,omitempty"`
}

func (r *rotation) show(ctx context.Context, d desk) error {
	keys := d.keys()
	left, all, err := d.left(ctx)
	if err != nil {
		return err
	}
	document, err := output.Encode(map[string]any{"keys": keys, "nodes": all, "behind": len(left), "left": append([]string{}, left...)})
	if err != nil {
		return err
	}
	t := output.Table{Head: []string{"KIND", "ID", "ROLE", "UNTIL"}}
	for _, k := range keys {
		until := "-"
		if k.Until != nil {
			until = output.FormatTime(*k.Until)
		}
		t.Add(k.Kind+"/"+k.ID, k.Kind, k.ID, k.Role, until)
	}
	if err := r.a.Show(document, t); err != nil {
		return err
	}
	if d.nodes && !r.a.Data() {
		r.a.Notify("%d of %s have acknowledged all keys.", all-len(left), output.CountOf(all, "node"))
	}
	return nil
}

func (d desk) keys() (list []rotating) {
	switch of := d.keysOf(d.stores).(type) {
	case *pki.Local:
		gens := of.Generations()
		for i, g := range gens {
			role := map[bool]string{true: "certifies nodes and the node API", false: "certifies the node API; it has certified nodes"}[len(gens) == 1]
			if i > 0 {
				role = "certifies nodes; the node API follows"
			}
			list = append(list, rotating{"root", g.Fingerprint, role, &g.Root.NotAfter}, rotating{"issuing", g.Issuer, role, &g.Issuing.NotAfter})
		}
	case secret.Authority:
		for _, root := range pki.BundleFingerprints(of.Bundle()) {
			list = append(list, rotating{Kind: "root", ID: root, Role: "believed"})
		}
	case secret.Signer:
		for kid := range of.Public() {
			list = append(list, rotating{Kind: "key", ID: kid, Role: map[bool]string{true: "signs", false: "accepted; signs after finish"}[kid == of.Active()]})
		}
		slices.SortFunc(list, func(a, b rotating) int { return cmp.Compare(a.ID, b.ID) })
	case secret.UserCA:
		for i, line := range of.Public() {
			list = append(list, rotating{Kind: "key", ID: line, Role: map[bool]string{true: "signs", false: "accepted; signs after finish"}[i == 0]})
		}
	}
	return list
}
