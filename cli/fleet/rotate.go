package fleet

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/evidence"
	"github.com/gpuaas/gpuaas/platform/evidence/bundle"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
	"github.com/gpuaas/gpuaas/platform/notification/webhook"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

const rotateText = `Runs with the rights of the owner of the database: DATABASE_URL, or else the profile of
gpuaas up. The keys are in this database, sealed under the key-encryption key of
GPUAAS_KEK_FILE, --state-dir or Vault, with the same variables as the server. Servers continue
and read the new keys within a second. Nodes receive the new key next to the old one.

The command reads the keys that each node has acknowledged, and writes an audit row.`

// rotated is a set of keys that rolls over.
type rotated struct {
	name    string // in the record: ca, task_keys, login_keys
	purpose string
	what    string
	// nodes reports that every node must receive the new key before the old one is removed.
	nodes bool
	// wait describes what must happen before finish, if the command cannot check it.
	wait  string
	again string // the command for people, without its verb
}

func (r rotated) command(verb string) string { return fmt.Sprintf(r.again, verb) }

func rotates(name string) rotated {
	return map[string]rotated{
		"ca":         {"ca", keystore.PurposeAuthority, "authority", true, "", "gpuaas ca rotate %s"},
		"tasks":      {"task_keys", keystore.PurposeTasks, "key that signs tasks", true, "", "gpuaas keys rotate %s"},
		"statements": {"statement_keys", keystore.PurposeStatements, "key that signs responses to reports", true, "", "gpuaas keys rotate %s --of statements"},
		"relay":      {"relay_keys", keystore.PurposeRelay, "key that signs requests for streams", true, "", "gpuaas keys rotate %s --of relay"},
		"logins": {
			"login_keys", keystore.PurposeLogins, "key that signs logins over SSH", false,
			"nodes receive a new key within 10 seconds, by a job that the command does not see: a minute after begin, once every node is reachable", "gpuaas keys rotate %s --of logins",
		},
		"tokens": {
			"token_keys", keystore.PurposeTokens, "key that signs access tokens", false,
			"tokens of the old key are valid for up to an hour: an hour after begin", "gpuaas keys rotate %s --of tokens",
		},
		"fields":     {"data_keys", keystore.PurposeFields, "key that seals columns", false, "", "gpuaas keys rotate %s --of fields"},
		"webhooks":   {"webhook_keys", keystore.PurposeWebhooks, "key that seals the secrets of webhooks", false, "", "gpuaas keys rotate %s --of webhooks"},
		"recordings": {"recording_keys", keystore.PurposeRecordings, "key that seals the keys of recordings", false, "", "gpuaas keys rotate %s --of recordings"},
		"mounts":     {"mount_keys", keystore.PurposeMounts, "key that seals the access keys of mounts", false, "", "gpuaas keys rotate %s --of mounts"},
		"evidence": {
			"evidence_keys", keystore.PurposeEvidence, "key that signs evidence bundles", false,
			"verifiers need the new key before it signs: after its line is in their key files", "gpuaas keys rotate %s --of evidence",
		},
		"cursors": {
			"cursor_keys", keystore.PurposeCursors, "key that seals positions in lists", false,
			"positions in lists of the old key are valid for up to 24 hours: a day after begin", "gpuaas keys rotate %s --of cursors",
		},
		"kek": {"kek", keystore.PurposeKEK, "key-encryption key", false, "", "gpuaas keys rotate %s --of kek"},
	}[name]
}

// ofKeys lists the values of --of.
const ofKeys = "tasks, statements, relay, logins, tokens, fields, webhooks, recordings, mounts, evidence, cursors or kek"

func NewCA(a *output.Console) *cobra.Command {
	return output.Group("ca", "Manage the node certificate authority", newRotate(a, [3]string{
		"Rotate the certificate authority", "Create the new certificate authority", "Remove the old certificate authority",
	}, "ca"))
}

