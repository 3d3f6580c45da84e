//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// refundInABrowser returns a charge of the tenant to its card, as an administrator.
func refundInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	user := queryOne[string](t, h, `SELECT id::text FROM users WHERE email = $1`, "dev@dev.localhost")
	b.as("admin@dev.localhost", server+"/portal/admin/users/"+user)
	b.click(`button[aria-label="Refund dev@dev.localhost"]`)
	b.find(`[role="dialog"] input[data-autofocus]`)
	b.enters("Kind", "charge")
	b.enters("Amount in EUR", "0.01")
	b.enters("Reason", "node was slow")
	b.accessible("refund")
	b.types(`[role="dialog"] input[data-autofocus]`, "dev@dev.localhost")
	b.script(`document.querySelector("[role=dialog] button[type=submit]").click()`, nil)
	b.shows("", "The refund is requested.")
}

// statementInABrowser opens the statement of the present month from the billing screen. It has the use of an allocation as soon
// as that is charged.
func statementInABrowser(t *testing.T, b *browser, h *installation, server string) {
	t.Helper()
	used := queryOne[string](t, h, `SELECT id::text FROM allocations WHERE name = $1`, "calm-otter")
	until(t, patience, "the statement has the allocation", func() error {
		b.open(server + "/portal/billing")
		b.click(`a[href^="/api/v1/billing/statements/"]`)
		b.shows("/page", "Balance when the month began")
		var text string
		if b.script(`return document.body.innerText`, &text); !strings.Contains(text, used) {
			return fmt.Errorf("it has %.500q", text)
		}
		return nil
	})
}
