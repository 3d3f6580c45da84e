package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Write is a request to put one object.
type Write struct {
	Object desired.Object // kind, name, labels, annotations, spec
	// Version is the resource version that the client has read. Zero creates the object and fails
	// if the name exists.
	Version int64
	DryRun  bool // check and answer; write nothing
}

// errDry ends a transaction that was only tried.
var errDry = errors.New("only tried")

// Put declares an object that the API owns. One that is new has version 1.
func (s *Service) Put(ctx context.Context, ch identity.Change[desired.Object], w Write) (desired.Object, error) {
	var tried desired.Object
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (desired.Object, record, error) {
		o, before, err := s.put(ctx, tx, w)
		if err == nil {
			err = s.within(ch.Caller, o)
		}
		if err == nil && w.DryRun {
			tried, err = o, errDry
		}
		return o, s.changed("put", o, ch.Caller, before, declared(o), ""), err
	})
	if errors.Is(err, errDry) {
		return tried, nil
	}
	if err == nil {
		s.sendHints()
	}
	return made, err
}

func (s *Service) sendHints() {
	s.Desired.Hint()
	s.Hints.Send(event.Topic)
}

// changed writes the audit row and, if the object differs, queues the event. An unchanged object is
// audited, since an operator requested the change, but emits no event.
func (s *Service) changed(what string, o desired.Object, by identity.Caller, before, after any, reason string) record {
	r := s.about("desired."+what, o, before, after)
	if was, ok := before.(map[string]any); !ok || was["version"] != o.ResourceVersion {
		r.events = []event.Draft{s.changedEvent(o, what, by, reason)}
	}
	return r
}

// put writes one object. It locks the name first, so that the checks that follow apply to the row that is written.
func (s *Service) put(ctx context.Context, tx pgx.Tx, w Write) (made desired.Object, before any, err error) {
	if err := writable(w.Object.Kind); err != nil {
		return made, nil, err
	}
	if w.Object, err = s.normal(w.Object); err != nil {
		return made, nil, err
	}
	have, err := s.Desired.LockNamed(ctx, tx, []desired.Name{w.Object.Key()})
	switch {
	case err != nil:
		return made, nil, err
	case len(have) == 1 && w.Version == 0 && have[0].Source.Owner == desired.OwnerAPI:
		return made, nil, errs.New(errs.VersionRequired, "%s already exists", w.Object.Key()).
			Try("read it, and name the version that you have changed in If-Match").With("version", have[0].ResourceVersion)
	case len(have) == 1:
		before = declared(have[0])
	}
	if err := s.consistent(ctx, tx, w.Object); err != nil {
		return made, nil, err
	}
	if err := s.mayWriteAlone(ctx, tx, owned(have, []desired.Object{w.Object})); err != nil {
		return made, nil, err
	}
	if len(have) == 0 && w.Version == 0 {
		// No row existed that this transaction could lock. A faster transaction has created the
		// name.
		if err = s.Desired.PutAll(ctx, tx, []desired.Object{w.Object}); err == nil {
			made, err = s.Desired.Lock(ctx, tx, w.Object.Kind, w.Object.Scope, w.Object.Name)
		}
		return made, nil, err
	}
	made, err = s.Desired.PutVersion(ctx, tx, w.Object, w.Version)
	if err == nil && len(have) == 1 {
		err = s.free(ctx, tx, revision.Difference{Changed: []revision.Pair{{Old: have[0], New: made}}})
	}
	return made, before, err
}

// SpecOf returns the spec of a request: its fields without those of the metadata. The names of the others are those of
// the kind. The schema adds the defaults of absent fields.
func SpecOf(body any) (json.RawMessage, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var spec map[string]json.RawMessage
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	delete(spec, "name")
	delete(spec, "labels")
	return json.Marshal(spec)
}

// normal fills in the defaults of fields that the request omits, as validation does for a file. The
// planner and the workers read the stored spec and know no defaults.
func (s *Service) normal(o desired.Object) (desired.Object, error) {
	if s.Normal == nil {
		return o, nil
	}
	return s.Normal(o)
}

// writable rejects allocations. They have their own endpoint, which authorises the cost.
func writable(k desired.Kind) error {
	if k == desired.KindAllocation {
		return errs.New(errs.SpecInvalid, "allocations are created and released through the API").At("kind")
	}
	return nil
}