func NewKeysRotate(a *output.Console) *cobra.Command {
	return newRotate(a, [3]string{"Rotate keys of the installation", "Create the new key", "Remove the old key"}, "tasks", ofKeys)
}

// NewCreateKEK makes the command that creates the file of a key-encryption key.
func NewCreateKEK(a *output.Console) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "create-kek", Short: "Create a key-encryption key", Args: cobra.NoArgs,
		Long: `Creates the file of the key-encryption key of a new installation, with mode 0600. Copy it to
every server and name it in GPUAAS_KEK_FILE. Store another copy elsewhere: without it the stored
keys cannot be opened. gpuaas up creates its own.`,
		Example: "  gpuaas keys create-kek --file /etc/gpuaas/kek.json",
		RunE: func(*cobra.Command, []string) error {
			if path == "" {
				return output.UsageError("set --file to the path of the new file")
			}
			if err := keyfile.Create(path, a.Clock); err != nil {
				return err
			}
			a.Notify("%s was created. Store another copy of it elsewhere.", path)
			return nil
		},
	}
	cmd.Flags().StringVar(&path, "file", "", "path of the new file")
	return cmd
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.run(cmd.Context(), client.DatabaseToChange, r.begin)
		},
	}
	status := &cobra.Command{
		Use: "status", Short: "Show rotation progress", Long: rotateText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), client.Database, r.show) },
	}
	finish := &cobra.Command{
		Use: "finish", Short: shorts[2], Long: rotateText, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.run(cmd.Context(), client.DatabaseToChange, r.finish)
		},
	}
	finish.Flags().BoolVar(&r.force, "force", false, "also if nodes have not acknowledged the new key; an operator must enrol those again")
	g := output.Group("rotate", shorts[0], begin, status, finish)
	for _, c := range g.Commands() {
		c.Flags().StringVar(&r.stateDir, "state-dir", "", "folder with kek.json (default: that of gpuaas up by the profile, else /var/lib/gpuaas-server)")
	}
	if len(of) > 1 {
		for _, c := range g.Commands() {
			c.Flags().StringVar(&r.purpose, "of", of[0], "which keys: "+of[1]) //nolint:gosec // its length is checked above
		}
	}
	return g
}

// desk contains the database and the keys that a rotation changes.
type desk struct {
	rotated

	db           *pgxpool.Pool
	config       keystore.Config
	stateDir     string
	keys         *keystore.Keys
	fleet        *fleet.Service
	certificates *secret.Certificates
}

func (r *rotation) run(ctx context.Context, open opens, do func(context.Context, desk) error) (err error) {
	d := desk{rotated: rotates(r.purpose), stateDir: r.dir()}
	if d.name == "" {
		return output.UsageError("keys %q do not exist; use --of %s", r.purpose, ofKeys)
	}
	if d.config, err = keystore.ConfigFromEnv(r.a.Env); err != nil {
		return err
	}
	if d.db, err = open(ctx, r.a, "gpuaas-rotate"); err != nil {
		return err
	}
	defer d.db.Close()
	if d.keys, err = keystore.OpenAll(ctx, d.config, d.stateDir, d.db, r.a.Clock); err != nil {
		return err
	}
	d.fleet = &fleet.Service{Service: &slots.Service{DB: d.db}}
	d.certificates = &secret.Certificates{DB: d.db, Barred: d.fleet.Retired}
	return do(ctx, d)
}

// serverDir is the default state directory of gpuaas server.
const serverDir = "/var/lib/gpuaas-server"

func (r *rotation) dir() string {
	if r.stateDir != "" {
		return r.stateDir
	}
	if s, err := client.ReadSettings(r.a); err == nil && s.DataDir != "" {
		return filepath.Join(s.DataDir, "secrets")
	}
	return serverDir
}

