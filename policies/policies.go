// Package policies owns the definition of every policy key with its type, default, bounds and scopes,
// the roles with their operations, and the typed client that reads the values. It owns policy_values and
// policy_revision.
//
// It rejects a value that its key's definition does not allow, and makes no decision itself. The data is
// in keys.cue and roles.cue; Go reads tables that are generated from them, so no decision evaluates CUE.
package policies

import (
	"slices"
	"sync"
)

//go:generate go run ./gen

// Type of a key's value.
type Type string

// The types. Minor is an integer of minor units of a currency.
const (
	TypeBool  Type = "bool"
	TypeInt   Type = "int"
	TypeMinor Type = "minor"
	TypeEnum  Type = "enum"
	TypeText  Type = "text"
	TypeList  Type = "list"
)

// Level is a kind of scope, from wide to narrow.
type Level string

// The levels.
const (
	LevelPlatform Level = "platform"
	LevelRegion   Level = "region"
	LevelSKU      Level = "sku"
	LevelNode     Level = "node"
	LevelTenant   Level = "tenant"
	LevelProject  Level = "project"
	LevelUser     Level = "user"
)

// Levels lists them from wide to narrow.
func Levels() []Level {
	return []Level{LevelPlatform, LevelRegion, LevelSKU, LevelNode, LevelTenant, LevelProject, LevelUser}
}

// Cap is the rule by which a value of an outer scope limits the values of inner scopes.
type Cap string

// The caps: an inner number is at most, or at least, the outer; a switch that is
// off further out is off.
const (
	CapNone Cap = ""
	CapMax  Cap = "max"
	CapMin  Cap = "min"
	CapAll  Cap = "all"
)

// The types of the constants: a key cannot be read as something it is not.
type (
	// BoolKey names a switch.
	BoolKey string
	// IntKey names a number.
	IntKey string
	// MinorKey names an amount.
	MinorKey string
	// TextKey names a text value.
	TextKey string
	// ListKey names a list of texts.
	ListKey string
)

// Key defines one policy key.
type Key struct {
	Name       string
	Meaning    string
	Type       Type
	Default    any // bool, int64, string or []string
	Min, Max   int64
	Values     []string // of an enum or a list
	Pattern    string   // of a text
	Scopes     []Level
	Unit       string
	Cap        Cap
	ZeroIsNone bool // zero is no limit, and caps nothing
	// NotInForce is the reason why no value of the key has an effect. Such a key is rejected.
	NotInForce string
}

// Readers lists the functions that read the key, as package.function.
func (k Key) Readers() []string { return slices.Clone(readers[k.Name]) }

// Keys lists all keys, as they are defined.
func Keys() []Key { return slices.Clone(keys) }

// Define finds the definition of a key.
func Define(name string) (Key, bool) {
	k, ok := index()[name]
	return k, ok
}

// index is built once, because every request reads keys.
var index = sync.OnceValue(func() map[string]Key {
	byName := make(map[string]Key, len(keys))
	for _, k := range keys {
		byName[k.Name] = k
	}
	return byName
})

// Role is the role of a caller, with the operations that it allows.
type Role struct {
	Name       string // "admin", "tenant.owner", "project.member"
	Scope      string // platform, tenant, project, service_account
	Meaning    string
	Operations []string // operationIds, or "*"
}

// Roles lists all roles.
func Roles() []Role { return slices.Clone(roles) }

// Allows reports whether a role may call an operation. An unlisted operation or an unknown role is
// denied.
func Allows(role, operation string) bool {
	for _, r := range roles {
		if r.Name == role {
			return slices.Contains(r.Operations, operation) || slices.Contains(r.Operations, "*") && !Withheld(operation)
		}
	}
	return false
}

// Covered reports whether a role lists the operation by name. Only "*" allows an operation that is in no
// list, and a test rejects such operations.
func Covered(operation string) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(r.Operations, operation) })
}
