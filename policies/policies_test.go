package policies

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func view(values map[string]any, scopes ...Scope) View {
	s := Snapshot{values: map[setting]any{}}
	for at, v := range values {
		key, scope, _ := strings.Cut(at, "@")
		s.values[setting{key, Scope(scope)}] = v
	}
	return s.For(scopes...)
}

func TestDefinitionsAreSound(t *testing.T) {
	t.Parallel()
	for _, k := range Keys() {
		if _, ok := k.accept(k.Default); !ok {
			t.Errorf("%s: its default is rejected", k.Name)
		}
		if _, err := regexp.Compile(k.Pattern); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
	if len(Keys()) < 80 {
		t.Errorf("only %d keys", len(Keys()))
	}
}

func TestNarrowestWinsAndOuterCaps(t *testing.T) {
	t.Parallel()
	tenant, project, user := In(LevelTenant, "t"), In(LevelProject, "p"), In(LevelUser, "u")
	gpus := "allocation.max_gpus@"
	for name, c := range map[string]struct {
		values map[string]any
		scopes []Scope
		want   int64
	}{
		"default":                     {nil, []Scope{tenant}, 8},
		"platform":                    {map[string]any{gpus + "platform": int64(4)}, nil, 4},
		"narrower":                    {map[string]any{gpus + "platform": int64(16), gpus + "tenant:t": int64(2)}, []Scope{tenant}, 2},
		"capped":                      {map[string]any{gpus + "platform": int64(4), gpus + "tenant:t": int64(64)}, []Scope{tenant}, 4},
		"capped in the middle":        {map[string]any{gpus + "tenant:t": int64(4), gpus + "project:p": int64(64)}, []Scope{project, tenant}, 4},
		"the default is no cap":       {map[string]any{gpus + "tenant:t": int64(64)}, []Scope{tenant}, 64},
		"another tenant's is ignored": {map[string]any{gpus + "tenant:other": int64(64)}, []Scope{tenant}, 8},
		"a scope it does not have":    {map[string]any{gpus + "user:u": int64(1)}, []Scope{user}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if have := view(c.values, c.scopes...).Int(AllocationMaxGPUs); have != c.want {
				t.Errorf("is %d, want %d", have, c.want)
			}
		})
	}
}

func TestCapsOfOtherKinds(t *testing.T) {
	t.Parallel()
	tenant := In(LevelTenant, "t")
	limit := "billing.hourly_spend_limit_minor@"
	for name, c := range map[string]struct{ outer, inner, want int64 }{
		"no limit inside a limit": {500, 0, 500},
		"a limit inside none":     {0, 500, 500},
		"none at all":             {0, 0, 0},
		"lower":                   {500, 400, 400},
		"higher":                  {500, 600, 500},
	} {
		v := view(map[string]any{limit + "platform": c.outer, limit + "tenant:t": c.inner}, tenant)
		if have := int64(v.Minor(BillingHourlySpendLimitMinor)); have != c.want {
			t.Errorf("%s: is %d, want %d", name, have, c.want)
		}
	}
	runway := "billing.minimum_runway_minutes@"
	if have := view(map[string]any{runway + "platform": int64(60), runway + "tenant:t": int64(5)}, tenant).Int(BillingMinimumRunwayMinutes); have != 60 {
		t.Errorf("a minimum of an outer scope applies: %d", have)
	}
	keys := "auth.api_keys_enabled@"
	if view(map[string]any{keys + "platform": false, keys + "tenant:t": true}, tenant).Bool(AuthAPIKeysEnabled) {
		t.Error("a switch that is off further out is off")
	}
	if view(map[string]any{keys + "platform": true, keys + "tenant:t": false}, tenant).Bool(AuthAPIKeysEnabled) {
		t.Error("an inner switch can be off")
	}
	if s := view(nil).String(PlacementStrategy); s != "pack" {
		t.Errorf("strategy is %q", s)
	}
	if l := view(nil).List(GitOpsApplyRequires); len(l) != 1 || l[0] != "approved" {
		t.Errorf("list is %q", l)
	}
}

// A limit never exceeds one of an outer scope, and the sequence of scopes does not matter.
func TestCapsHold(t *testing.T) {
	t.Parallel()
	scopes := []Scope{Platform, In(LevelTenant, "t"), In(LevelProject, "p"), In(LevelUser, "u")}
	key := AllocationMaxConcurrentPerUser
	rapid.Check(t, func(t *rapid.T) {
		s := Snapshot{values: map[setting]any{}}
		least := int64(-1)
		for _, scope := range scopes {
			if rapid.Bool().Draw(t, "set") {
				n := rapid.Int64Range(0, 1000).Draw(t, "value")
				s.values[setting{string(key), scope}] = n
				if least < 0 || n < least {
					least = n
				}
			}
		}
		if least < 0 {
			least = 4
		}
		if have := s.For(rapid.Permutation(scopes).Draw(t, "order")...).Int(key); have != least {
			t.Errorf("is %d, want %d of %v", have, least, s.values)
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, scope string
		value      any
		field      string
	}{
		"int":            {"node.report_seconds", "platform", json.Number("5"), ""},
		"float whole":    {"node.report_seconds", "node:a", 5.0, ""},
		"float":          {"node.report_seconds", "platform", 5.5, "value"},
		"below":          {"node.report_seconds", "platform", 1, "value"},
		"above":          {"node.report_seconds", "platform", 61, "value"},
		"text as int":    {"node.report_seconds", "platform", "5", "value"},
		"int as bool":    {"reconcile.enabled", "platform", 1, "value"},
		"enum":           {"placement.strategy", "region:eu", "spread", ""},
		"enum unknown":   {"placement.strategy", "platform", "", "value"},
		"text":           {"billing.currency", "platform", "USD", ""},
		"text unmatched": {"billing.currency", "platform", "usd", "value"},
		"list":           {"gitops.apply_requires", "platform", []any{"signed"}, ""},
		"list empty":     {"gitops.apply_requires", "platform", []any{}, ""},
		"list of ints":   {"gitops.apply_requires", "platform", []any{1}, "value"},
		"null":           {"gitops.apply_requires", "platform", nil, "value"},
		"not in force":   {"maas.enabled", "platform", true, "key"},
		"unknown key":    {"nope", "platform", 1, "key"},
		"wrong scope":    {"gitops.max_files", "tenant:x", 1, "scope"},
		"no scope":       {"gitops.max_files", "", 1, "scope"},
		"scope no name":  {"node.report_seconds", "node:", 5, "scope"},
		"platform name":  {"node.report_seconds", "platform:x", 5, "scope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, fault := Check(c.key, c.scope, c.value)
			switch {
			case fault == nil && c.field != "":
				t.Error("accepted")
			case fault != nil && fault.Field != c.field:
				t.Errorf("rejected for %s: %s (%s)", fault.Field, fault.Message, fault.Expected)
			}
		})
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role, operation string
		want            bool
	}{
		{"project.member", "createAllocation", true},
		{"project.viewer", "createAllocation", false},
		{"admin", "anything", true},
		{"nobody", "listSkus", false},
		{"user", "listSkus", true},
	} {
		if Allows(c.role, c.operation) != c.want {
			t.Errorf("%s %s is not %v", c.role, c.operation, c.want)
		}
	}
	if !Covered("createEnrolmentToken") || Covered("forgotten") {
		t.Error("coverage is by name")
	}
}
