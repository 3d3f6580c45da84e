//go:build e2e

package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// keysInABrowser adds an SSH key, creates an API key, closes its secret, and revokes it.
func keysInABrowser(t *testing.T, b *browser, server string) {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	key, err := ssh.NewPublicKey(public)
	must(t, err)
	b.open(server + "/portal/keys")
	b.shows("/portal/keys", "Create an API key")
	b.types(`form:not(:has(fieldset)) input[maxlength="63"]`, "tablet")
	b.types(`form:not(:has(fieldset)) input:not([maxlength])`, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
	b.press("Add the SSH key")
	b.shows("/portal/keys", ssh.FingerprintSHA256(key))
	b.types(`form:has(fieldset) input[maxlength="63"]`, "robot")
	b.press("Create the API key")
	b.shows("/portal/keys", "gpk_")
	b.accessible("keys with a secret")
	b.press("I have copied it")
	b.confirms("Revoke robot", "robot")
	b.shows("/portal/keys", "The API key robot is revoked.")
	until(t, patience, "the key leaves the list", func() error {
		var found bool
		if b.script(`return document.querySelector('[aria-label="Revoke robot"]') !== null`, &found); found {
			return errors.New("it is there")
		}
		return nil
	})
}

// projectsInABrowser creates a project with a member and a service account, and deletes it.
func projectsInABrowser(b *browser, server string) {
	b.t.Helper()
	b.open(server + "/portal/projects")
	b.shows("/portal/projects", "default")
	b.accessible("projects")
	b.types(`form.panel input[maxlength="63"]`, "browser")
	b.press("Create the project")
	b.shows("", "Choose a member of the tenant")
	b.enters("User", b.option("biller@dev.localhost"))
	b.press("Add the member")
	b.shows("", "The member is added to browser.")
	b.find(`button[aria-label="Remove biller@dev.localhost"]`)
	b.press("Change name and description")
	b.accessible("project")
	b.types(`form:has(fieldset) input[maxlength="63"]`, "trainer")
	b.script(`document.querySelector("form fieldset input").click()`, nil)
	b.press("Create the service account")
	b.shows("", "There is no credential yet.")
	b.press("Create the credential")
	b.shows("", "I have copied it")
	b.accessible("service account with a secret")
	b.press("I have copied it")
	b.enters("Kind of the credential", "jobs")
	b.shows("", "Issuer of the tokens")
	b.accessible("service account with the jobs of a forge")
	b.press("Disable")
	b.shows("", "The service account trainer is disabled.")
	b.confirms("Delete trainer", "trainer")
	b.shows("", "The service account trainer is deleted.")
	b.confirms("Delete the project browser", "browser")
	b.shows("/portal/projects", "The project browser is deleted.")
}

// membersInABrowser invites a user, and shows the session of this browser and the state of the platform.
func membersInABrowser(b *browser, server string) {
	b.t.Helper()
	b.open(server + "/portal/members")
	b.shows("/portal/members", "biller@dev.localhost")
	b.types(`input[maxlength="254"]`, "new@dev.localhost")
	b.press("Invite")
	b.shows("/portal/members", "new@dev.localhost is invited.")
	b.find(`button[aria-label="Revoke new@dev.localhost"]`)
	b.accessible("members")
	b.open(server + "/portal/profile")
	b.shows("/portal/profile", "this one")
	b.accessible("profile")
	b.open(server + "/portal/status")
	b.shows("/portal/status", "Free GPUs")
	b.accessible("status")
}

// limitsInABrowser sets a limit of the tenant, on the billing screen.
func limitsInABrowser(b *browser) {
	b.t.Helper()
	b.enters("Per month in", "1000")
	b.press("Set the limits")
	b.shows("/portal/billing", "The limits are set.")
	b.shows("/portal/billing", "1,000.00")
}

// selectionInABrowser selects an allocation of the list, and releases nothing.
func selectionInABrowser(b *browser) {
	b.t.Helper()
	b.click(`input[aria-label="Select calm-otter"]`)
	b.shows("", "1 allocation is selected")
	b.accessible("allocations with a selection")
	b.press("Release the selected")
	b.find(`[role="dialog"] input`)
	b.accessible("release of the selected")
	b.press("Cancel")
}

// confirms opens the dialog of a change, types the name, and confirms.
func (b *browser) confirms(button, name string) {
	b.t.Helper()
	b.click(`button[aria-label="` + button + `"]`)
	b.types(`[role="dialog"] input`, name)
	b.click(`[role="dialog"] button[type="submit"]`)
}

// enters sets the value of the field with a label, as a user does.
func (b *browser) enters(label, value string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`
		const found = [...document.querySelectorAll("label")].find((l) => l.textContent.startsWith(%q));
		const field = document.getElementById(found.htmlFor);
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, %q);
		field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", {bubbles: true}))`, label, value), nil)
}

// option returns the value of the option with a text.
func (b *browser) option(text string) (value string) {
	b.t.Helper()
	b.script(fmt.Sprintf(`return [...document.querySelectorAll("option")].find((o) => o.textContent.includes(%q))?.value ?? ""`, text), &value)
	return value
}
