package notification

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
	"github.com/gpuaas/gpuaas/policies"
)

// MailConfig contains the parts that send e-mails. Only the role of the workers has a Mailer.
type MailConfig struct {
	Mailer mails.Mailer
	From   string
	// PublicURL returns the address under which browsers reach the server.
	PublicURL func() string
}

// domain returns the domain of the sender, which is part of the ids of messages.
func (c MailConfig) domain() string {
	if from, err := mail.ParseAddress(c.From); err == nil {
		return from.Address[strings.LastIndexByte(from.Address, '@')+1:]
	}
	return "localhost"
}

// queueMails queues the e-mails that are sent at once, and adds the others to the digests of their users.
func (s *Service) queueMails(ctx context.Context, tx pgx.Tx, to []delivery) error {
	var atOnce []uuid.UUID
	digests := &pgx.Batch{}
	for _, d := range to {
		if d.due.IsZero() {
			atOnce = append(atOnce, d.id)
			continue
		}
		period := string(d.email)
		if d.email == Now {
			period = "quiet"
		}
		digests.Queue(addToDigest, d.user, period, d.due, uuid.Must(uuid.NewV7()), d.id).Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 { // the digest was queued at this moment
				atOnce = append(atOnce, d.id)
			}
			return nil
		})
	}
	if err := tx.SendBatch(ctx, digests).Close(); err != nil {
		return fmt.Errorf("adding to digests: %w", err)
	}
	return s.enqueue(ctx, tx, mails.FromNotification, atOnce)
}

func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, source mails.Source, of []uuid.UUID) error {
	if len(of) == 0 {
		return nil
	}
	all := make([]river.InsertManyParams, len(of))
	for i, id := range of {
		all[i] = river.InsertManyParams{Args: mails.SendMail{Source: source, ID: id}}
	}
	if _, err := s.Jobs.InsertManyTx(ctx, tx, all); err != nil {
		return fmt.Errorf("queueing e-mails: %w", err)
	}
	return nil
}

const (
	digestsAtOnce     = 500
	invitationsAtOnce = 500
)

// QueueDigests queues the e-mails of digests that are due. A digest and its job are one commit, so that none is sent twice.
func (s *Service) QueueDigests(ctx context.Context) error {
	for {
		n := 0
		err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			due, err := pg.List(ctx, tx, "digests", closeDigests, pgx.RowTo[uuid.UUID], s.Clock.Now(), digestsAtOnce)
			if n = len(due); err != nil {
				return err
			}
			return s.enqueue(ctx, tx, mails.FromDigest, due)
		})
		if err != nil || n < digestsAtOnce {
			return err
		}
	}
}

// QueueInvitations queues the e-mails of new invitations of tenants whose policy allows e-mail.
func (s *Service) QueueInvitations(ctx context.Context) error {
	type row struct{ ID, Tenant uuid.UUID }
	for after := uuid.Nil; ; {
		open, err := pg.List(ctx, s.DB, "invitations", selectNewInvitations, pgx.RowToStructByPos[row], after, invitationsAtOnce)
		if err != nil {
			return err
		}
		var those []uuid.UUID
		for _, i := range open {
			if after = i.ID; s.Policy(ids.From[ids.Tenant](i.Tenant), ids.Project{}, ids.User{}).Bool(policies.NotificationEmailEnabled) {
				those = append(those, i.ID)
			}
		}
		if err := s.queueInvitations(ctx, those); err != nil || len(open) < invitationsAtOnce {
			return err
		}
	}
}

// queueInvitations queues those of the invitations whose e-mails another worker has not queued meanwhile.
func (s *Service) queueInvitations(ctx context.Context, those []uuid.UUID) error {
	return pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		queued, err := pg.List(ctx, tx, "invitations", insertInvitationMails, pgx.RowTo[uuid.UUID], those)
		if err != nil {
			return err
		}
		return s.enqueue(ctx, tx, mails.FromInvitation, queued)
	})
}

// letter is an e-mail before it is rendered.
type letter struct {
	user    uuid.UUID // zero: an invitation
	address string
	thread  string // the URN of the resource
	cause   string // the correlation id
	content mails.Content
}

// skipped is the reason why an e-mail is not sent.
type skipped string

func (r skipped) Error() string { return string(r) }

// Send sends the e-mail of a job. It returns nil for one that is not needed any more, a mails.BusyError for one that must
// wait, and a mails.RejectedError for one whose address is suppressed now. An InvalidError will fail again.
func (s *Service) Send(ctx context.Context, args mails.SendMail) error {
	l, err := s.letter(ctx, args)
	if why, ok := errors.AsType[skipped](err); ok {
		s.Metrics.count(l.kind(args), Email, string(why))
		return nil
	}
	if err != nil {
		return err
	}
	m, err := mails.Render(l.content)
	if err != nil {
		s.Metrics.count(l.kind(args), Email, "invalid")
		return &InvalidError{err}
	}
	m.ID, m.From, m.To = args.ID.String()+"@"+s.Mail.domain(), s.Mail.From, l.address
	m.Thread, m.CorrelationID = mails.ThreadOf(l.thread, s.Mail.domain()), mails.Clean(l.cause)
	failpoint.Hit("mail.before_send")
	err = s.Mail.Mailer.Send(ctx, m)
	failpoint.Hit("mail.after_send")
	return s.sent(ctx, l.kind(args), m, err)
}