func (r *rotation) begin(ctx context.Context, d desk) error {
	if err := r.act(ctx, &d, "begin", (*keystore.Keys).Begin); err != nil {
		return err
	}
	if err := r.show(ctx, d); err != nil {
		return err
	}
	switch {
	case d.nodes:
		r.a.Notify("Nodes receive it within minutes: %s", d.command("status"))
	case sealing[d.purpose] != nil:
		r.a.Notify("Servers seal stored secrets again within a minute: %s", d.command("status"))
	case d.purpose == keystore.PurposeKEK && d.config.KEK == keystore.DriverFile:
		r.a.Notify("Copy %s to every server, then: %s", keystore.KEKFile(d.config, d.stateDir), d.command("finish"))
	}
	return nil
}

func (r *rotation) finish(ctx context.Context, d desk) error {
	left, _, err := d.left(ctx)
	if err != nil {
		return err
	}
	switch {
	case d.wait != "" && !r.force:
		return errs.New(errs.Conflict, "%s", strings.SplitN(d.wait, ": ", 2)[0]).Try("%s: %s --force", strings.SplitN(d.wait, ": ", 2)[1], d.command("finish"))
	case d.nodes && len(left) > 0 && !r.force:
		return errs.New(errs.Conflict, "%s not acknowledged the new %s: %s", verbFor(len(left)), d.what, listed(left)).
			Try("check again with %s; after --force an operator must enrol these nodes again", d.command("status"))
	case d.nodes && len(left) > 0:
		r.a.Notify("%s %s left behind and must be enrolled again: %s", output.SymbolWarn, output.CountOf(len(left), "node"), listed(left))
	}
	finish := (*keystore.Keys).Finish
	if sealing[d.purpose] != nil {
		finish = func(keys *keystore.Keys, ctx context.Context, tx pgx.Tx, purpose string, c clock.Clock) error {
			if err := keys.Finish(ctx, tx, purpose, c); err != nil {
				return err
			}
			return r.checkSealed(ctx, tx, keys, d)
		}
	}
	if err := r.act(ctx, &d, "finish", finish); err != nil {
		return err
	}
	if d.purpose == keystore.PurposeKEK {
		if err := d.keys.EndKEK(ctx); err != nil {
			return err
		}
		r.a.Notify("Older backups of the database need the older key: store the former file with them.")
	}
	return r.show(ctx, d)
}

// sealing contains the purposes whose keys seal columns, each with the count of what an older key has sealed.
var sealing = map[string]func(context.Context, pg.Queryer, *keystore.Keys) (int, error){
	keystore.PurposeFields: func(ctx context.Context, q pg.Queryer, keys *keystore.Keys) (int, error) {
		n, err := reseal.SealedBefore(ctx, q, keys.Fields.Newest())
		if err != nil {
			return 0, err
		}
		secrets, err := accesskey.SealedBefore(ctx, q, keys.Fields.Newest())
		return n + secrets, err
	},
	keystore.PurposeWebhooks: func(ctx context.Context, q pg.Queryer, keys *keystore.Keys) (int, error) {
		return webhook.SealedBefore(ctx, q, keys.Webhooks.Newest())
	},
	keystore.PurposeRecordings: func(ctx context.Context, q pg.Queryer, keys *keystore.Keys) (int, error) {
		return recording.SealedBefore(ctx, q, keys.Recordings.Newest())
	},
	keystore.PurposeMounts: func(ctx context.Context, q pg.Queryer, keys *keystore.Keys) (int, error) {
		return accesskey.MountsSealedBefore(ctx, q, keys.Mounts.Newest())
	},
}

// checkSealed rejects a finish while an older data key has sealed something. It counts in the transaction
// that ends the older key.
func (r *rotation) checkSealed(ctx context.Context, tx pgx.Tx, keys *keystore.Keys, d desk) error {
	n, err := sealing[d.purpose](ctx, tx, keys)
	if err != nil || n == 0 || r.force {
		return err
	}
	return errs.New(errs.Conflict, "%s sealed with the old key", verbOf(n, "stored secret is", "stored secrets are")).
		Try("servers with the role api, and for recordings with the role terminal, seal them again: %s; after --force they cannot be opened", d.command("status"))
}

func verbOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
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

