package policies

import (
	"fmt"
	"slices"
	"sync"
)

// Scopes is a set of what a token may be used for, such as allocations:read. It
// bounds the rights of whoever holds the token and never adds to a person's.
type Scopes uint32

// tokenScope marks the roles of roles.cue that are scopes of tokens.
const tokenScope = "token"

// scopeNames lists the scopes in the order of their definition; a scope's place
// is its bit, in this process only.
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

// ParseScopes reads names of scopes, in any order.
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

// Within says whether s asks for nothing beyond most.
func (s Scopes) Within(most Scopes) bool { return s&^most == 0 }
