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
)

// Use is a purpose with the role of the server that opens its private keys, and what they protect. A process opens the
// keys of its roles only. The database has the same list as policies (migrations/grants.sql).
type Use struct {
	Purpose  string
	Role     string
	Protects string
}

// Uses is the list. Release keys of the agent are not in it: they belong to the pipeline that builds
// releases, and servers have their public parts only.
func Uses() []Use {
	return []Use{
		{PurposeAuthority, "node", "certificates of nodes and of the node API"},
		{PurposeStatements, "node", "responses to reports of nodes"},
		{PurposeTasks, "work", "tasks for nodes, and the sets of keys that nodes trust"},
		{PurposeLogins, "api", "SSH certificates of users"},
		{PurposeTokens, "api", "access tokens of service accounts"},
		{PurposeCursors, "api", "cursors of lists and cookies of sign-ins in progress"},
		{PurposeFields, "api", "secrets in columns: refresh tokens of sessions and stored responses with a secret"},
	}
}

// roleOf returns the role that opens the keys of a purpose.
func roleOf(purpose string) string {
	for _, u := range Uses() {
		if u.Purpose == purpose {
			return u.Role
		}
	}
	return ""
}

// opens reports whether a process with the roles opens the keys of a purpose.
func opens(roles []string, purpose string) bool { return slices.Contains(roles, roleOf(purpose)) }