// cause names a step of a rotation for its evidence bundle. Each step is another cause.
func (r rotated) cause(verb string) evidence.Cause {
	return evidence.Cause{
		Kind: bundle.KeyRotation, About: keysURN(r.name), Subject: r.purpose, Cause: r.name + "/" + verb + "/" + uuid.NewString(), By: "system:operator",
	}
}

func keysURN(name string) string { return ids.DefaultNaming.Name("", "", "keys", name).String() }

// act rolls over in the transaction that audits it, and reads the keys again.
func (r *rotation) act(ctx context.Context, d *desk, verb string, do func(*keystore.Keys, context.Context, pgx.Tx, string, clock.Clock) error) error {
	err := pgx.BeginFunc(ctx, d.db, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		audit.Queue(b, audit.Entry{
			By: audit.OnServer("system:operator", "gpuaas "+d.name+" rotate "+verb), Action: d.name + ".rotate_" + verb, Target: keysURN(d.name),
		})
		evidence.Queue(b, d.cause(verb))
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		keys, err := keystore.OpenAll(ctx, d.config, d.stateDir, tx, r.a.Clock)
		if err != nil {
			return err
		}
		return do(keys, ctx, tx, d.purpose, r.a.Clock)
	})
	if err != nil {
		return err
	}
	d.keys, err = keystore.OpenAll(ctx, d.config, d.stateDir, d.db, r.a.Clock)
	return err
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
	set, _ := d.keys.Sets.Control()
	now, issuer := secret.Stamp(d.keys.Authority.Bundle(), set.TaskKeys, set.StatementKeys, set.RelayKeys), newestIssuer(d.keys.Authority)
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
	keys := d.list()
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
	if sealing[d.purpose] != nil && !r.a.Data() {
		n, err := sealing[d.purpose](ctx, d.db, d.keys)
		if err != nil {
			return err
		}
		r.a.Notify("%s sealed with an old key.", verbOf(n, "stored secret is", "stored secrets are"))
	}
	if d.nodes && !r.a.Data() {
		r.a.Notify("%d of %s have acknowledged all keys.", all-len(left), output.CountOf(all, "node"))
	}
	return nil
}

// list describes the keys of the rotation.
func (d desk) list() (list []rotating) {
	switch d.purpose {
	case keystore.PurposeAuthority:
		return authorities(d.keys.Authority)
	case keystore.PurposeLogins:
		for i, line := range d.keys.Logins.Public() {
			list = append(list, rotating{Kind: "key", ID: line, Role: map[bool]string{true: "signs", false: "accepted; signs after finish"}[i == 0]})
		}
		return list
	}
	role, other := "signs", "accepted; signs after finish"
	switch d.purpose {
	case keystore.PurposeTokens:
		other = "accepted"
	case keystore.PurposeFields, keystore.PurposeWebhooks, keystore.PurposeRecordings, keystore.PurposeMounts, keystore.PurposeCursors, keystore.PurposeKEK:
		role, other = "seals", "opens"
	}
	active, others := d.keys.Kids(d.purpose)
	list = append(list, rotating{Kind: "key", ID: active, Role: role})
	for _, kid := range others {
		list = append(list, rotating{Kind: "key", ID: kid, Role: other})
	}
	slices.SortFunc(list, func(a, b rotating) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func authorities(of secret.Authority) (list []rotating) {
	local, ok := of.(*pki.Local)
	if !ok {
		for _, root := range pki.BundleFingerprints(of.Bundle()) {
			list = append(list, rotating{Kind: "root", ID: root, Role: "believed"})
		}
		return list
	}
	gens := local.Generations()
	for i, g := range gens {
		role := map[bool]string{true: "certifies nodes and the node API", false: "certifies the node API; it has certified nodes"}[len(gens) == 1]
		if i > 0 {
			role = "certifies nodes; the node API follows"
		}
		list = append(list, rotating{"root", g.Fingerprint, role, &g.Root.NotAfter}, rotating{"issuing", g.Issuer, role, &g.Issuing.NotAfter})
	}
	return list
}
