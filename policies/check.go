package policies

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Scope is the area in which a value applies: the platform, or a level and a name.
type Scope string

// Platform is the widest scope.
const Platform Scope = "platform"

// In makes the scope of one tenant, project, user, node, region or SKU.
func In(level Level, name string) Scope { return Scope(string(level) + ":" + name) }

// Level returns the kind of the scope, or nothing if it is invalid.
func (s Scope) Level() Level {
	if s == Platform {
		return LevelPlatform
	}
	level, name, ok := strings.Cut(string(s), ":")
	if !ok || name == "" || level == string(LevelPlatform) || !slices.Contains(Levels(), Level(level)) {
		return ""
	}
	return Level(level)
}

// Name returns the part after the level.
func (s Scope) Name() string {
	_, name, _ := strings.Cut(string(s), ":")
	return name
}

// Fault is the reason why a value is rejected: the field, and the expected value.
type Fault struct {
	Field    string // key, scope or value
	Message  string
	Expected string
	Code     errs.Code // policy_not_in_force or spec_invalid
}

// Coded returns the fault as an error of the API. The prefix is the path of the setting in the document.
func (f *Fault) Coded(prefix string) error {
	return errs.New(f.Code, "%s", f.Message).At(prefix+f.Field).Try("use %s", f.Expected)
}

// Check compares a setting with the definition of its key and returns the value
// in the form in which it is stored and read: bool, int64, string or []string.
func Check(key, scope string, value any) (any, *Fault) {
	k, ok := Define(key)
	if !ok {
		return nil, &Fault{"key", fmt.Sprintf("no policy key is named %q", key), nearest(key), errs.SpecInvalid}
	}
	if k.NotInForce != "" {
		return nil, &Fault{"key", fmt.Sprintf("%s is not in force: %s", key, k.NotInForce), "a key that is in force; gpuaas get policies lists them", errs.PolicyNotInForce}
	}
	level := Scope(scope).Level()
	if level == "" {
		return nil, &Fault{"scope", fmt.Sprintf("%q is no scope", scope), "platform, or a level and a name, like tenant:NAME", errs.SpecInvalid}
	}
	if !slices.Contains(k.Scopes, level) {
		return nil, &Fault{"scope", fmt.Sprintf("%s cannot be set for a %s", key, level), oneOf(k.Scopes), errs.SpecInvalid}
	}
	if v, ok := k.accept(value); ok {
		return v, nil
	}
	return nil, &Fault{"value", "is " + shown(value), k.Expected(), errs.SpecInvalid}
}

// accept converts a value from JSON, and reports whether it is allowed.
func (k Key) accept(value any) (any, bool) {
	switch k.Type {
	case TypeBool:
		b, ok := value.(bool)
		return b, ok
	case TypeInt, TypeMinor:
		n, ok := integer(value)
		return n, ok && n >= k.Min && n <= k.Max
	case TypeEnum:
		s, ok := value.(string)
		return s, ok && slices.Contains(k.Values, s)
	case TypeText:
		s, ok := value.(string)
		// The pattern is data of ours: a test compiles every one.
		match, err := regexp.MatchString(k.Pattern, s)
		return s, ok && match && err == nil
	case TypeList:
		return k.acceptList(value)
	}
	return nil, false
}

func (k Key) acceptList(value any) (any, bool) {
	var words []string
	switch list := value.(type) {
	case []string:
		words = list
	case []any:
		for _, item := range list {
			s, ok := item.(string)
			if !ok {
				return nil, false
			}
			words = append(words, s)
		}
	default:
		return nil, false
	}
	out := []string{} // never nil: null is no list
	for _, w := range words {
		if !slices.Contains(k.Values, w) || slices.Contains(out, w) {
			return nil, false
		}
		out = append(out, w)
	}
	return out, true
}

// integer reads a whole number of any form that decoders leave. A float would
// round large amounts, so only an exact one passes.
func integer(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		i := int64(n)
		return i, float64(i) == n && n >= -1<<53 && n <= 1<<53
	case json.Number:
		i, err := n.Int64()
		return i, err == nil
	}
	return 0, false
}

// Expected describes the allowed values of this key.
func (k Key) Expected() string {
	switch k.Type {
	case TypeBool:
		return "true or false"
	case TypeInt, TypeMinor:
		return strings.TrimSpace(fmt.Sprintf("an integer from %d to %d %s", k.Min, k.Max, k.Unit))
	case TypeEnum:
		return "one of " + strings.Join(k.Values, ", ")
	case TypeText:
		return "text that matches " + k.Pattern
	case TypeList:
		return "a list of some of " + strings.Join(k.Values, ", ") + ", each once"
	}
	return ""
}

func shown(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("the text %.60q", v)
	case nil:
		return "empty"
	case []any, []string:
		return fmt.Sprintf("the list %.60s", fmt.Sprint(v))
	}
	return fmt.Sprintf("%.60s", fmt.Sprint(value))
}

func oneOf(levels []Level) string {
	words := make([]string, len(levels))
	for i, l := range levels {
		words[i] = string(l)
	}
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// nearest lists the keys of the same prefix that are in force.
func nearest(key string) string {
	prefix, _, _ := strings.Cut(key, ".")
	var names []string
	for _, k := range keys {
		if strings.HasPrefix(k.Name, prefix+".") && k.NotInForce == "" {
			names = append(names, k.Name)
		}
	}
	if len(names) == 0 {
		return "a key that gpuaas get policies lists"
	}
	return "one of " + strings.Join(names, ", ")
}
