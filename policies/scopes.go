package policies

import (
	"fmt"
	"slices"
	"sync"
)

// Scopes is the set of uses that a token is limited to, such as allocations:read. It limits the rights
// of the token's holder and never adds to them.
type Scopes uint32

// tokenScope marks the roles of roles.cue that are scopes of tokens.
const tokenScope = "token"

// PlansPropose is the scope of CI for a fleet repository. Unlike other scopes it applies to the whole
// platform, so only an operator can grant it.
const PlansPropose = "plans:propose"

// scopeNames lists the scopes as they are defined. The index of a scope is its bit, in this process
// only.
var scopeNames = sync.OnceValue(func() (names []string) {
	for _, r := range roles {
		if r.Scope == tokenScope {
			names = append(names, r.Name)
		}
	}
	return names
})

// ScopeNames lists every scope that a token can have.
func ScopeNames() []string { return slices.Clone(scopeNames()) }

// ParseScopes reads names of scopes.
func ParseScopes(names []string) (s Scopes, err error) {
	for _, name := range names {
		i := slices.Index(scopeNames(), name)
		if i < 0 {
			return 0, fmt.Errorf("scope %q does not exist", name)
		}
		s |= 1 << i
	}
	return s, nil
}

// Names lists the scopes of the set.
func (s Scopes) Names() []string {
	names := []string{}
	for i, name := range scopeNames() {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Within reports whether s contains no scope beyond most.
func (s Scopes) Within(most Scopes) bool { return s&^most == 0 }