func (l letter) kind(args mails.SendMail) string {
	if l.content.Kind == "" {
		return string(args.Source)
	}
	return l.content.Kind
}

// InvalidError is the error of an e-mail that cannot be written.
type InvalidError struct{ error }

func (e *InvalidError) Unwrap() error { return e.error }

// sent counts the result, and suppresses an address that the server has rejected.
func (s *Service) sent(ctx context.Context, kind string, m mails.Message, err error) error {
	result := "deferred"
	rejected, permanent := errors.AsType[*mails.RejectedError](err)
	switch {
	case err == nil:
		result = "sent"
	case permanent:
		result = "rejected"
		if _, stored := s.DB.Exec(ctx, suppress, uuid.Must(uuid.NewV7()), strings.ToLower(m.To), mails.Clean(rejected.Text)); stored != nil {
			return fmt.Errorf("suppressing an address: %w", stored)
		}
	}
	if _, busy := errors.AsType[*mails.BusyError](err); !busy {
		s.Metrics.count(kind, Email, result)
	}
	return err
}

// GaveUp counts an e-mail whose last attempt has failed.
func (s *Service) GaveUp(args mails.SendMail) { s.Metrics.count(string(args.Source), Email, "failed") }

func (s *Service) letter(ctx context.Context, args mails.SendMail) (letter, error) {
	switch args.Source {
	case mails.FromInvitation:
		return s.invitation(ctx, args.ID)
	case mails.FromDigest:
		return s.ofNotifications(ctx, selectOfDigest, args.ID)
	case mails.FromNotification:
		return s.ofNotifications(ctx, selectOne, args.ID)
	}
	return letter{}, &InvalidError{errs.Invalid("source", "%q is no source of e-mails", args.Source)}
}

func (s *Service) invitation(ctx context.Context, id uuid.UUID) (letter, error) {
	l := letter{content: mails.Content{Kind: "invitation"}}
	var tenant, role string
	var ends time.Time
	var isSuppressed bool
	err := s.DB.QueryRow(ctx, selectInvitation, id).Scan(&l.address, &tenant, &role, &ends, &isSuppressed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return l, skipped("skipped")
	case err != nil:
		return l, fmt.Errorf("reading an invitation: %w", err)
	case isSuppressed:
		return l, skipped("suppressed")
	}
	l.content, err = mails.Invitation(tenant, role, ends.UTC().Format(timeForm))
	l.content.Base = s.Mail.PublicURL()
	return l, err
}

const timeForm = "2006-01-02 15:04 UTC"

// recipient is the user of an e-mail.
type recipient struct {
	ID                           uuid.UUID
	Address                      string
	Verified, Active, Suppressed bool
}

func (r recipient) reachable() error {
	switch {
	case !r.Verified, !r.Active:
		return skipped("skipped")
	case r.Suppressed:
		return skipped("suppressed")
	}
	return nil
}

// listed bounds the notifications in one e-mail.
const listed = 50

// ofNotifications writes one e-mail of those notifications that the user still wants.
func (s *Service) ofNotifications(ctx context.Context, sql string, id uuid.UUID) (l letter, err error) {
	all, err := pg.List(ctx, s.DB, "notifications", sql, pgx.RowToStructByPos[toSend], id)
	if err != nil || len(all) == 0 {
		return l, errors.Join(err, skippedIf(err == nil))
	}
	l.content.Kind = all[0].Kind
	to, err := pg.One(ctx, s.DB, "user", selectRecipient, pgx.RowToStructByPos[recipient], all[0].User)
	if err == nil {
		err = to.reachable()
	}
	if err != nil {
		return l, err
	}
	if all, err = s.wanted(ctx, all); err != nil {
		return l, err
	}
	if len(all) == 0 {
		return l, skipped("skipped")
	}
	return s.write(ctx, to, all)
}

func skippedIf(none bool) error {
	if none {
		return skipped("skipped")
	}
	return nil
}

// toSend is a notification for an e-mail.
type toSend struct {
	ID, User       uuid.UUID
	Tenant         *uuid.UUID
	Kind, URN      string
	Title, Message string
	Count          int
	CorrelationID  string
	CreatedAt      time.Time
}

func (n toSend) tenant() ids.Tenant {
	if n.Tenant == nil {
		return ids.Tenant{}
	}
	return ids.From[ids.Tenant](*n.Tenant)
}

