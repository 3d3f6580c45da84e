package notification

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	_ "time/tzdata" // a server without a time zone database accepts the same preferences

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Channel is a way to a user.
type Channel string

// The channels.
const (
	InApp Channel = "in_app"
	Email Channel = "email"
)

func channels() []Channel { return []Channel{InApp, Email} }

// Value is a frequency.
type Value string

// The values. Digests are for e-mail only.
const (
	Off    Value = "off"
	Now    Value = "now"
	Hourly Value = "hourly"
	Daily  Value = "daily"
)

// Source names the subject that has chosen a value.
type Source string

// The sources, of which the first with a choice counts.
const (
	FromUser    Source = "user"
	FromTenant  Source = "tenant"
	FromDefault Source = "default"
)

// Choices are values by kind and channel.
type Choices map[string]map[Channel]Value

// Preferences are the choices of a user, or the defaults of a tenant.
type Preferences struct {
	Choices Choices
	Zone    string // empty: UTC, or the one of the tenant
	Quiet   *Quiet // nil: none, or those of the tenant
	Version int64
}

// stored is a row of notification_preferences. A subject without a row has version 1.
type stored struct {
	ID       uuid.UUID
	Choices  []byte
	Zone     string
	From, To *int16
	Version  int64
}

func (r stored) preferences() (Preferences, error) {
	p := Preferences{Zone: r.Zone, Version: r.Version}
	if r.From != nil && r.To != nil {
		p.Quiet = &Quiet{Start: Minute(*r.From), End: Minute(*r.To)}
	}
	if err := json.Unmarshal(r.Choices, &p.Choices); err != nil {
		return p, fmt.Errorf("reading the preferences of %s: %w", r.ID, err)
	}
	return p, nil
}

