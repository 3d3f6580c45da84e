package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

const auditText = `Derives the hash chain of each tenant's audit rows again, from the first row on,
and compares it with every seal. It ends with 1 and the place of the first fault.

It reads the database itself: of DATABASE_URL, else that of gpuaas up by the
profile. Who may write every table may also write seals that fit; keep the
output of -o json elsewhere, and give it to a later run as --heads.`

func newAuditVerify(a *app) *cobra.Command {
	var tenant, heads string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check that no sealed audit row was changed", Long: auditText, Args: cobra.NoArgs,
		Example: "  gpuaas audit verify -o json > heads.json\n  gpuaas audit verify --heads heads.json",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.auditVerify(cmd.Context(), tenant, heads) },
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "only this one, by name or id")
	cmd.Flags().StringVar(&heads, "heads", "", "what an earlier run printed as JSON: its heads must still be there")
	return cmd
}

// chains is the answer as data; --heads takes it back.
type chains struct {
	Chains        []chain   `json:"chains"`
	Unsealed      int64     `json:"unsealed"`
	UnsealedSince time.Time `json:"unsealed_since"`
}

type chain struct {
	Name string `json:"name"`
	audit.Chain
}

func (a *app) auditVerify(ctx context.Context, tenant, heads string) error {
	expected, err := readHeads(heads)
	if err != nil {
		return err
	}
	db, err := a.database(ctx, "gpuaas-audit")
	if err != nil {
		return err
	}
	defer db.Close()
	names, err := tenantNames(ctx, db)
	if err != nil {
		return err
	}
	only, err := tenantNamed(names, tenant)
	if err != nil {
		return err
	}
	r, err := (&audit.Service{DB: db}).Verify(ctx, only, expected)
	if err != nil {
		return err
	}
	c := chains{Chains: make([]chain, len(r.Chains)), Unsealed: r.Unsealed, UnsealedSince: r.UnsealedSince}
	for i, one := range r.Chains {
		c.Chains[i] = chain{Name: names[one.Tenant], Chain: one}
	}
	return a.showChains(c)
}

func readHeads(path string) ([]audit.Chain, error) {
	var c struct {
		Chains []audit.Chain `json:"chains"`
	}
	err := readKept(path, "gpuaas audit verify -o json", &c, func() bool {
		return slices.ContainsFunc(c.Chains, func(c audit.Chain) bool { return c.Head != "" })
	})
	return c.Chains, err
}

// readKept reads what an earlier run of a command has printed. A file without
// heads would find nothing, and say that all is well.
func readKept(path, command string, into any, heads func() bool) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return errs.Invalid("--heads", "cannot be read").Because(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errs.Invalid("--heads", "%s is not what %s prints", path, command).Because(err)
	}
	if !heads() {
		return errs.Invalid("--heads", "%s names no head", path).Try("%s prints them", command)
	}
	return nil
}

// database opens the one of DATABASE_URL, or of gpuaas up on this machine.
// PostgreSQL lists the connections under as.
func (a *app) database(ctx context.Context, as string) (*pgxpool.Pool, error) {
	url, err := a.secret("DATABASE_URL")
	if err != nil {
		return nil, err
	}
	if url == "" {
		s, err := a.settings()
		if err != nil {
			return nil, err
		}
		if s.DataDir == "" {
			return nil, errs.New(errs.NotFound, "no database is known: DATABASE_URL is not set, and the profile names no data directory").
				Try("set DATABASE_URL, or use the profile of gpuaas up on this machine")
		}
		if url, err = pgcluster.URLOf(filepath.Join(s.DataDir, "postgres")); err != nil {
			return nil, err
		}
	}
	const connections = 2
	db, err := pg.Open(ctx, url, as, connections)
	if err != nil {
		return nil, err
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, errs.New(errs.Unavailable, "the database does not answer").Try("is the server or gpuaas up running?").Because(err)
	}
	return db, nil
}

func tenantNames(ctx context.Context, db pg.Pool) (map[ids.Tenant]string, error) {
	const page = 1000
	names := map[ids.Tenant]string{{}: "(platform)"}
	who := &identity.Service{DB: db}
	for after := ""; ; {
		list, err := who.Tenants(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			names[t.ID], after = t.Name, t.Name
		}
		if len(list) < page {
			return names, nil
		}
	}
}

// tenantNamed also takes an id that names nothing: its rows outlive a tenant.
func tenantNamed(names map[ids.Tenant]string, asked string) (ids.Tenant, error) {
	if asked == "" {
		return ids.Tenant{}, nil
	}
	for id, name := range names {
		if name == asked && id != (ids.Tenant{}) {
			return id, nil
		}
	}
	id, err := ids.Parse[ids.Tenant](asked)
	if err != nil {
		return id, errs.New(errs.NotFound, "there is no tenant %q", asked).Try("without --tenant all are shown")
	}
	return id, nil
}

func (a *app) showChains(c chains) error {
	document, err := encode(c)
	if err != nil {
		return err
	}
	t := table{head: []string{"TENANT", "ROWS", "SEALS", "HEAD", "STATUS"}, wide: []string{"ID", "CHAIN"}}
	var broken *chain
	for i, one := range c.Chains {
		status := symbolGood + " whole"
		if one.Fault != nil {
			status = symbolBad + " " + string(one.Fault.Wrong)
			broken = cmp.Or(broken, &c.Chains[i])
		}
		short := one.Head[:min(len(one.Head), 16)]
		t.add("tenant/"+one.Tenant.String(), orDash(one.Name), strconv.FormatInt(one.Rows, 10), strconv.Itoa(one.Seals), orDash(short), status,
			one.Tenant.String(), orDash(one.Head))
	}
	if err := a.show(document, t); err != nil {
		return err
	}
	a.sayUnsealed(c)
	if broken == nil {
		return nil
	}
	return &failure{
		Message: fmt.Sprintf("tenant %s: %s", cmp.Or(broken.Name, broken.Tenant.String()), faultWords(*broken.Fault)), Code: codeFindings,
		Try: "keep the database as it is and follow docs/runbooks/audit-broken.md", Correlation: a.Correlation, Exit: exitFailure,
	}
}

// sealedWithin is ten times the period of sealing: no worker seals then.
const sealedWithin = 10 * time.Minute

func (a *app) sayUnsealed(c chains) {
	if c.Unsealed == 0 {
		return
	}
	a.say("%s newer than the last seal, the oldest of %s.", count(int(c.Unsealed), "row"), stamp(c.UnsealedSince))
	if a.Clock.Now().Sub(c.UnsealedSince) > sealedWithin {
		a.say("%s Sealing has stopped, or seals were taken away: does a server with the role work run?", symbolWarn)
	}
}

func faultWords(f audit.Fault) string {
	at := f.SealedAt.UTC().Format(time.RFC3339)
	switch f.Wrong {
	case audit.RowChanged:
		return fmt.Sprintf("row %s was changed after it was sealed at %s", f.Row, at)
	case audit.RowMissing:
		return fmt.Sprintf("row %s is gone; it was sealed at %s", f.Row, at)
	case audit.RowInserted:
		return fmt.Sprintf("row %s stands behind a seal that does not know it (transactions up to %d)", f.Row, f.UpTo)
	case audit.SealBroken:
		return fmt.Sprintf("the seal of %s does not follow: it was changed, or one before it is gone", at)
	case audit.HeadLost:
		return "no seal leads to a head that was kept: rows and seals were written anew, or taken away"
	}
	return string(f.Wrong)
}