// wanted leaves out the notifications whose e-mails a policy or the user has ended since they were queued, and those that
// the user must not receive any more.
func (s *Service) wanted(ctx context.Context, all []toSend) (wanted []toSend, err error) {
	user := all[0].User
	of := []uuid.UUID{user}
	for _, n := range all {
		of = append(of, n.tenant().UUID)
	}
	own, err := read(ctx, s.DB, slices.Compact(of))
	if err != nil {
		return nil, err
	}
	may := s.membership(user)
	for _, n := range all {
		k, err := kindOrTest(n.Kind)
		if err != nil {
			continue // of an earlier release
		}
		policy := s.Policy(n.tenant(), ids.Project{}, ids.From[ids.User](user))
		value, _ := inEffect{user: own[user], tenant: own[n.tenant().UUID]}.value(k, Email)
		if value == Off || !policy.Bool(policies.NotificationEmailEnabled) || k.enabled != "" && !policy.Bool(k.enabled) {
			continue
		}
		if is, err := may(ctx, k, n); err != nil {
			return nil, err
		} else if is {
			wanted = append(wanted, n)
		}
	}
	return wanted, nil
}

// membership returns a function that reports whether the user still belongs to the audience of a notification. Roles may
// have changed while an e-mail waited. The owner of an allocation must still be in the tenant.
func (s *Service) membership(user uuid.UUID) func(context.Context, kind, toSend) (bool, error) {
	type group struct {
		audience string
		tenant   ids.Tenant
		project  ids.Project
	}
	known := map[group]bool{}
	return func(ctx context.Context, k kind, n toSend) (bool, error) {
		g := group{k.audience.name, n.tenant(), projectOf(n.URN)}
		if is, ok := known[g]; ok || k.audience.roles == nil {
			return is || k.audience.roles == nil, nil
		}
		r := k.audience.roles(event.Event{Tenant: g.tenant, Project: g.project})
		if k.audience.name == ofProject.name {
			r.User = ids.From[ids.User](user)
		}
		users, err := identity.UsersWithRoles(ctx, s.DB, g.tenant, g.project, r)
		known[g] = slices.Contains(users, user)
		return known[g], err
	}
}

// projectOf returns the project of a URN, or zero.
func projectOf(urn string) ids.Project {
	parts := strings.Split(urn, ":")
	if len(parts) < 5 {
		return ids.Project{}
	}
	id, _ := uuid.Parse(parts[4]) // zero without a project
	return ids.From[ids.Project](id)
}

// write returns the content. The link that ends these e-mails is signed with the key of the user, which the first e-mail
// creates.
func (s *Service) write(ctx context.Context, to recipient, all []toSend) (letter, error) {
	var key []byte
	if err := s.DB.QueryRow(ctx, ensureLinkKey, to.ID, mails.NewKey()).Scan(&key); err != nil {
		return letter{}, fmt.Errorf("reading the key of links: %w", err)
	}
	c := mails.Content{Kind: all[0].Kind, Subject: all[0].Title, Base: s.Mail.PublicURL()}
	link := mails.Link{User: to.ID}
	for _, n := range all[:min(len(all), listed)] {
		k, err := kindOrTest(n.Kind)
		if err != nil {
			return letter{}, err
		}
		c.Entries = append(c.Entries, k.entry(content{urn: n.URN, title: n.Title, message: n.Message}, n.Count, n.CreatedAt.UTC().Format(timeForm)))
		c.Audience = k.audience.name
		if n.Kind != testKind.name && !slices.Contains(link.Kinds, n.Kind) {
			link.Kinds = append(link.Kinds, n.Kind)
		}
	}
	if len(link.Kinds) > 0 {
		c.Token = link.Token(key, to.Address)
	}
	l := letter{user: to.ID, address: to.Address, thread: all[0].URN, cause: all[0].CorrelationID, content: c}
	if len(all) > 1 {
		l.thread, l.cause = "", ""
		return l, l.content.Digest(len(all))
	}
	return l, nil
}

// checkMail reports whether the e-mail of a notification can be written. It runs in the effect of the event, which becomes a
// dead letter if not: operators can repair the template and retry it.
func (k kind) checkMail(about content) error {
	_, err := mails.Render(mails.Content{Kind: k.name, Subject: about.title, Audience: k.audience.name, Entries: []mails.Entry{k.entry(about, 1, "")}})
	return err
}

func (k kind) entry(about content, count int, at string) mails.Entry {
	return mails.Entry{Kind: k.name, Title: about.title, Message: about.message, Count: count, At: at, Screen: k.screenOf(about.urn)}
}

// screenOf returns the screen of the portal about a resource.
func (k kind) screenOf(urn string) string {
	if strings.HasSuffix(k.screen, "/") {
		return k.screen + url.PathEscape(urn[strings.LastIndexByte(urn, ':')+1:])
	}
	return k.screen
}