// read returns the preferences of users and tenants by their ids.
func read(ctx context.Context, q pg.Queryer, of []uuid.UUID) (map[uuid.UUID]Preferences, error) {
	rows, err := pg.List(ctx, q, "notification preferences", selectPreferences, pgx.RowToStructByPos[stored], of)
	if err != nil {
		return nil, err
	}
	all := make(map[uuid.UUID]Preferences, len(of))
	for _, id := range of {
		all[id] = Preferences{Version: 1}
	}
	for _, r := range rows {
		if all[r.ID], err = r.preferences(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inEffect are the preferences of a user over those of the tenant.
type inEffect struct{ user, tenant Preferences }

func (e inEffect) value(k kind, c Channel) (Value, Source) {
	if v := e.user.Choices[k.name][c]; v != "" {
		return v, FromUser
	}
	if v := e.tenant.Choices[k.name][c]; v != "" {
		return v, FromTenant
	}
	return k.defaults(c), FromDefault
}

// zone returns the time zone of the user. One that a newer time zone database lacks is UTC.
func (e inEffect) zone() *time.Location {
	for _, name := range []string{e.user.Zone, e.tenant.Zone} {
		if zone, err := time.LoadLocation(name); name != "" && err == nil {
			return zone
		}
	}
	return time.UTC
}

func (e inEffect) quiet() *Quiet {
	if e.user.Quiet != nil {
		return e.user.Quiet
	}
	return e.tenant.Quiet
}

// View contains preferences with the values in effect.
type View struct {
	Preferences

	Mail  *Address // nil: of a tenant
	Kinds []KindView
}

// KindView is a kind with its values in effect.
type KindView struct {
	Kind, Title, Audience string
	Severity              Severity
	Enabled, Mutable      bool
	Channels              []ChannelView
}

// ChannelView is the value of a channel with its source.
type ChannelView struct {
	Channel Channel
	Value   Value
	Source  Source
}

// Address is the e-mail address of a user, and why it receives no mail.
type Address struct {
	Address          string
	Verified         bool
	Enabled          bool // by the policy notification.email_enabled
	SuppressedAt     *time.Time
	SuppressedReason *string
}

// Preferences returns those of the caller.
func (s *Service) Preferences(ctx context.Context, c identity.Caller) (View, error) {
	all, err := read(ctx, s.DB, []uuid.UUID{c.User.UUID, c.Tenant.UUID})
	if err != nil {
		return View{}, err
	}
	view := s.view(c, all[c.User.UUID], inEffect{user: all[c.User.UUID], tenant: all[c.Tenant.UUID]})
	address, err := s.address(ctx, s.DB, c)
	view.Mail = &address
	return view, err
}

func (s *Service) address(ctx context.Context, q pg.Queryer, c identity.Caller) (Address, error) {
	a, err := pg.One(ctx, q, "e-mail address", selectAddress, func(row pgx.CollectableRow) (a Address, err error) {
		err = row.Scan(&a.Address, &a.Verified, &a.SuppressedAt, &a.SuppressedReason)
		return a, err
	}, c.User.UUID)
	a.Enabled = s.Policy(c.Tenant, ids.Project{}, c.User).Bool(policies.NotificationEmailEnabled)
	return a, err
}

// TenantPreferences returns the defaults of the caller's tenant.
func (s *Service) TenantPreferences(ctx context.Context, c identity.Caller) (View, error) {
	all, err := read(ctx, s.DB, []uuid.UUID{c.Tenant.UUID})
	own := all[c.Tenant.UUID]
	return s.view(c, own, inEffect{tenant: own}), err
}

func (s *Service) view(c identity.Caller, own Preferences, e inEffect) View {
	v, allowed := View{Preferences: own}, s.Policy(c.Tenant, ids.Project{}, c.User)
	for _, k := range slices.Concat(kinds(), directKinds()) {
		if k.audience.name == ofPlatform.name && c.Role == "user" {
			continue // operators are notified of dead letters
		}
		shown := KindView{
			Kind: k.name, Title: k.title, Audience: k.audience.name, Severity: k.severity, Mutable: k.mutable(),
			Enabled: k.enabled == "" || allowed.Bool(k.enabled),
		}
		for _, channel := range channels() {
			value, source := e.value(k, channel)
			shown.Channels = append(shown.Channels, ChannelView{channel, value, source})
		}
		v.Kinds = append(v.Kinds, shown)
	}
	return v
}

// Write is the change of preferences: it replaces them.
type Write struct {
	Preferences

	RevokeLinks bool // links of earlier e-mails no longer work
}

// check rejects what has no effect.
func (w Write) check() error {
	if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
		return errs.Invalid("time_zone", "%q is not in the time zone database", w.Zone).Try("write a name such as Europe/Berlin")
	}
	if w.Quiet != nil && w.Quiet.Start == w.Quiet.End {
		return errs.Invalid("quiet_hours.end", "must differ from start").Try("leave out quiet_hours to have none")
	}
	for name, byChannel := range w.Choices {
		k, err := kindNamed(name)
		if err != nil {
			return err
		}
		switch value := byChannel[InApp]; {
		case value == Off && !k.mutable():
			return errs.New(errs.SpecInvalid, "%s cannot be off in the application, because allocations or access end without an action of the user", name).At("choices").
				Try("choose now, or change the e-mails of this kind")
		case value == Hourly, value == Daily:
			return errs.Invalid("choices", "%s in the application can be off or now, and not %s", name, value).Try("choose a digest for email")
		}
	}
	return nil
}

// effective rejects what would change nothing.
func (w Write) effective(c identity.Caller, tenant bool) error {
	if tenant && w.RevokeLinks {
		return errs.Invalid("revoke_links", "has no effect on a tenant: the links of e-mails belong to users").Try("revoke the own links: gpuaas notifications preferences --revoke-links")
	}
	for name := range w.Choices {
		if k, err := kindNamed(name); err == nil && k.audience.name == ofPlatform.name && (tenant || c.Role != "admin" && c.Role != "operator") {
			return errs.Invalid("choices", "only administrators and operators of the platform are notified of %s", name)
		}
	}
	return nil
}

func kindNamed(name string) (kind, error) {
	for _, k := range slices.Concat(kinds(), directKinds()) {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, errs.Invalid("choices", "%q is no kind of notification", name).Try("gpuaas notifications preferences lists the kinds")
}

// Put replaces the preferences of the caller, or those of the caller's tenant, if they still have the version. It returns
// the view after the statements.
func (s *Service) Put(ctx context.Context, c identity.Caller, tenant bool, version int64, w Write) (View, func(*pgx.Batch), error) {
	if err := w.check(); err != nil {
		return View{}, nil, err
	}
	if err := w.effective(c, tenant); err != nil {
		return View{}, nil, err
	}
	load, id, scope, target := s.Preferences, c.User.UUID, "user", s.Naming.Name(c.Tenant.String(), "", "user", c.User.String())
	if tenant {
		load, id, scope, target = s.TenantPreferences, c.Tenant.UUID, "tenant", s.Naming.Name(c.Tenant.String(), "", "tenant", c.Tenant.String())
	}
	was, err := load(ctx, c)
	if err == nil {
		err = identity.CheckVersion(version, was.Version)
	}
	if err != nil {
		return View{}, nil, err
	}
	is := w.Preferences
	is.Version = was.Version + 1
	all, err := read(ctx, s.DB, []uuid.UUID{c.Tenant.UUID})
	if err != nil {
		return View{}, nil, err
	}
	e := inEffect{user: is, tenant: all[c.Tenant.UUID]}
	if tenant {
		e = inEffect{tenant: is}
	}
	after := s.view(c, is, e)
	after.Mail = was.Mail
	return after, func(b *pgx.Batch) {
		b.Queue(putPreferences, id, scope, document(is.Choices), is.Zone, is.Quiet.start(), is.Quiet.end(), was.Version, w.RevokeLinks).Exec(pg.OrElse(identity.ErrRaced))
		audit.Queue(b, audit.Entry{
			Tenant: c.Tenant, By: c.Cause(), Action: "notification.set_preferences", Target: target.String(), Before: was.Choices.recorded(), After: is.Choices.recorded(),
		})
	}, nil
}

// recorded returns the choices for an audit row, which has no part without any.
func (c Choices) recorded() any {
	if len(c) == 0 {
		return nil
	}
	return c
}

func document(c Choices) string {
	text, err := json.Marshal(c)
	if err != nil || c == nil {
		return "{}"
	}
	return string(text)
}

const (
	selectPreferences = `SELECT id, choices, time_zone, quiet_start, quiet_end, version FROM notification_preferences WHERE id = ANY ($1)`

	selectAddress = `
	SELECT c.email, c.verified, s.created_at, s.reason FROM user_contacts c
	LEFT JOIN suppressed_addresses s ON s.address = lower(c.email) AND s.lifted_at IS NULL WHERE c.id = $1`

	// Another request may have changed the row since it was read.
	putPreferences = `
	INSERT INTO notification_preferences AS p (id, scope, choices, time_zone, quiet_start, quiet_end, version)
	VALUES ($1, $2, $3, $4, $5, $6, $7 + 1)
	ON CONFLICT (id) DO UPDATE SET choices = excluded.choices, time_zone = excluded.time_zone, quiet_start = excluded.quiet_start,
		quiet_end = excluded.quiet_end, version = excluded.version, updated_at = now(), link_key = CASE WHEN $8 THEN NULL ELSE p.link_key END
	WHERE p.version = $7`
)
