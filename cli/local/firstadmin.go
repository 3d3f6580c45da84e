package local

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

const firstAdminText = `Creates a link that signs an administrator in. The link works once, within 15 minutes. Use
it for an installation in which no user can sign in yet. Without --email the link is for
the oldest administrator. An unknown address becomes a new administrator.

The command writes to the database of DATABASE_URL, or else of the profile of gpuaas up.
The first user who opens the link is the administrator; do not forward it.`

func NewFirstAdmin(a *output.Console) *cobra.Command {
	var email string
	cmd := &cobra.Command{
		Use: "first-admin", Short: "Create a one-time admin sign-in link", Long: firstAdminText, Args: cobra.NoArgs,
		Example: "  gpuaas first-admin --email root@example.org",
		RunE:    func(cmd *cobra.Command, _ []string) error { return firstAdmin(cmd.Context(), a, email) },
	}
	cmd.Flags().StringVar(&email, "email", "", "e-mail address of the administrator")
	return cmd
}

// entry is the link as data.
type entry struct {
	Email     string    `json:"email"`
	URL       string    `json:"url"` // a path where the installation's address is not known
	ExpiresAt time.Time `json:"expires_at"`
}

func firstAdmin(ctx context.Context, a *output.Console, email string) error {
	s, err := client.ReadSettings(a)
	if err != nil {
		return err
	}
	db, err := client.Database(ctx, a, "gpuaas-first-admin")
	if err != nil {
		return err
	}
	defer db.Close()
	who := &signin.Service{Service: &identity.Service{DB: pg.Scoped{Pool: db}, Naming: ids.DefaultNaming, Clock: a.Clock, Hints: &hint.Bus{}}}
	link, err := who.FirstAdminLink(ctx, email)
	if err != nil {
		return err
	}
	e := entry{Email: link.Email, URL: s.URL + signin.FirstAdminPath + "#" + link.Code, ExpiresAt: a.Clock.Now().Add(link.For).UTC()}
	document, err := output.Encode(e)
	if err != nil {
		return err
	}
	return showEntry(a, e, document)
}

func showEntry(a *output.Console, e entry, document json.RawMessage) error {
	if f := a.Format(); f == "json" || f == "yaml" {
		return a.Show(document, output.Table{})
	}
	a.Notify("Signs %s in, once, until %s:", e.Email, output.FormatTime(e.ExpiresAt))
	_, err := fmt.Fprintln(a.Out, e.URL)
	return err
}