// consistent checks one object against the others, as the validation of a tree does: the objects
// that it names exist, and no other object claims the same value.
func (s *Service) consistent(ctx context.Context, tx pgx.Tx, o desired.Object) error {
	if u := desired.FindUndeliverable(o); u != nil {
		code := errs.SpecInvalid
		if u.Code == desired.CodeIsolationUnavailable {
			code = errs.IsolationUnavailable
		}
		return errs.New(code, "%s", u.Message).At(u.Field).Try("use %s", u.Expected)
	}
	switch o.Kind {
	case desired.KindNode:
		var spec desired.Node
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return fmt.Errorf("reading %s: %w", o.Key(), err)
		}
		have, err := s.Desired.Named(ctx, tx, []desired.Name{{Kind: desired.KindSKU, Name: spec.SKU}})
		if err == nil && len(have) == 0 {
			err = errs.New(errs.SpecInvalid, "no SKU is named %q", spec.SKU).At("spec.sku")
		}
		return err
	case desired.KindPolicy:
		var spec desired.Policy
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return fmt.Errorf("reading %s: %w", o.Key(), err)
		}
		if _, fault := policies.Check(spec.Key, spec.Scope, spec.Value); fault != nil {
			return fault.Coded("spec.")
		}
		return s.namesSubject(ctx, tx, policies.Scope(spec.Scope), "spec.scope")
	case desired.KindRole:
		var spec desired.Role
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return fmt.Errorf("reading %s: %w", o.Key(), err)
		}
		if fault := policies.CheckRole(o.Name, spec.Operations); fault != nil {
			return errs.New(errs.SpecInvalid, "%s", fault.Message).At(fault.Field).Try("use %s", fault.Expected)
		}
	case desired.KindEnvironment, desired.KindSKU, desired.KindOSImage, desired.KindStorageClass, desired.KindAllocation:
	}
	return nil
}

// within rejects a role with an operation that the caller does not have. Its author could otherwise get more rights
// through it.
func (s *Service) within(by identity.Caller, list ...desired.Object) error {
	for _, o := range list {
		var spec desired.Role
		if o.Kind != desired.KindRole || json.Unmarshal(o.Spec, &spec) != nil {
			continue
		}
		if beyond := s.Roles().Beyond(by.Role, spec.Operations); beyond != "" {
			return errs.New(errs.PolicyDenied, "%s lists %s, which your own role does not allow", o.Key(), beyond).At("spec.operations").
				Try("remove it, or have the role written by a user who may call it")
		}
	}
	return nil
}

// namesSubject rejects the scope of a policy that names nothing.
func (s *Service) namesSubject(ctx context.Context, tx pgx.Tx, scope policies.Scope, field string) error {
	f, err := s.Gather(ctx, tx, preview.Touched{Scopes: []policies.Scope{scope}})
	if err != nil {
		return err
	}
	if fault := f.ScopeFault(scope); fault != "" {
		return errs.New(errs.SpecInvalid, "%s", fault).At(field).Try("use %s", preview.ExpectedScope)
	}
	return nil
}

// free rejects a change that removes slots from live allocations. Such a change needs a plan, which
// displays the affected allocations, and the approval of a second operator.
func (s *Service) free(ctx context.Context, tx pgx.Tx, d revision.Difference) error {
	p, err := s.Make(ctx, tx, preview.Change{Owner: desired.OwnerAPI, Diff: d})
	if err != nil {
		return err
	}
	for _, w := range p.Plan.Waits {
		if w.Reason == preview.WaitUnderAllocations {
			return errs.New(errs.NodeInUse, "%s", w.Message).Try("cordon it and wait for the releases, or propose a plan and have it approved")
		}
	}
	return nil
}

// mayWriteAlone rejects a sensitive change without a plan: a plan needs the approval of a second
// operator.
func (s *Service) mayWriteAlone(ctx context.Context, tx pgx.Tx, d revision.Difference) error {
	list := preview.Sensitive(d)
	if len(list) == 0 {
		return nil
	}
	if one, err := s.oneOperator(ctx, tx); one || err != nil {
		return err
	}
	return errs.New(errs.ApprovalRequired, "a change of %s needs the approval of another operator", list[0].Key()).
		Try("propose a plan with gpuaas plan -f FILE, and have it approved")
}

// oneOperator reports whether changes through the API need no second person: an installation for
// development has one operator, and one without an Environment is being set up.
func (s *Service) oneOperator(ctx context.Context, q pg.Queryer) (bool, error) {
	_, profile, err := s.Desired.Profile(ctx, q)
	if errs.CodeOf(err) == errs.NotFound {
		return true, nil
	}
	return profile.Development, err
}

// Delete turns the object into a tombstone. The loop then releases what the object created.
func (s *Service) Delete(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, version int64) (desired.Object, error) {
	return s.touch(ctx, ch, "delete", "", func(tx pgx.Tx) (desired.Object, any, error) {
		if err := writable(n.Kind); err != nil {
			return desired.Object{}, nil, err
		}
		o, err := s.Desired.Delete(ctx, tx, n, version)
		if err == nil {
			err = s.mayWriteAlone(ctx, tx, revision.Difference{Deleted: []desired.Object{o}})
		}
		if err == nil {
			err = s.free(ctx, tx, revision.Difference{Deleted: []desired.Object{o}})
		}
		return o, nil, err
	})
}

