package change

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// PolicyKey is a key with what is declared of it.
type PolicyKey struct {
	policies.Key

	Set []Setting
}

// Setting is one value at one scope.
type Setting struct {
	Scope   policies.Scope
	Value   any    // bool, int64, string or []string
	Object  string // name of the Policy object
	Version int64
	Source  desired.Source
}

// Policies lists the keys that begin with a prefix, by name after a name, with
// every value that is declared.
func (s *Service) Policies(ctx context.Context, prefix, after string, limit int) ([]PolicyKey, error) {
	list, err := s.Desired.Export(ctx, []desired.Kind{desired.KindPolicy}, "", "")
	if err != nil {
		return nil, err
	}
	set, err := settings(list)
	if err != nil {
		return nil, err
	}
	keys := policies.Keys()
	slices.SortFunc(keys, func(a, b policies.Key) int { return cmp.Compare(a.Name, b.Name) })
	page := []PolicyKey{}
	for _, k := range keys {
		if strings.HasPrefix(k.Name, prefix) && k.Name > after && len(page) < limit {
			page = append(page, PolicyKey{k, set[k.Name]})
		}
	}
	return page, nil
}

func settings(list []desired.Object) (map[string][]Setting, error) {
	set := map[string][]Setting{}
	for _, o := range list {
		var spec desired.Policy
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return nil, fmt.Errorf("reading %s: %w", o.Key(), err)
		}
		value, fault := policies.Check(spec.Key, spec.Scope, spec.Value)
		if fault != nil {
			continue // a key of another release
		}
		set[spec.Key] = append(set[spec.Key], Setting{policies.Scope(spec.Scope), value, o.Name, o.ResourceVersion, o.Source})
	}
	for _, one := range set {
		slices.SortFunc(one, func(a, b Setting) int { return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Object, b.Object)) })
	}
	return set, nil
}

// Absent is the version of a policy that the client has found without a value at the scope.
const Absent int64 = -1

// SetPolicy declares one value at one scope, as an object that the API owns.
// Version zero is any.
func (s *Service) SetPolicy(ctx context.Context, ch identity.Change[PolicyKey], key string, scope policies.Scope, value any, version int64) (PolicyKey, error) {
	k, known := policies.Define(key)
	if !known {
		return PolicyKey{}, errs.New(errs.NotFound, "no policy key is named %q", key)
	}
	checked, fault := policies.Check(key, string(scope), value)
	if fault != nil {
		return PolicyKey{}, fault.Coded("")
	}
	spec, err := json.Marshal(desired.Policy{Key: key, Scope: string(scope), Value: checked})
	if err != nil {
		return PolicyKey{}, fmt.Errorf("encoding policy %s: %w", key, err)
	}
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (PolicyKey, record, error) {
		o, err := s.setPolicy(ctx, tx, key, scope, spec, version)
		if err != nil {
			return PolicyKey{}, record{}, err
		}
		beside := s.changed("put", o, ch.Caller, nil, declared(o), "")
		beside.Action = "policy.set"
		return PolicyKey{k, []Setting{{scope, checked, o.Name, o.ResourceVersion, o.Source}}}, beside, nil
	})
	if err == nil {
		s.sendHints()
	}
	return made, err
}

// setPolicy writes the object that sets a key at a scope. An existing object keeps its name, labels and annotations: the
// caller changes only the value.
func (s *Service) setPolicy(ctx context.Context, tx pgx.Tx, key string, scope policies.Scope, spec []byte, version int64) (desired.Object, error) {
	if err := s.namesSubject(ctx, tx, scope, "scope"); err != nil {
		return desired.Object{}, err
	}
	o := desired.Object{Kind: desired.KindPolicy, Name: policyName(key, scope), Spec: spec}
	taken, err := s.Desired.LockNamed(ctx, tx, []desired.Name{o.Key()})
	if err == nil && version == Absent {
		// No row exists that this transaction could lock. A faster transaction could otherwise set a value after the read.
		err = desired.LockUnique(ctx, tx, []desired.Object{o})
	}
	if err != nil {
		return desired.Object{}, err
	}
	have, err := s.Desired.Policies(ctx, tx, []string{key}, []string{string(scope)})
	if err != nil {
		return desired.Object{}, err
	}
	for _, set := range have {
		if set.Source.Owner == desired.OwnerGit {
			return desired.Object{}, errs.New(errs.ManagedByGit, "%s at %s is managed in Git; edit %s", key, scope, set.Source).With("source", set.Source)
		}
		o.Name, o.Labels, o.Annotations = set.Name, set.Labels, set.Annotations
	}
	switch {
	case len(have) > 0 && version == Absent:
		return desired.Object{}, errs.New(errs.VersionMismatch, "%s at %s has a value already", key, scope).With("version", have[0].ResourceVersion).Try("read it again")
	case len(have) == 0 && len(taken) > 0:
		return desired.Object{}, errs.New(errs.Conflict, "%s sets another key", o.Key()).Try("rename the object, or put the policy as an object with another name")
	}
	if o, err = s.normal(o); err != nil {
		return desired.Object{}, err
	}
	if err := s.mayWriteAlone(ctx, tx, owned(have, []desired.Object{o})); err != nil {
		return desired.Object{}, err
	}
	return s.Desired.PutVersion(ctx, tx, o, max(version, 0))
}

// policyName is the name of the object that sets a key at a scope: readable, and
// another for another scope.
func policyName(key string, scope policies.Scope) string {
	name := strings.NewReplacer(".", "-", "_", "-").Replace(key)
	if scope == policies.Platform {
		return name
	}
	sum := sha256.Sum256([]byte(scope))
	const most, digits = 63, 12
	tail := "-" + hex.EncodeToString(sum[:])[:digits]
	return name[:min(len(name), most-len(tail))] + tail
}
