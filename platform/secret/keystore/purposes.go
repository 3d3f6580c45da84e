package keystore

import "slices"

// The purposes of stored keys. No key has two.
const (
	PurposeAuthority  = "authority"
	PurposeStatements = "statements"
	PurposeTasks      = "tasks"
	PurposeLogins     = "logins"
	PurposeTokens     = "tokens"
	PurposeCursors    = "cursors"
	PurposeFields     = "fields"
	PurposeWebhooks   = "webhooks"
	PurposeRelay      = "relay"
	PurposeRecordings = "recordings"
	PurposeMounts     = "mounts"
	PurposeEvidence   = "evidence"
)

// Use is a purpose with the roles of the server that open its private keys, and what they protect. A process opens the
// keys of its roles only. The database has the same list as policies (migrations/grants.sql).
type Use struct {
	Purpose  string
	Roles    []string
	Protects string
}

// Uses is the list. Release keys of the agent are not in it: they belong to the pipeline that builds
// releases, and servers have their public parts only.
func Uses() []Use {
	return []Use{
		{PurposeAuthority, []string{"node"}, "certificates of nodes and of the node API"},
		{PurposeStatements, []string{"node"}, "responses to reports of nodes"},
		{PurposeTasks, []string{"work"}, "tasks for nodes, and the sets of keys that nodes trust"},
		{PurposeLogins, []string{"api", "terminal"}, "SSH certificates of users"},
		{PurposeRelay, []string{"terminal"}, "requests for streams to nodes"},
		{PurposeTokens, []string{"api"}, "access tokens of service accounts"},
		{PurposeCursors, []string{"api"}, "cursors of lists and cookies of sign-ins in progress"},
		{PurposeFields, []string{"api"}, "secrets in columns: refresh tokens of sessions and stored responses with a secret"},
		// The API creates the secrets of webhooks and sends tests, and the workers send events.
		{PurposeWebhooks, []string{"api", "work"}, "secrets that sign webhooks"},
		// A terminal server writes recordings, and the API reads them.
		{PurposeRecordings, []string{"terminal", "api"}, "keys of recordings of terminals"},
		// The API creates them and verifies signatures with them, and the node API hands them to nodes.
		{PurposeMounts, []string{"api", "node"}, "access keys of mounts"},
		{PurposeEvidence, []string{"work"}, "evidence bundles"},
	}
}

// rolesOf returns the roles that open the keys of a purpose.
func rolesOf(purpose string) []string {
	for _, u := range Uses() {
		if u.Purpose == purpose {
			return u.Roles
		}
	}
	return nil
}

// opens reports whether a process with the roles opens the keys of a purpose.
func opens(roles []string, purpose string) bool {
	return slices.ContainsFunc(rolesOf(purpose), func(role string) bool { return slices.Contains(roles, role) })
}