// Adopt moves an object to its other owner. A source's next revision may adopt it within a day; the
// API adopts it at once.
func (s *Service) Adopt(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, to desired.Owner, source string, version int64) (desired.Object, error) {
	return s.touch(ctx, ch, "adopt", "", func(tx pgx.Tx) (desired.Object, any, error) {
		if to == desired.OwnerAPI {
			o, err := s.Desired.AdoptToAPI(ctx, tx, n, version)
			return o, map[string]any{"owner": to}, err
		}
		o, err := s.Desired.OfferAdoption(ctx, tx, n, source, version)
		return o, map[string]any{"owner": to, "source": source}, err
	})
}

// Suspend stops the reconciliation of an object until a time or until it is resumed.
func (s *Service) Suspend(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, reason string, until *time.Time) (desired.Object, error) {
	by, err := s.suspension(ch.Caller, reason, until)
	if err != nil {
		return desired.Object{}, err
	}
	return s.touch(ctx, ch, "suspend", reason, func(tx pgx.Tx) (desired.Object, any, error) {
		o, err := s.Desired.Suspend(ctx, tx, n, by)
		return o, map[string]any{"reason": reason, "until": until}, err
	})
}

func (s *Service) suspension(c identity.Caller, reason string, until *time.Time) (desired.Suspension, error) {
	if until != nil && !until.After(s.Clock.Now()) {
		return desired.Suspension{}, errs.Invalid("until", "this time has passed")
	}
	return desired.Suspension{By: c.Actor(), Reason: reason, Until: until}, nil
}

// Resume ends a suspension.
func (s *Service) Resume(ctx context.Context, ch identity.Change[desired.Object], n desired.Name) (desired.Object, error) {
	return s.touch(ctx, ch, "resume", "", func(tx pgx.Tx) (desired.Object, any, error) {
		o, err := s.Desired.Resume(ctx, tx, n)
		return o, nil, err
	})
}

// Reconcile makes the loop reconcile the same generation again.
func (s *Service) Reconcile(ctx context.Context, ch identity.Change[desired.Object], n desired.Name, reason string) (desired.Object, error) {
	return s.touch(ctx, ch, "reconcile", reason, func(tx pgx.Tx) (desired.Object, any, error) {
		o, err := s.Desired.Lock(ctx, tx, n.Kind, n.Scope, n.Name)
		if err == nil {
			err = s.Desired.BumpEpoch(ctx, tx, o.Kind, o.UID, "requested: "+reason)
		}
		if err == nil {
			o, err = s.Desired.LockUID(ctx, tx, o.Kind, o.UID)
		}
		return o, map[string]any{"reason": reason, "epoch": o.Epoch}, err
	})
}

func (s *Service) touch(ctx context.Context, ch identity.Change[desired.Object], what, reason string, work func(pgx.Tx) (desired.Object, any, error)) (desired.Object, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (desired.Object, record, error) {
		o, after, err := work(tx)
		return o, s.changed(what, o, ch.Caller, nil, after, reason), err
	})
	if err == nil {
		s.sendHints()
	}
	return made, err
}

// declared returns the fields of an object that an audit row stores.
func declared(o desired.Object) map[string]any {
	return map[string]any{
		"kind": o.Kind, "name": o.Name, "generation": o.Generation, "version": o.ResourceVersion,
		"labels": o.Labels, "annotations": o.Annotations, "spec": o.Spec,
	}
}

// SuspendSource stops the application of new revisions. Commits are still fetched and validated.
func (s *Service) SuspendSource(ctx context.Context, ch identity.Change[revision.SourceState], name, reason string, until *time.Time) (revision.SourceState, error) {
	by, err := s.suspension(ch.Caller, reason, until)
	if err != nil {
		return revision.SourceState{}, err
	}
	return s.turn(ctx, ch, "source.suspend", map[string]any{"reason": reason, "until": until}, func(tx pgx.Tx) (revision.SourceState, error) {
		return s.Desired.SuspendSource(ctx, tx, name, by)
	})
}

// ResumeSource applies the branch again, as it is then.
func (s *Service) ResumeSource(ctx context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error) {
	return s.turn(ctx, ch, "source.resume", nil, func(tx pgx.Tx) (revision.SourceState, error) { return s.Desired.ResumeSource(ctx, tx, name) })
}

// RequestSync requests an immediate poll of a source.
func (s *Service) RequestSync(ctx context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error) {
	return s.turn(ctx, ch, "source.ask", nil, func(tx pgx.Tx) (revision.SourceState, error) { return s.Desired.RequestSync(ctx, tx, name) })
}

func (s *Service) turn(ctx context.Context, ch identity.Change[revision.SourceState], action string, after any, work func(pgx.Tx) (revision.SourceState, error)) (revision.SourceState, error) {
	made, err := do(ctx, s, ch, func(tx pgx.Tx) (revision.SourceState, record, error) {
		state, err := work(tx)
		return state, s.entry(action, "git-source", state.Name, nil, after), err
	})
	if err == nil {
		s.Hints.Send(revision.HintSources)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", action, err)
	}
	return made, err
}
