package desired

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// claim is a value that only one desired object may have, for all owners and names. With two of
// them, chance would decide which one is in effect.
type claim struct{ what, field, code string }

func (o Object) claim() (c claim, claims bool) {
	switch o.Kind {
	case KindPolicy:
		var p Policy
		claims = json.Unmarshal(o.Spec, &p) == nil && p.Key != ""
		c = claim{p.Key + " at " + p.Scope, "spec.key", CodePolicyInvalid}
	case KindOSImage:
		var i OSImage
		claims = json.Unmarshal(o.Spec, &i) == nil && i.Default
		c = claim{"the default image", "spec.default", CodeOnlyOne}
	case KindStorageClass:
		var class StorageClass
		claims = json.Unmarshal(o.Spec, &class) == nil && class.Default
		c = claim{"the default storage class", "spec.default", CodeOnlyOne}
	case KindEnvironment:
		c, claims = claim{"the environment", "kind", CodeOnlyOne}, true
	case KindRole, KindSKU, KindNode, KindAllocation:
	}
	return c, claims
}

// rival is an object that already has the value of another one.
type rival struct {
	claim

	second, first Object
}

func (r rival) message() string {
	holder := "the API owns"
	if r.first.Source.Owner == OwnerGit {
		holder = "the source " + r.first.Source.Name + " declares at " + r.first.Source.String()
	}
	return fmt.Sprintf("%s is %s already, which %s", r.what, r.first.Key(), holder)
}

func (r rival) finding() Finding {
	return Finding{
		Code: r.code, Path: r.second.Source.Path, Line: r.second.Source.Line, Column: r.second.Source.Column, Object: r.second.Key().String(), Field: r.field,
		Message: r.message(), Expected: "one such object; remove one of the two, or have this source adopt that one under its name",
	}
}

func (r rival) conflict() error {
	if r.first.Source.Owner == OwnerGit {
		return errs.New(errs.ManagedByGit, "%s; edit that file", r.message()).At(r.field).With("source", r.first.Source)
	}
	return errs.New(errs.SpecInvalid, "%s", r.message()).At(r.field).Try("change that one, or remove it first")
}

// Duplicates returns a finding for each object that would define what another object already defines. Objects that
// except returns true for are ignored.
func Duplicates(ctx context.Context, q pg.Queryer, objects []Object, except func(Object) bool) ([]Finding, error) {
	found, err := rivals(ctx, q, objects, except)
	list := make([]Finding, 0, len(found))
	for _, r := range found {
		list = append(list, r.finding())
	}
	return list, err
}

// sole rejects objects of the API with a value that another object has already.
func sole(ctx context.Context, tx pgx.Tx, objects ...Object) error {
	if err := LockUnique(ctx, tx, objects); err != nil {
		return err
	}
	own := map[Name]bool{}
	for _, o := range objects {
		own[o.Key()] = true
	}
	found, err := rivals(ctx, tx, objects, func(o Object) bool { return own[o.Key()] })
	if err == nil && len(found) > 0 {
		err = found[0].conflict()
	}
	return err
}

// LockUnique lets one transaction at a time write objects of which only one may exist. The caller first locks the
// objects that it writes. An object that does not exist yet cannot be locked itself.
func LockUnique(ctx context.Context, tx pgx.Tx, objects []Object) error {
	if !slices.ContainsFunc(objects, func(o Object) bool { _, claims := o.claim(); return claims }) {
		return nil
	}
	if _, err := tx.Exec(ctx, lockSole); err != nil {
		return fmt.Errorf("locking what only one may declare: %w", err)
	}
	return nil
}

func rivals(ctx context.Context, q pg.Queryer, wanted []Object, except func(Object) bool) (list []rival, err error) {
	var whats []string
	for _, o := range wanted {
		if c, claims := o.claim(); claims {
			whats = append(whats, c.what)
		}
	}
	if len(whats) == 0 {
		return nil, nil
	}
	rows, err := q.Query(ctx, selectSole, whats)
	if err != nil {
		return nil, fmt.Errorf("reading what only one may declare: %w", err)
	}
	have, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading what only one may declare: %w", err)
	}
	first := map[string]Object{}
	for _, o := range slices.DeleteFunc(have, except) {
		c, _ := o.claim()
		first[c.what] = o
	}
	for _, o := range wanted {
		c, claims := o.claim()
		if holder, held := first[c.what]; claims && held {
			list = append(list, rival{c, o, holder})
		}
	}
	return list, nil
}
