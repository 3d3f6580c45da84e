package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/billing"
	"github.com/gpuaas/gpuaas/policies"
)

// declarations is the door for intent as billing knows it.
type declarations struct{ *desired.Store }

// Policies reads what is declared of these keys at these scopes.
func (d declarations) Policies(ctx context.Context, q pg.Queryer, keys []string, scopes []policies.Scope) ([]billing.Declared, error) {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = string(s)
	}
	found, err := d.Store.Policies(ctx, q, keys, texts)
	if err != nil {
		return nil, err
	}
	list := make([]billing.Declared, len(found))
	for i, o := range found {
		var spec desired.Policy
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		value, fault := policies.Check(spec.Key, spec.Scope, spec.Value)
		if fault != nil {
			return nil, fmt.Errorf("reading %s %s: %s", o.Kind, o.Name, fault.Message)
		}
		amount, _ := value.(int64) // both keys are amounts
		list[i] = billing.Declared{
			Key: spec.Key, Scope: policies.Scope(spec.Scope), Value: amount, Version: o.ResourceVersion,
			ByGit: o.Source.Owner == desired.OwnerGit, Source: o.Source,
		}
	}
	return list, nil
}

// PutPolicy declares one that the API owns.
func (d declarations) PutPolicy(ctx context.Context, tx pgx.Tx, name, key string, scope policies.Scope, value int64) error {
	spec, err := json.Marshal(desired.Policy{Key: key, Scope: string(scope), Value: value})
	if err != nil {
		return fmt.Errorf("encoding policy %s: %w", key, err)
	}
	_, err = d.Put(ctx, tx, desired.Object{Kind: desired.KindPolicy, Name: name, Spec: spec})
	return err
}
